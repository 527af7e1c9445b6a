/* The element-wise work of one GRU step in one pass over its numbers: gru_in_place.py says the same with torch. */

#include <stdint.h>
#include <string.h>

/* Without a branch or a call, so that the compiler computes many at once. NaN goes through. */
static inline float sigmoid(float x) {
    x = x < -87.0f ? -87.0f : x > 87.0f ? 87.0f : x;
    float shifted = 12582912.0f - x * 1.44269504f; /* adding 1.5 * 2^23 rounds: exp(-x) = 2^n exp(f), |f| < log(2) / 2 */
    float n = shifted - 12582912.0f;
    float f = -x - n * 0.693359375f + n * 2.12194440e-4f; /* log(2) in two parts, for the digits of f */
    float p = 1.9875691500e-4f; /* exp(f), by the polynomial of the Cephes library */
    p = p * f + 1.3981999507e-3f;
    p = p * f + 8.3334519073e-3f;
    p = p * f + 4.1665795894e-2f;
    p = p * f + 1.6666665459e-1f;
    p = p * f + 5.0000001201e-1f;
    p = p * f * f + f + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, 4);
    bits = (bits << 23) + 0x3f800000u; /* n as the exponent of 2^n */
    float power;
    memcpy(&power, &bits, 4);
    return 1.0f / (1.0f + p * power);
}

/* One example each: a function of its own promises the compiler that these arrays do not overlap. */
static void activate_one(int64_t size, float *restrict r, float *restrict z, const float *restrict g,
                         const float *restrict input, const float *restrict before, float *restrict candidate,
                         float *restrict after) {
    for (int64_t j = 0; j < size; j++) {
        float rj = sigmoid(r[j]), zj = sigmoid(z[j]), cj = 1.0f - 2.0f * sigmoid(input[j] - 2.0f * rj * g[j]);
        r[j] = rj, z[j] = zj, candidate[j] = cj;
        after[j] = cj + zj * (before[j] - cj);
    }
}

static void differentiate_one(int64_t size, const float *restrict r, const float *restrict z, const float *restrict g,
                              const float *restrict candidate, const float *restrict after, const float *restrict grad,
                              float *restrict d_state, float *restrict d_gates, float *restrict sum_gates,
                              float *restrict sum_c) {
    for (int64_t j = 0; j < size; j++) {
        float d_new = d_state[j] * (1.0f - z[j]), d_c = d_new * (1.0f - candidate[j] * candidate[j]);
        float d_r = d_c * g[j] * r[j] * (1.0f - r[j]), d_z = d_new * (after[j] - candidate[j]), d_g = d_c * r[j];
        d_gates[j] = d_r, d_gates[size + j] = d_z, d_gates[2 * size + j] = d_g;
        sum_gates[j] += d_r, sum_gates[size + j] += d_z, sum_gates[2 * size + j] += d_g, sum_c[j] += d_c;
        d_state[j] = grad[j] + d_state[j] * z[j];
    }
}

/* As torch does, small batches are left to one thread. */
void activate(int64_t batch, int64_t size, float *gates, const float *input, const float *before, float *candidate,
              float *after) {
#pragma omp parallel for if (batch * size > 32768)
    for (int64_t b = 0; b < batch; b++) {
        float *r = gates + 3 * b * size;
        int64_t at = b * size;
        activate_one(size, r, r + size, r + 2 * size, input + at, before + at, candidate + at, after + at);
    }
}

void differentiate(int64_t batch, int64_t size, const float *gates, const float *candidate, const float *after,
                   const float *grad, float *d_state, float *d_gates, float *sum_gates, float *sum_c) {
#pragma omp parallel for if (batch * size > 32768)
    for (int64_t b = 0; b < batch; b++) {
        const float *r = gates + 3 * b * size;
        int64_t at = b * size;
        differentiate_one(size, r, r + size, r + 2 * size, candidate + at, after + at, grad + at, d_state + at,
                          d_gates + 3 * at, sum_gates + 3 * at, sum_c + at);
    }
}
