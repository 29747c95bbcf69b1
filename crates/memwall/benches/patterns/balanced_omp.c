/* The same loop handed out in small pieces: even. */
#include <stdlib.h>
static double row(const double *matrix, long n, long i) {
    double sum = 0;
    for (long j = i; j < n; j++) sum += matrix[j] * (double)(j + i);
    return sum;
}
int main(int count, char **words) {
    long n = 6000, rounds = count > 1 ? atol(words[1]) : 40;
    double *matrix = malloc((size_t)n * sizeof *matrix), all = 0;
    for (long j = 0; j < n; j++) matrix[j] = 1.0 / (double)(j + 1);
    for (long round = 0; round < rounds; round++) {
        #pragma omp parallel for schedule(dynamic, 16) num_threads(2) reduction(+ : all)
        for (long i = 0; i < n; i++) all += row(matrix, n, i);
    }
    return all == 0.5;
}
