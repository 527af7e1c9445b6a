/* A transformer layer and its gradients: what block.py says with torch, here few examples at a time, so that their numbers stay
in the cache between one operation and the next.

Arrays: states [batch, tokens, size]; parameters in the order of `Parameter`, dense ones [out, in], forward [in, out].
What the backward pass needs of a group of examples is kept in the order of `keep`; a `room` is for what nobody needs again. */

#include "numbers.h"

typedef struct {
    int64_t threads, batch, group; /* examples: of all, and of those computed together */
    int64_t tokens, padded; /* of an example, and padded to whole vectors */
    int64_t heads, size, inner, post, rows; /* the tokens of a group */
} shape;
typedef enum { NORM, SHIFT, NORM_2, SHIFT_2, QUERY, QUERY_BIAS, KEY_VALUE, KEY_VALUE_BIAS, OUT, OUT_BIAS, UP, UP_BIAS, DOWN,
               DOWN_BIAS, PARAMETERS } Parameter;
typedef struct { float *seen[2], *scale[2], *qkv, *attended, *up, *probabilities; } kept;

enum { DEEP = 256 }; /* rows of one product for the gradients of weights */

static const matrix nothing = {0, 0, 0};

static int64_t kept_size(shape s) {
    return s.rows * (6 * s.size + s.inner + s.heads * s.padded + 2);
}

static int64_t room_size(shape s) {
    return s.rows * (5 * s.size + 3 * s.inner) + (s.tokens + s.size) * s.padded;
}

static kept keep(shape s, float *at) {
    kept k;
    k.seen[0] = at, k.seen[1] = k.seen[0] + s.rows * s.size, k.qkv = k.seen[1] + s.rows * s.size;
    k.attended = k.qkv + 3 * s.rows * s.size, k.up = k.attended + s.rows * s.size;
    k.probabilities = k.up + s.rows * s.inner, k.scale[0] = k.probabilities + s.heads * s.rows * s.padded;
    k.scale[1] = k.scale[0] + s.rows;
    return k;
}

/* What the first norm (0) or the second (1) gives, from its rows with mean 0 and variance 1. */
static void scale_and_shift(shape s, kept k, int norm, const float **w, float *restrict to) {
    const float *seen = k.seen[norm], *weight = w[NORM + 2 * norm], *bias = w[SHIFT + 2 * norm];
    for (int64_t i = 0; i < s.rows; i++)
        for (int64_t j = 0; j < s.size; j++) to[i * s.size + j] = seen[i * s.size + j] * weight[j] + bias[j];
}

static void normalise(shape s, kept k, int norm, const float **w, const float *h, float *to) {
    for (int64_t i = 0; i < s.rows; i++) {
        const float *row = h + i * s.size;
        float *restrict seen = k.seen[norm] + i * s.size;
        vector sum = {0}, squares = {0};
        for (int64_t j = 0; j < s.size; j += LANES) sum += *(const vector *)(row + j);
        float mean = total(sum) / s.size;
        for (int64_t j = 0; j < s.size; j += LANES) {
            vector centred = *(const vector *)(row + j) - mean;
            squares += centred * centred;
        }
        float scale = k.scale[norm][i] = 1.0f / sqrtf(total(squares) / s.size + 1e-5f);
        for (int64_t j = 0; j < s.size; j++) seen[j] = (row[j] - mean) * scale;
    }
    scale_and_shift(s, k, norm, w, to);
}

/* d_h += the gradient through a norm; d is that of what it gave. */
static void normalise_back(shape s, kept k, int norm, const float **w, float **d_w, const float *d, float *restrict d_h) {
    const float *seen = k.seen[norm], *weight = w[NORM + 2 * norm];
    float *d_weight = d_w[NORM + 2 * norm], *d_bias = d_w[SHIFT + 2 * norm];
    for (int64_t i = 0; i < s.rows; i++, seen += s.size, d += s.size, d_h += s.size) {
        vector sum = {0}, along = {0};
        for (int64_t j = 0; j < s.size; j += LANES) {
            vector x = *(const vector *)(seen + j), dj = *(const vector *)(d + j), part = dj * *(const vector *)(weight + j);
            sum += part, along += part * x;
            *(vector *)(d_weight + j) += dj * x, *(vector *)(d_bias + j) += dj;
        }
        float mean = total(sum) / s.size, slope = total(along) / s.size, scale = k.scale[norm][i];
        for (int64_t j = 0; j < s.size; j++) d_h[j] += scale * (d[j] * weight[j] - mean - seen[j] * slope);
    }
}

/* [tokens, dim] to [dim, padded], zero where there is no token. */
static void transpose(shape s, int64_t dim, const float *from, float *to) {
    memset(to, 0, dim * s.padded * sizeof(float));
    for (int64_t i = 0; i < s.tokens; i++)
        for (int64_t j = 0; j < dim; j++) to[j * s.padded + i] = from[3 * i * s.size + j];
}

