/* Streams over 192 MiB on all cores. */
#include <stdlib.h>
int main(int count, char **words) {
    long n = 8 << 20, rounds = count > 1 ? atol(words[1]) : 60;
    double *a = malloc((size_t)n * 8), *b = malloc((size_t)n * 8), *c = malloc((size_t)n * 8);
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) { a[i] = 0; b[i] = 1; c[i] = (double)i; }
    for (long round = 0; round < rounds; round++) {
        #pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++) a[i] = b[i] + 0.5 * c[i];
    }
    return a[5] == 1;
}
