// Sums an array, or multiplies two, in the first-level cache: many loads, and hardly any waiting for them.
#include "options.h"

enum { REPEATS = 256 };

static NOINLINE double *allocate_x(size_t bytes) { return or_die(lines_of(bytes), bytes); }
static NOINLINE double *allocate_y(size_t bytes) { return or_die(lines_of(bytes), bytes); }

// Eight sums, so that no addition waits for the one before.
INLINE double total(const double sums[8]) {
    return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

static NOINLINE double sum_array(const double *x, size_t count) {
    double sums[8] = {0};
    for (size_t i = 0; i < count; i += 8)
#pragma GCC unroll 8
        for (size_t j = 0; j < 8; j++)
            sums[j] += x[i + j];
    return total(sums);
}

static NOINLINE double dot_product(const double *x, const double *y, size_t count) {
    double sums[8] = {0};
    for (size_t i = 0; i < count; i += 8)
#pragma GCC unroll 8
        for (size_t j = 0; j < 8; j++)
            sums[j] += x[i + j] * y[i + j];
    return total(sums);
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    size_t size = 16 << 10;
    bool dot = false;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"size", SIZE, &size, "bytes of the two arrays together"},
        {"dot", FLAG, &dot, "the dot product of both, instead of the sum of one"},
    };
    PARSE_OPTIONS(argc, argv, "sum or dot product in the first-level cache; limited by execution", options);
    size_t count = size / 2 / sizeof(double) / 8 * 8, bytes = count * sizeof(double);
    if (count == 0) {
        fprintf(stderr, "--size: at least 128 bytes\n");
        return 2;
    }
    double *x = allocate_x(bytes), *y = allocate_y(bytes), result = 0;
    for (size_t i = 0; i < count; i++) {
        x[i] = (double)(i % 7);
        y[i] = (double)(i % 5);
    }
    while (another_round(&pace))
        for (int i = 0; i < REPEATS; i++)
            result = dot ? dot_product(x, y, count) : sum_array(x, count);
    printf("sum: result %.0f\n", result);
    print_pace("sum", &pace, REPEATS * (double)count, "element");
    free(x), free(y);
}