static void attend(shape s, kept k, float *room) {
    int64_t dim = s.size / s.heads, t = s.tokens;
    for (int64_t each = 0; each < s.rows / t * s.heads; each++) {
        int64_t at = each / s.heads * t * s.size, start = each % s.heads * dim;
        const float *q = k.qkv + 3 * at + start, *key = q + s.size, *value = key + s.size;
        float *p = k.probabilities + each * t * s.padded;
        transpose(s, dim, key, room);
        product(t, s.padded, dim, (matrix){q, 3 * s.size, 1}, (matrix){room, s.padded, 1}, nothing, p, s.padded);
        for (int64_t i = 0; i < t; i++) softmax(t, s.padded, 1.0f / sqrtf(dim), p + i * s.padded);
        product(t, dim, t, (matrix){p, s.padded, 1}, (matrix){value, 3 * s.size, 1}, nothing,
                k.attended + at + start, s.size);
    }
}

static void attend_back(shape s, kept k, const float *grad, float *d_qkv, float *room) {
    int64_t dim = s.size / s.heads, t = s.tokens, row = 3 * s.size;
    float *d = room + dim * s.padded;
    for (int64_t each = 0; each < s.rows / t * s.heads; each++) {
        int64_t at = each / s.heads * t * s.size, start = each % s.heads * dim;
        const float *q = k.qkv + 3 * at + start, *key = q + s.size, *p = k.probabilities + each * t * s.padded;
        const float *g = grad + at + start;
        float *d_q = d_qkv + 3 * at + start, *d_key = d_q + s.size, *d_value = d_key + s.size;
        transpose(s, dim, key + s.size, room);
        product(t, s.padded, dim, (matrix){g, s.size, 1}, (matrix){room, s.padded, 1}, nothing, d, s.padded);
        for (int64_t i = 0; i < t; i++) softmax_back(s.padded, 1.0f / sqrtf(dim), p + i * s.padded, d + i * s.padded);
        product(t, dim, t, (matrix){d, s.padded, 1}, (matrix){key, row, 1}, nothing, d_q, row);
        product(t, dim, t, (matrix){d, 1, s.padded}, (matrix){q, row, 1}, nothing, d_key, row);
        product(t, dim, t, (matrix){p, 1, s.padded}, (matrix){g, s.size, 1}, nothing, d_value, row);
    }
}

/* y = bias + x weight, weight [in, out]. */
static void dense(shape s, int64_t in, int64_t out, const float *x, const float *weight, const float *bias, float *y,
                  int64_t row) {
    product(s.rows, out, in, (matrix){x, in, 1}, (matrix){weight, out, 1}, (matrix){bias, 0, 1}, y, row);
}

/* The gradients of a dense layer: d [tokens, out] of what came out, x [tokens, in] what went in; d_x = start + d weight. */
static void dense_back(shape s, int64_t in, int64_t out, matrix d, const float *x, const float *weight, float *d_weight,
                       float *d_bias, matrix start, float *d_x) {
    for (int64_t i = 0; i < s.rows; i += DEEP) { /* of more rows, so far apart, the cache does not hold a column */
        int64_t deep = i + DEEP < s.rows ? DEEP : s.rows - i;
        matrix across = {d.at + i * d.row, 1, d.row}, along = {x + i * in, in, 1};
        product(out, in, deep, across, along, (matrix){d_weight, in, 1}, d_weight, in);
    }
    for (int64_t i = 0; i < s.rows; i++)
        for (int64_t j = 0; j < out; j++) d_bias[j] += d.at[i * d.row + j];
    product(s.rows, in, out, d, (matrix){weight, in, 1}, start, d_x, in);
}

static void forward_group(shape s, const float **w, const float *h, kept k, float *next, float *room) {
    int64_t count = s.rows * s.size, row = 3 * s.size;
    float *seen = room, *sum = seen + count, *active = sum + count, *slope = active + s.rows * s.inner;
    if (!s.post) normalise(s, k, 0, w, h, seen);
    dense(s, s.size, s.size, s.post ? h : seen, w[QUERY], w[QUERY_BIAS], k.qkv, row);
    dense(s, s.size, 2 * s.size, s.post ? h : seen, w[KEY_VALUE], w[KEY_VALUE_BIAS], k.qkv + s.size, row);
    attend(s, k, sum);
    dense(s, s.size, s.size, k.attended, w[OUT], w[OUT_BIAS], sum, s.size);
    for (int64_t i = 0; i < count; i++) sum[i] += h[i];
    normalise(s, k, !s.post, w, sum, seen);
    dense(s, s.size, s.inner, seen, w[UP], w[UP_BIAS], k.up, s.inner);
    gelu(s.rows * s.inner, k.up, active, slope);
    dense(s, s.inner, s.size, active, w[DOWN], w[DOWN_BIAS], next, s.size);
    const float *beside = s.post ? seen : sum;
    for (int64_t i = 0; i < count; i++) next[i] += beside[i];
    if (s.post) normalise(s, k, 1, w, next, next);
}

