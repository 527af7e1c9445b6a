/* Many steps of a GRU and their gradients: what gru_unroll.py says with torch, here in one call and few passes.

The rows of a batch do not see each other: threads share them out, each taking its rows through all steps.
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

/* A linear layer on the states, [count, size] and [count]: a halting unit or a head; weight is NULL where there is none. */
typedef struct { int64_t count; const float *weight, *bias; } linear;
/* Its way back: the gradients of what it read, and room for those of its weights and, after them, its biases. */
typedef struct { linear layer; const float *grad; float *found; } linear_back;

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
                          const float *restrict candidate, const float *restrict after, float *restrict d_state,
                          float *restrict d_gates, float *restrict d_inputs, float *restrict d_g) {
    for (int64_t j = 0; j < size; j++) {
        float d = d_state[j], d_new = d * (1.0f - z[j]), d_c = d_new * (1.0f - candidate[j] * candidate[j]);
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

static float dot(int64_t size, const float *a, const float *b) {
    vector sums = {0};
    int64_t j = 0;
    for (; j + LANES <= size; j += LANES) sums += *(const vector *)(a + j) * *(const vector *)(b + j);
    float sum = total(sums);
    for (; j < size; j++) sum += a[j] * b[j];
    return sum;
}

static void read_states(int64_t rows, int64_t size, const float *states, linear layer, float *found) {
    if (!layer.weight) return;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < layer.count; j++)
            *found++ = layer.bias[j] + dot(size, states + i * size, layer.weight + j * size);
}

/* Whether the sums of the logits' sigmoids are past the level in all rows. */
static int all_past(int64_t rows, double level, const float *logits, double *sums) {
    if (level == INFINITY) return 0;
    int all = 1;
    for (int64_t i = 0; i < rows; i++) sums[i] += sigmoid(logits[i]);
    for (int64_t i = 0; i < rows; i++) all &= sums[i] >= level;
    return all;
}

static void add(int64_t size, float factor, const float *restrict numbers, float *restrict sums) {
    for (int64_t j = 0; j < size; j++) sums[j] += factor * numbers[j];
}

/* What was read of the state of row `at` of all steps: the gradients of that state, and of the layer. */
static void differentiate_read(int64_t size, int64_t at, const float *state, const linear_back *back, float *d_state) {
    if (!back->grad) return;
    int64_t count = back->layer.count;
    for (int64_t j = 0; j < count; j++) {
        float d = back->grad[at * count + j];
        if (d == 0.0f) continue;
        add(size, d, back->layer.weight + j * size, d_state), add(size, d, state, back->found + j * size);
        back->found[count * size + j] += d;
    }
}

/* How many steps were taken: all, or those after which every row is past the halting unit's level. */
static int64_t forward_rows(int64_t batch, int64_t size, int64_t first, int64_t end, int64_t rows, const float *inputs,
                            const float *before, const float *transposed, const float *bias, linear halt, double level,
                            linear head, float *gates, float *candidates, float *states, float *start, double *sums,
                            float *logits, float *answers) {
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
        read_states(rows, size, after, head, answers + k * batch * head.count);
        read_states(rows, size, after, halt, logits + k * batch);
        if (all_past(rows, level, logits + k * batch, sums)) return k + 1;
    }
    return end;
}

