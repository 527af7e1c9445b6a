/* Attention of packed rows: what attention.py says with torch, example by example and head by head, with nothing to set up for
each of them. Where sentences are short, a library's call takes longer to begin than to compute.

Arrays: queries [rows, size], keys and values side by side [shown rows, 2 size], of one example after the other. */

#include "numbers.h"

typedef struct { int64_t threads, examples, heads, size, room; } shape; /* room: the numbers that a thread needs for itself */

/* Keys [count, dim], `row` apart, to [dim, padded], zero where there is none. */
static void transpose(int64_t count, int64_t padded, int64_t dim, int64_t row, const float *from, float *to) {
    memset(to, 0, dim * padded * sizeof(float));
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < dim; j++) to[j * padded + i] = from[i * row + j];
}

static void attend_example(shape s, int64_t asking, int64_t shown, const float *q, const float *kv, float *to, float *room) {
    int64_t dim = s.size / s.heads, padded = (shown + LANES - 1) / LANES * LANES, row = 2 * s.size;
    float *keys = room, *p = room + dim * padded;
    if (!shown) { /* who sees nothing attends to nothing */
        memset(to, 0, asking * s.size * sizeof(float));
        return;
    }
    for (int64_t head = 0; head < s.heads; head++, q += dim, kv += dim, to += dim) {
        transpose(shown, padded, dim, row, kv, keys);
        product(asking, padded, dim, (matrix){q, s.size, 1}, (matrix){keys, padded, 1}, (matrix){0, 0, 0}, p, padded);
        for (int64_t i = 0; i < asking; i++) softmax(shown, padded, 1.0f / sqrtf(dim), p + i * padded);
        product(asking, dim, shown, (matrix){p, padded, 1}, (matrix){kv + s.size, row, 1}, (matrix){0, 0, 0}, to, s.size);
    }
}

/* `counts` has the rows that ask and those that are shown, of each example. */
void attend(shape s, const int64_t *counts, const float *queries, const float *keys_values, float *to, float *rooms) {
#pragma omp parallel for num_threads(s.threads) schedule(static, 1)
    for (int64_t thread = 0; thread < s.threads; thread++) {
        int64_t asked = 0, seen = 0;
        for (int64_t i = 0; i < s.examples; i++) {
            int64_t asking = counts[2 * i], shown = counts[2 * i + 1];
            if (i % s.threads == thread)
                attend_example(s, asking, shown, queries + asked * s.size, keys_values + 2 * seen * s.size,
                               to + asked * s.size, rooms + thread * s.room);
            asked += asking, seen += shown;
        }
    }
}
