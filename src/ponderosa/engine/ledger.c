/* What ledger.py says with torch, here in one call each: the weights of the next steps, what they weigh, and the gradients.

Arrays: of each step and unit [steps, units], of each unit [units], of what is weighed values [steps, units, size]. */

#include <stdint.h>
#include <string.h>

/* Whoever ends gets what its shares have left, `left` where the mechanism knows it better; no shares: none before the end.
   alive, spent and taken (steps) of each unit, before these steps and after them. */
void settle(int64_t steps, int64_t units, int64_t limit, const float *shares, const uint8_t *dones, const float *left,
            const uint8_t *alive, const float *spent, const int64_t *taken, float *weights, uint8_t *alive_after,
            float *spent_after, int64_t *taken_after) {
    memcpy(alive_after, alive, units), memcpy(spent_after, spent, units * sizeof(float));
    memcpy(taken_after, taken, units * sizeof(int64_t));
    for (int64_t k = 0; k < steps; k++)
        for (int64_t u = 0; u < units; u++) {
            int64_t at = k * units + u;
            weights[at] = 0.0f;
            if (!alive_after[u]) continue;
            taken_after[u]++;
            if (dones[at] || (limit && k == steps - 1)) {
                float rest = left ? left[u] : 1.0f - spent_after[u];
                weights[at] = rest < 0.0f ? 0.0f : rest;
                alive_after[u] = 0;
            } else if (shares) weights[at] = shares[at], spent_after[u] += shares[at];
        }
}

/* From the gradients of the weights and of spent_after; those who ended did so with what they were `told` was left, or with
   the difference. */
void settle_back(int64_t steps, int64_t units, int64_t told, const uint8_t *alive, const int64_t *taken,
                 const uint8_t *alive_after, const float *spent_after, const int64_t *taken_after, const float *grad,
                 const float *grad_spent, float *d_shares, float *d_left, float *d_spent) {
    for (int64_t u = 0; u < units; u++) {
        float end = alive[u] && !alive_after[u] ? grad[(taken_after[u] - taken[u] - 1) * units + u] : 0.0f;
        d_left[u] = end;
        d_spent[u] = grad_spent[u] - (told || spent_after[u] > 1.0f ? 0.0f : end);
    }
    for (int64_t k = 0; k < steps; k++)
        for (int64_t u = 0; u < units; u++) {
            int64_t at = k * units + u, ended = alive[u] && !alive_after[u];
            d_shares[at] = k < taken_after[u] - taken[u] - ended ? grad[at] + d_spent[u] : 0.0f;
        }
}

/* What weighs nothing may be anything, infinite numbers included. */
static void add(int64_t size, float weight, const float *restrict values, float *restrict total) {
    if (weight == 0.0f) return;
    for (int64_t j = 0; j < size; j++) total[j] += weight * values[j];
}

/* One number per unit: the loop goes over units, side by side. */
static void add_each(int64_t units, const float *restrict weights, const float *restrict values, float *restrict total) {
    for (int64_t u = 0; u < units; u++) total[u] += weights[u] == 0.0f ? 0.0f : weights[u] * values[u];
}

void weigh(int64_t steps, int64_t units, int64_t size, const float *weights, const float *values, float *total) {
    memset(total, 0, units * size * sizeof(float));
    if (size == 1)
        for (int64_t k = 0; k < steps; k++) add_each(units, weights + k * units, values + k * units, total);
    else for (int64_t at = 0; at < steps * units; at++)
        add(size, weights[at], values + at * size, total + at % units * size);
}

static float differentiate(int64_t size, float weight, const float *restrict values, const float *restrict grad,
                           float *restrict d_values) {
    float sums[16] = {0}; /* side by side, as the numbers in a register */
    int64_t j = 0;
    for (; j + 16 <= size; j += 16)
        for (int i = 0; i < 16; i++) sums[i] += values[j + i] * grad[j + i], d_values[j + i] = weight * grad[j + i];
    for (; j < size; j++) sums[0] += values[j] * grad[j], d_values[j] = weight * grad[j];
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) sums[i] += sums[i + half];
    return sums[0];
}

/* `others`: what the weights' gradients have from elsewhere, or NULL; d_weights is NULL where nobody asks for them. */
void weigh_back(int64_t steps, int64_t units, int64_t size, const float *weights, const float *values, const float *grad,
                const float *others, float *d_weights, float *d_values) {
    for (int64_t at = 0; at < steps * units; at++) {
        const float *given = grad + at % units * size;
        float *d = d_values + at * size;
        if (d_weights)
            d_weights[at] = differentiate(size, weights[at], values + at * size, given, d) + (others ? others[at] : 0.0f);
        else for (int64_t j = 0; j < size; j++) d[j] = weights[at] * given[j];
    }
}
