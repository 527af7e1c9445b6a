/* Many steps of a GRU and their gradients: what gru_unroll.py says with torch, here in one call and few passes.

The rows of a batch do not see each other: threads share them out, each taking its rows through all steps (`advance` has too few of
them: there the threads share the weights).
Arrays: inputs [batch, 3 size], state [batch, size], weight [3 size, size], bias [3 size]; of each step gates (r, z and g)
[steps, batch, 3 size], candidates and states [steps, batch, size]; ends [batch + 2], how many steps were taken by each row, how many
threads shared the rows, and how many steps were taken at most. */

#include "numbers.h"

enum { COLUMNS = 2 * LANES }; /* what the registers hold of a product: ROWS x COLUMNS sums */

/* c = start + a b for one block of sums: a [ROWS, k], b [k, COLUMNS]; the first `top` rows and `left` columns of c stay. */
static void block(int64_t k, matrix a, const float *b, const float *start, float *c, int64_t stride, int64_t top, int64_t left) {
    vector sum[ROWS][2];
    for (int i = 0; i < ROWS; i++)
        for (int half = 0; half < 2; half++) sum[i][half] = *(const vector *)(start + i * stride + half * LANES);
    for (int64_t p = 0; p < k; p++, b += stride) {
        vector first = *(const vector *)b, second = *(const vector *)(b + LANES);
        for (int i = 0; i < ROWS; i++) {
            float factor = a.at[i * a.row + p * a.column];
            sum[i][0] += factor * first, sum[i][1] += factor * second;
        }
    }
    if (!top && !left) { /* out of the registers, without a detour */
        for (int i = 0; i < ROWS; i++)
            for (int half = 0; half < 2; half++) *(vector *)(c + i * stride + half * LANES) = sum[i][half];
        return;
    }
    float sums[ROWS][COLUMNS];
    memcpy(sums, sum, sizeof sums);
    for (int64_t i = top; i < ROWS; i++) memcpy(c + i * stride + left, sums[i] + left, (COLUMNS - left) * sizeof(float));
}

typedef struct { const float *weight, *bias; double level; } unit; /* a halting unit, and what the sum of its sigmoids must reach */

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* c = start + a b: a [m, k], b [k, n], start and c [m, n], which may be the same. The last blocks reach back over others'. */
static void add_product(int64_t m, int64_t n, int64_t k, matrix a, const float *b, const float *start, float *c) {
    if (m < ROWS || n < COLUMNS) {
        memmove(c, start, m * n * sizeof(float));
        for (int64_t i = 0; i < m; i++)
            for (int64_t p = 0; p < k; p++)
                for (int64_t j = 0; j < n; j++) c[i * n + j] += a.at[i * a.row + p * a.column] * b[p * n + j];
        return;
    }
    for (int64_t j = 0; j < n; j += COLUMNS)
        for (int64_t i = 0; i < m; i += ROWS) {
            int64_t row = smaller(i, m - ROWS), column = smaller(j, n - COLUMNS);
            matrix rows = {a.at + row * a.row, a.row, a.column};
            block(k, rows, b + column, start + row * n + column, c + row * n + column, n, i - row, j - column);
        }
}

static inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

/* One example each: a function of its own promises the compiler that these arrays do not overlap. */
static void activate(int64_t size, const float *restrict input, const float *restrict before, float *restrict r,
                     float *restrict z, const float *restrict g, float *restrict candidate, float *restrict after) {
    for (int64_t j = 0; j < size; j++) {
        float rj = sigmoid(r[j]), zj = sigmoid(z[j]), cj = 1.0f - 2.0f * sigmoid(-2.0f * (input[j] + rj * g[j]));
        r[j] = rj, z[j] = zj, candidate[j] = cj;
        after[j] = cj + zj * (before[j] - cj);
    }
}