/* d_h is first the gradient of the second sum, then of the first, then of the state before. */
static void backward_group(shape s, const float **w, float **d_w, const float *h, kept k, const float *grad, float *d_h,
                             float *room) {
    int64_t count = s.rows * s.size, bytes = count * sizeof(float);
    float *seen = room, *d = seen + count, *active = d + count, *slope = active + s.rows * s.inner;
    float *wide = slope + s.rows * s.inner, *rest = wide + s.rows * (s.inner + 3 * s.size);
    matrix d_sum = {d_h, s.size, 1}, d_wide = {wide, s.inner, 1};
    if (s.post) memset(d_h, 0, bytes), normalise_back(s, k, 1, w, d_w, grad, d_h);
    else memcpy(d_h, grad, bytes);
    gelu(s.rows * s.inner, k.up, active, slope); /* again: to fetch what was kept would take longer */
    dense_back(s, s.inner, s.size, d_sum, active, w[DOWN], d_w[DOWN], d_w[DOWN_BIAS], nothing, wide);
    for (int64_t i = 0; i < s.rows * s.inner; i++) wide[i] *= slope[i];
    scale_and_shift(s, k, !s.post, w, seen);
    dense_back(s, s.size, s.inner, d_wide, seen, w[UP], d_w[UP], d_w[UP_BIAS], s.post ? d_sum : nothing, d);
    if (s.post) memset(d_h, 0, bytes);
    normalise_back(s, k, !s.post, w, d_w, d, d_h);
    dense_back(s, s.size, s.size, d_sum, k.attended, w[OUT], d_w[OUT], d_w[OUT_BIAS], nothing, d);
    attend_back(s, k, d, wide, rest);
    if (!s.post) scale_and_shift(s, k, 0, w, seen), memset(d, 0, bytes);
    float *d_seen = s.post ? d_h : d;
    matrix d_q = {wide, 3 * s.size, 1}, d_kv = {wide + s.size, 3 * s.size, 1}, so_far = {d_seen, s.size, 1};
    const float *x = s.post ? h : seen;
    dense_back(s, s.size, s.size, d_q, x, w[QUERY], d_w[QUERY], d_w[QUERY_BIAS], so_far, d_seen);
    dense_back(s, s.size, 2 * s.size, d_kv, x, w[KEY_VALUE], d_w[KEY_VALUE], d_w[KEY_VALUE_BIAS], so_far, d_seen);
    if (!s.post) normalise_back(s, k, 0, w, d_w, d, d_h);
}

/* The examples of one group, of which the last of a thread may have fewer. */
static shape group_at(shape s, int64_t example, int64_t end) {
    s.rows = s.tokens * (example + s.group < end ? s.group : end - example);
    return s;
}

/* How many numbers are kept of a token, and how many a thread needs for itself. */
void sizes(shape s, int64_t *found) {
    s.rows = 1, found[0] = kept_size(s);
    s.rows = s.group * s.tokens, found[1] = room_size(s);
}

/* All examples, group by group: forward where there are no gradients to find, else backward, into those of each thread,
d_parameters[thread * PARAMETERS + parameter]. */
static void run(shape s, const float **parameters, float **d_parameters, const float *states, float *all_kept, const float *grad,
                float *to, float *rooms) {
    int64_t count[2];
    sizes(s, count);
#pragma omp parallel for num_threads(s.threads)
    for (int64_t thread = 0; thread < s.threads; thread++) {
        float *room = rooms + thread * count[1];
        int64_t end = s.batch * (thread + 1) / s.threads;
        for (int64_t i = s.batch * thread / s.threads; i < end; i += s.group) {
            shape own = group_at(s, i, end);
            int64_t token = i * s.tokens, at = token * s.size;
            kept k = keep(own, all_kept + token * count[0]);
            if (!d_parameters) forward_group(own, parameters, states + at, k, to + at, room);
            else backward_group(own, parameters, d_parameters + thread * PARAMETERS, states + at, k, grad + at, to + at, room);
        }
    }
}

void forward(shape s, const float **parameters, const float *states, float *all_kept, float *next, float *rooms) {
    run(s, parameters, 0, states, all_kept, 0, next, rooms);
}

void backward(shape s, const float **parameters, float **d_parameters, const float *states, float *all_kept, const float *grad,
              float *d_states, float *rooms) {
    run(s, parameters, d_parameters, states, all_kept, grad, d_states, rooms);
}