static void backward_rows(int64_t batch, int64_t size, int64_t end, int64_t rows, int64_t state_too, const float *state,
                          const float *weight, linear_back halt, linear_back head, const float *gates,
                          const float *candidates, const float *states, const float *grad, float *d_inputs, float *d_state,
                          float *d_weight, float *d_bias, float *d_gates, float *d_g) {
    memset(d_inputs, 0, 3 * rows * size * sizeof(float)), memset(d_state, 0, rows * size * sizeof(float));
    memset(d_weight, 0, 3 * size * size * sizeof(float)), memset(d_bias, 0, 3 * size * sizeof(float));
    memset(d_g, 0, rows * size * sizeof(float));
    if (halt.grad) memset(halt.found, 0, halt.layer.count * (size + 1) * sizeof(float));
    if (head.grad) memset(head.found, 0, head.layer.count * (size + 1) * sizeof(float));
    for (int64_t k = end - 1; k >= 0; k--) {
        const float *before = k ? states + (k - 1) * batch * size : state;
        for (int64_t i = 0; i < rows; i++) {
            const float *r = gates + 3 * (k * batch + i) * size;
            int64_t at = (k * batch + i) * size;
            float *d = d_state + i * size;
            if (grad) add(size, 1.0f, grad + at, d);
            differentiate_read(size, k * batch + i, states + at, &halt, d);
            differentiate_read(size, k * batch + i, states + at, &head, d);
            differentiate(size, r, r + size, r + 2 * size, candidates + at, states + at, d, d_gates + 3 * i * size,
                          d_inputs + 3 * i * size, d_g + i * size);
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
   where a halting unit is given (or else NULL) and all are past its level: then the states, logits and answers of the other
   steps are zero. */
void forward(int64_t threads, int64_t batch, int64_t size, int64_t steps, int64_t first, int64_t end, int64_t answered,
             double level, const float *inputs, const float *state, const float *transposed, const float *bias,
             const float *halt_weight, const float *halt_bias, const float *head_weight, const float *head_bias, float *room,
             float *start, double *sums, float *logits, float *answers, int64_t *ends) {
    int64_t part = steps * batch * size;
    linear halt = {1, halt_weight, halt_bias}, head = {answered, head_weight, head_bias};
#pragma omp parallel for num_threads(threads)
    for (int64_t t = 0; t < threads; t++) {
        int64_t rows = FIRST(t + 1) - FIRST(t), at = FIRST(t) * size;
        int64_t taken = forward_rows(batch, size, first, end, rows, inputs + 3 * at, state + at, transposed, bias, halt, level,
                                     head, room + 3 * at, room + 3 * part + at, room + 4 * part + at, start + 3 * at,
                                     sums + FIRST(t), logits + FIRST(t), answers + FIRST(t) * answered);
        for (int64_t i = FIRST(t); i < FIRST(t + 1); i++) ends[i] = taken;
        for (int64_t k = taken; k < end; k++) {
            memset(room + 4 * part + k * batch * size + at, 0, rows * size * sizeof(float));
            memset(logits + k * batch + FIRST(t), 0, rows * sizeof(float));
            memset(answers + (k * batch + FIRST(t)) * answered, 0, rows * answered * sizeof(float));
        }
    }
    ends[batch] = threads, ends[batch + 1] = batch ? 0 : end;
    for (int64_t i = 0; i < batch; i++) ends[batch + 1] = ends[i] > ends[batch + 1] ? ends[i] : ends[batch + 1];
}

/* From the gradients of the states, of the halting unit's logits and of the head's answers (each or NULL), as far as steps were
   taken; d_halt [size + 1] and d_head [answered, size + 1] are for their weights and biases. Room to work in: d_gates
   [batch, 3 size], d_g [batch, size], and for what each thread but the first finds for the weights and biases, the halting unit
   and the head [threads - 1, 3 size (size + 1) + size + 1 + answered (size + 1)], as far as they are asked for. */
void backward(int64_t batch, int64_t size, int64_t steps, int64_t answered, int64_t state_too, const int64_t *ends,
              const float *state, const float *weight, const float *halt, const float *head, const float *room,
              const float *grad, const float *d_logits, const float *d_answers, float *d_inputs, float *d_state, float *d_weight,
              float *d_bias, float *d_halt, float *d_head, float *d_gates, float *d_g, float *others) {
    int64_t part = steps * batch * size, threads = ends[batch];
    int64_t counts[] = {3 * size * size, 3 * size, d_logits ? size + 1 : 0, d_answers ? answered * (size + 1) : 0};
    int64_t each = counts[0] + counts[1] + counts[2] + counts[3];
#pragma omp parallel for num_threads(threads)
    for (int64_t t = 0; t < threads; t++) {
        int64_t rows = FIRST(t + 1) - FIRST(t), at = FIRST(t) * size, end = 0;
        for (int64_t i = FIRST(t); i < FIRST(t + 1); i++) end = ends[i] > end ? ends[i] : end;
        float *own = others + (t - 1) * each, *found = own + counts[0] + counts[1];
        const float *of_logits = d_logits ? d_logits + FIRST(t) : 0, *of_answers = d_answers ? d_answers + FIRST(t) * answered : 0;
        linear_back of_halt = {{1, halt, 0}, of_logits, t ? found : d_halt};
        linear_back of_head = {{answered, head, 0}, of_answers, t ? found + counts[2] : d_head};
        backward_rows(batch, size, end, rows, state_too, state + at, weight, of_halt, of_head, room + 3 * at,
                      room + 3 * part + at, room + 4 * part + at, grad ? grad + at : 0, d_inputs + 3 * at, d_state + at,
                      t ? own : d_weight, t ? own + counts[0] : d_bias, d_gates + 3 * at, d_g + at);
    }
    float *all[] = {d_weight, d_bias, d_halt, d_head};
    for (int64_t t = 1; t < threads; t++)
        for (int kind = 0; kind < 4; kind++)
            for (int64_t j = 0; j < counts[kind]; j++) all[kind][j] += *others++;
}
