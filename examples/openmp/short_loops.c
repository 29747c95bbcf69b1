// Parallel loops over next to nothing, one after the other: threads wait for each other at barriers.
#define _GNU_SOURCE
#include <omp.h>
#include "../options.h"

enum { LOOPS = 64 };

static NOINLINE double *allocate_numbers(size_t count) {
    double *numbers = malloc(count * sizeof *numbers);
    if (numbers == NULL) {
        fprintf(stderr, "no memory for %zu numbers\n", count);
        exit(1);
    }
    for (size_t i = 0; i < count; i++)
        numbers[i] = (double)(i % 7);
    return numbers;
}

static NOINLINE void halve(double *numbers, long count) {
#pragma omp parallel for schedule(static)
    for (long i = 0; i < count; i++)
        numbers[i] = numbers[i] * 0.5 + 1.0;
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    long numbers_of_loop = 254, threads = 2;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"numbers", COUNT, &numbers_of_loop, "numbers that each loop works on"},
        {"threads", COUNT, &threads, "threads that share them"},
    };
    PARSE_OPTIONS(argc, argv, "parallel loops that are too short; limited by barriers", options);
    if (threads < 1 || threads > 256 || numbers_of_loop < 1) {
        fprintf(stderr, "--threads: 1 to 256; --numbers: at least 1\n");
        return 2;
    }
    omp_set_num_threads((int)threads);
    double *numbers = allocate_numbers((size_t)numbers_of_loop);
    while (another_round(&pace))
        for (int i = 0; i < LOOPS; i++)
            halve(numbers, numbers_of_loop);
    // Halving and adding one brings any number to two.
    printf("short_loops: %s\n", numbers[0] <= 2.0 ? "settles" : "does not");
    print_pace("short_loops", &pace, LOOPS, "loop");
    free(numbers);
}