static void differentiate(int64_t size, const float *restrict r, const float *restrict z, const float *restrict g,
                          const float *restrict candidate, const float *restrict after, const float *restrict grad,
                          float *restrict d_state, float *restrict d_gates, float *restrict d_inputs,
                          float *restrict d_g) {
    for (int64_t j = 0; j < size; j++) {
        float d = d_state[j] + grad[j], d_new = d * (1.0f - z[j]), d_c = d_new * (1.0f - candidate[j] * candidate[j]);
        float d_rj = d_c * g[j] * r[j] * (1.0f - r[j]), d_zj = d_new * (after[j] - candidate[j]), d_gj = d_c * r[j];
        d_gates[j] = d_rj, d_gates[size + j] = d_zj, d_gates[2 * size + j] = d_gj;
        d_inputs[j] += d_rj, d_inputs[size + j] += d_zj, d_inputs[2 * size + j] += d_c, d_g[j] += d_gj;
        d_state[j] = d * z[j];
    }
}

static int is_zero(int64_t count, const float *numbers) {
    for (int64_t i = 0; i < count; i++)
        if (numbers[i] != 0.0f) return 0;
    return 1;
}

enum { LINES = 4 }; /* of weights that are multiplied together with a state: one sum would wait for itself at every addition */

/* c[j] += a . b[j]: a [size], b [lines, size]. */
static inline __attribute__((always_inline)) void dots(int lines, int64_t size, const float *a, const float *b, float *c) {
    vector sums[LINES] = {0};
    int64_t p = 0;
    for (; p + LANES <= size; p += LANES)
        for (int j = 0; j < lines; j++) sums[j] += *(const vector *)(a + p) * *(const vector *)(b + j * size + p);
    for (int j = 0; j < lines; j++) {
        c[j] += total(sums[j]);
        for (int64_t rest = p; rest < size; rest++) c[j] += a[rest] * b[j * size + rest];
    }
}

static float dot(int64_t size, const float *a, const float *b) {
    float sum = 0.0f;
    dots(1, size, a, b, &sum);
    return sum;
}

/* What a halting unit reads of these states; whether the sums of its rows are all past the level. */
static int read_logits(int64_t rows, int64_t size, const float *states, const unit *halt, float *logits, double *sums) {
    for (int64_t i = 0; i < rows; i++) logits[i] = *halt->bias + dot(size, states + i * size, halt->weight);
    if (halt->level == INFINITY) return 0;
    int all = 1;
    for (int64_t i = 0; i < rows; i++) sums[i] += sigmoid(logits[i]);
    for (int64_t i = 0; i < rows; i++) all &= sums[i] >= halt->level;
    return all;
}

/* The gradients of one logit: of the state that was read, and of the unit's weights and, after them, its bias. */
static void differentiate_logit(int64_t size, float d_logit, const float *restrict weight, const float *restrict state,
                                float *restrict d_state, float *restrict d_halt) {
    if (d_logit == 0.0f) return;
    for (int64_t j = 0; j < size; j++) d_state[j] += d_logit * weight[j], d_halt[j] += d_logit * state[j];
    d_halt[size] += d_logit;
}

/* How many steps were taken: all, or those after which every row is past the halting unit's level. */
static int64_t forward_rows(int64_t batch, int64_t size, int64_t first, int64_t end, int64_t rows, const float *inputs,
                            const float *before, const float *transposed, const float *bias, const unit *halt, float *gates,
                            float *candidates, float *states, float *start, double *sums, float *logits) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < 3 * size; j++)
            start[3 * i * size + j] = bias[j] + (j < 2 * size ? inputs[3 * i * size + j] : 0.0f);
    for (int64_t k = first; k < end; k++) {
        float *gate = gates + 3 * k * batch * size, *candidate = candidates + k * batch * size, *after = states + k * batch * size;
        if (k) before = after - batch * size;
        int64_t seen = k || !is_zero(rows * size, before) ? size : 0;
        add_product(rows, 3 * size, seen, (matrix){before, size, 1}, transposed, start, gate);
        for (int64_t i = 0; i < rows; i++) {
            float *r = gate + 3 * i * size;
            activate(size, inputs + (3 * i + 2) * size, before + i * size, r, r + size, r + 2 * size, candidate + i * size,
                     after + i * size);
        }
        if (halt->weight && read_logits(rows, size, after, halt, logits + k * batch, sums)) return k + 1;
    }
    return end;
}

