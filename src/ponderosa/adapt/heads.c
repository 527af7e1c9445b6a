/* ReLU([max; mean]) over the tokens of each example, in one pass over the packed rows. */

#include <stdint.h>
#include <string.h>

void max_mean(int64_t examples, int64_t size, const int64_t *counts, const float *rows, float *to) {
    for (int64_t i = 0; i < examples; i++, to += 2 * size) {
        float *largest = to, *sum = to + size;
        memset(to, 0, 2 * size * sizeof(float));
        for (int64_t row = 0; row < counts[i]; row++, rows += size)
            for (int64_t j = 0; j < size; j++) {
                largest[j] = rows[j] <= largest[j] || largest[j] != largest[j] ? largest[j] : rows[j]; /* NaN stays */
                sum[j] += rows[j];
            }
        for (int64_t j = 0; j < size; j++) sum[j] = sum[j] <= 0 ? 0 : sum[j] / counts[i];
    }
}
