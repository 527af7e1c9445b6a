/* Small products, exponentials and what is made of them, on as many numbers at once as a register holds. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
enum { ROWS = 8, LANES = 16 }; /* rows of sums, two vectors wide, that the registers hold */
#else
enum { ROWS = 4, LANES = 8 };
#endif
typedef float vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

typedef struct { const float *at; int64_t row, column; } matrix; /* and the strides of its axes */

/* c = start + a b for as many sums as the registers hold: a [rows, k], b [k, vectors * LANES]. */
static inline __attribute__((always_inline)) void tile(int rows, int vectors, int64_t k, matrix a, matrix b, matrix start,
                                                       float *c, int64_t c_row) {
    vector sum[ROWS][2] = {0};
    if (start.at)
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < vectors; v++) sum[i][v] = *(const vector *)(start.at + i * start.row + v * LANES);
    for (int64_t p = 0; p < k; p++) {
        const float *line = b.at + p * b.row, *factors = a.at + p * a.column;
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < vectors; v++) sum[i][v] += factors[i * a.row] * *(const vector *)(line + v * LANES);
    }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) *(vector *)(c + i * c_row + v * LANES) = sum[i][v];
}

static inline __attribute__((always_inline)) void rows_of(int rows, int vectors, int64_t *i, int64_t m, int64_t k, matrix a,
                                                          matrix b, matrix start, float *c, int64_t c_row) {
    for (; *i + rows <= m; *i += rows) {
        matrix part = {a.at + *i * a.row, a.row, a.column};
        matrix from = {start.at ? start.at + *i * start.row : 0, start.row, 1};
        tile(rows, vectors, k, part, b, from, c + *i * c_row, c_row);
    }
}

static inline __attribute__((always_inline)) void columns(int vectors, int64_t m, int64_t k, matrix a, matrix b,
                                                          matrix start, float *c, int64_t c_row) {
    int64_t i = 0;
    rows_of(ROWS, vectors, &i, m, k, a, b, start, c, c_row);
    rows_of(4, vectors, &i, m, k, a, b, start, c, c_row);
    rows_of(1, vectors, &i, m, k, a, b, start, c, c_row);
}

/* c = start + a b: a [m, k], b [k, n], c [m, n], n a multiple of LANES. The start may be c itself, a bias (row 0), or 0. */
static void product(int64_t m, int64_t n, int64_t k, matrix a, matrix b, matrix start, float *c, int64_t c_row) {
    int64_t j = 0;
    for (; j < n; j += 2 * LANES) {
        matrix part = {b.at + j, b.row, 1}, from = {start.at ? start.at + j : 0, start.row, 1};
        if (j + 2 * LANES <= n) columns(2, m, k, a, part, from, c + j, c_row);
        else columns(1, m, k, a, part, from, c + j, c_row);
    }
}

static inline float total(vector numbers) {
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) numbers[i] += numbers[i + half];
    return numbers[0];
}

/* exp(x), without a branch or a call, so that the compiler computes many at once. NaN goes through. What is below exp(-80) is
0: a product with it might be too small for a normal number, and machines are slow with those; above exp(87) nothing grows. */
static inline float exponential(float given) {
    float x = given < -80.0f ? -80.0f : given > 87.0f ? 87.0f : given;
    float shifted = 12582912.0f + x * 1.44269504f; /* adding 1.5 * 2^23 rounds: exp(x) = 2^n exp(f), |f| < log(2) / 2 */
    float n = shifted - 12582912.0f;
    float f = x - n * 0.693359375f + n * 2.12194440e-4f; /* log(2) in two parts, for the digits of f */
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
    return given < -80.0f ? 0.0f : p * power;
}

/* x Phi(x) and its slope, Phi(x) + x phi(x); Phi by formula 7.1.26 of Abramowitz and Stegun, to 1e-7. */
static void gelu(int64_t count, const float *restrict up, float *restrict active, float *restrict slope) {
    for (int64_t j = 0; j < count; j++) {
        float x = up[j], t = 1.0f / (1.0f + 0.3275911f * 0.70710678f * fabsf(x)), bell = exponential(-0.5f * x * x);
        float p = 1.061405429f * t - 1.453152027f;
        p = p * t + 1.421413741f;
        p = p * t - 0.284496736f;
        p = (p * t + 0.254829592f) * t;
        float tail = 0.5f * p * bell, below = x < 0.0f ? tail : 1.0f - tail;
        active[j] = x * below, slope[j] = below + x * bell * 0.39894228f;
    }
}

/* Scores become probabilities, zero where they are padded. */
static void softmax(int64_t count, int64_t padded, float scale, float *restrict row) {
    for (int64_t j = count; j < padded; j++) row[j] = -INFINITY;
    float top[LANES];
    memcpy(top, row, sizeof top);
    for (int64_t j = LANES; j < padded; j += LANES)
        for (int i = 0; i < LANES; i++) top[i] = row[j + i] > top[i] ? row[j + i] : top[i];
    for (int i = 1; i < LANES; i++) top[0] = top[i] > top[0] ? top[i] : top[0];
    float most = top[0];
    vector sum = {0};
    for (int64_t j = 0; j < padded; j++) row[j] = exponential(scale * (row[j] - most));
    for (int64_t j = 0; j < padded; j += LANES) sum += *(vector *)(row + j);
    float share = 1.0f / total(sum);
    for (int64_t j = 0; j < padded; j++) row[j] *= share;
}

/* The gradients of the scores from those of the probabilities, in place. */
static void softmax_back(int64_t padded, float scale, const float *restrict p, float *restrict d) {
    vector sum = {0};
    for (int64_t j = 0; j < padded; j += LANES) sum += *(const vector *)(p + j) * *(vector *)(d + j);
    float mean = total(sum);
    for (int64_t j = 0; j < padded; j++) d[j] = scale * p[j] * (d[j] - mean);
}