static void backward_rows(int64_t batch, int64_t size, int64_t end, int64_t rows, int64_t state_too, const float *state,
                          const float *weight, const float *halt, const float *gates, const float *candidates,
                          const float *states, const float *grad, const float *d_logits, float *d_inputs, float *d_state,
                          float *d_weight, float *d_bias, float *d_halt, float *d_gates, float *d_g) {
    memset(d_inputs, 0, 3 * rows * size * sizeof(float)), memset(d_state, 0, rows * size * sizeof(float));
    memset(d_weight, 0, 3 * size * size * sizeof(float)), memset(d_bias, 0, 3 * size * sizeof(float));
    memset(d_g, 0, rows * size * sizeof(float));
    if (d_logits) memset(d_halt, 0, (size + 1) * sizeof(float));
    for (int64_t k = end - 1; k >= 0; k--) {
        const float *before = k ? states + (k - 1) * batch * size : state;
        for (int64_t i = 0; i < rows; i++) {
            const float *r = gates + 3 * (k * batch + i) * size;
            int64_t at = (k * batch + i) * size;
            if (d_logits) differentiate_logit(size, d_logits[k * batch + i], halt, states + at, d_state + i * size, d_halt);
            differentiate(size, r, r + size, r + 2 * size, candidates + at, states + at, grad + at, d_state + i * size,
                          d_gates + 3 * i * size, d_inputs + 3 * i * size, d_g + i * size);
        }
        if (k || !is_zero(rows * size, state))
            add_product(3 * size, size, rows, (matrix){d_gates, 1, 3 * size}, before, d_weight, d_weight);
        if (k || state_too) add_product(rows, size, 3 * size, (matrix){d_gates, 3 * size, 1}, weight, d_state, d_state);
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < 3 * size; j++)
            d_bias[j] += j < 2 * size ? d_inputs[3 * i * size + j] : d_g[i * size + j - 2 * size];
}

#define FIRST(thread) (batch * (thread) / threads) /* of a thread's rows */

/* The steps `first` to `end` of `steps`, of which `room` keeps the gates, the candidates and the states, in this order; fewer
   where a halting unit is given (or else NULL) and all are past its level: then the states and logits of the other steps are
   zero. */
void forward(int64_t threads, int64_t batch, int64_t size, int64_t steps, int64_t first, int64_t end, double level,
             const float *inputs, const float *state, const float *transposed, const float *bias, const float *halt_weight,
             const float *halt_bias, float *room, float *start, double *sums, float *logits, int64_t *ends) {
    int64_t part = steps * batch * size;
    unit halt = {halt_weight, halt_bias, level};
#pragma omp parallel for num_threads(threads)
    for (int64_t t = 0; t < threads; t++) {
        int64_t rows = FIRST(t + 1) - FIRST(t), at = FIRST(t) * size;
        int64_t taken = forward_rows(batch, size, first, end, rows, inputs + 3 * at, state + at, transposed, bias, &halt,
                                     room + 3 * at, room + 3 * part + at, room + 4 * part + at, start + 3 * at, sums + FIRST(t),
                                     logits + FIRST(t));
        for (int64_t i = FIRST(t); i < FIRST(t + 1); i++) ends[i] = taken;
        for (int64_t k = taken; k < end; k++) {
            memset(room + 4 * part + k * batch * size + at, 0, rows * size * sizeof(float));
            memset(logits + k * batch + FIRST(t), 0, rows * sizeof(float));
        }
    }
    ends[batch] = threads, ends[batch + 1] = batch ? 0 : end;
    for (int64_t i = 0; i < batch; i++) ends[batch + 1] = ends[i] > ends[batch + 1] ? ends[i] : ends[batch + 1];
}

/* From the gradients of the states and of the halting unit's logits (or NULL), as far as steps were taken; d_halt [size + 1] is for
   its weights and bias. Room to work in: d_gates [batch, 3 size], d_g [batch, size], and for what each thread but the first finds
   for the weights, the biases and the halting unit [threads - 1, 3 size (size + 1) + size + 1]. */
void backward(int64_t batch, int64_t size, int64_t steps, int64_t state_too, const int64_t *ends, const float *state,
              const float *weight, const float *halt, const float *room, const float *grad, const float *d_logits,
              float *d_inputs, float *d_state, float *d_weight, float *d_bias, float *d_halt, float *d_gates, float *d_g,
              float *others) {
    int64_t part = steps * batch * size, threads = ends[batch], counts[] = {3 * size * size, 3 * size, d_logits ? size + 1 : 0};
    int64_t each = counts[0] + counts[1] + counts[2];
#pragma omp parallel for num_threads(threads)
    for (int64_t t = 0; t < threads; t++) {
        int64_t rows = FIRST(t + 1) - FIRST(t), at = FIRST(t) * size, end = 0;
        for (int64_t i = FIRST(t); i < FIRST(t + 1); i++) end = ends[i] > end ? ends[i] : end;
        float *own = others + (t - 1) * each;
        backward_rows(batch, size, end, rows, state_too, state + at, weight, halt, room + 3 * at, room + 3 * part + at,
                      room + 4 * part + at, grad + at, d_logits ? d_logits + FIRST(t) : 0, d_inputs + 3 * at, d_state + at,
                      t ? own : d_weight, t ? own + counts[0] : d_bias, t ? own + counts[0] + counts[1] : d_halt,
                      d_gates + 3 * at, d_g + at);
    }
    float *all[] = {d_weight, d_bias, d_halt};
    for (int64_t t = 1; t < threads; t++)
        for (int kind = 0; kind < 3; kind++)
            for (int64_t j = 0; j < counts[kind]; j++) all[kind][j] += *others++;
}

/* Several steps of a few rows, and only their last states: the weights are read as they lie, once a step, by all threads together.
   Room to work in: gates [batch, 3 size], candidates and other [batch, size]; the states go back and forth between `other` and
   `after`, where the last ones stay. */
void advance(int64_t threads, int64_t batch, int64_t size, int64_t steps, const float *inputs, const float *state,
             const float *weight, const float *bias, float *gates, float *candidates, float *other, float *after) {
#pragma omp parallel num_threads(threads)
    for (int64_t k = 0; k < steps; k++) {
        int64_t to_after = (steps - k) % 2; /* at every other step, the last among them */
        const float *before = !k ? state : to_after ? other : after;
#pragma omp for schedule(static)
        for (int64_t line = 0; line < 3 * size; line += LINES)
            for (int64_t i = 0; i < batch; i++) {
                int64_t end = smaller(line + LINES, 3 * size);
                float *gate = gates + 3 * i * size;
                for (int64_t j = line; j < end; j++) gate[j] = bias[j] + (j < 2 * size ? inputs[3 * i * size + j] : 0.0f);
                if (end - line == LINES) dots(LINES, size, before + i * size, weight + line * size, gate + line);
                else for (int64_t j = line; j < end; j++) dots(1, size, before + i * size, weight + j * size, gate + j);
            }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < batch; i++) {
            float *r = gates + 3 * i * size;
            activate(size, inputs + (3 * i + 2) * size, before + i * size, r, r + size, r + 2 * size, candidates + i * size,
                     (to_after ? after : other) + i * size);
        }
    }
}
