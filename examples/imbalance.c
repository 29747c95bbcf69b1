// The product of a lower triangular matrix and a vector, rows divided evenly over the threads (roehl2016): of two
// threads the second has three times the work of the first, which waits for it at the barrier.
#define _GNU_SOURCE
#include <pthread.h>
#include "options.h"

enum { REPEATS = 256 }; // products between two barriers, so that the barrier itself costs little

static struct {
    double *matrix, *vector, *result; // the matrix without its zeros, row after row
    size_t rows;
    long threads;
    struct pace pace;
    bool going;
    pthread_barrier_t barrier;
} job;

static NOINLINE double *allocate_matrix(size_t rows) {
    size_t elements = rows * (rows + 1) / 2;
    double *matrix = or_die(lines_of(elements * sizeof *matrix), elements * sizeof *matrix);
    for (size_t i = 0; i < elements; i++)
        matrix[i] = (double)(i % 7);
    return matrix;
}

static NOINLINE double *allocate_vector(size_t rows) {
    double *vector = or_die(lines_of(rows * sizeof *vector), rows * sizeof *vector);
    for (size_t i = 0; i < rows; i++)
        vector[i] = (double)(i % 5);
    return vector;
}

static NOINLINE double *allocate_result(size_t rows) {
    return or_die(lines_of(rows * sizeof(double)), rows * sizeof(double));
}

static NOINLINE void multiply_rows(size_t first, size_t last) {
    for (size_t row = first; row < last; row++) {
        const double *a = job.matrix + row * (row + 1) / 2, *x = job.vector;
        double sums[8] = {0}; // eight, so that no addition waits for the one before
        size_t i = 0, columns = row + 1;
        for (; i + 8 <= columns; i += 8)
#pragma GCC unroll 8
            for (size_t j = 0; j < 8; j++)
                sums[j] += a[i + j] * x[i + j];
        for (; i < columns; i++)
            sums[0] += a[i] * x[i];
        job.result[row] = sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
    }
}

static void *run_thread(void *argument) {
    long me = (long)argument;
    size_t first = job.rows * (size_t)me / (size_t)job.threads;
    size_t last = job.rows * (size_t)(me + 1) / (size_t)job.threads;
    for (;;) {
        if (me == 0)
            job.going = another_round(&job.pace);
        pthread_barrier_wait(&job.barrier);
        if (!job.going)
            return NULL;
        for (int i = 0; i < REPEATS; i++)
            multiply_rows(first, last);
        pthread_barrier_wait(&job.barrier);
    }
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    size_t size = 512 << 10;
    long threads = 2;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"size", SIZE, &size, "bytes of the triangular matrix"},
        {"threads", COUNT, &threads, "threads that share its rows evenly; with 2 the work is 1 to 3"},
    };
    PARSE_OPTIONS(argc, argv, "triangular matrix times vector; limited by load imbalance", options);
    if (threads < 1 || threads > 256) {
        fprintf(stderr, "--threads: 1 to 256\n");
        return 2;
    }
    job.pace = pace;
    job.threads = threads;
    while ((job.rows + 1) * (job.rows + 2) / 2 * sizeof(double) <= size)
        job.rows++;
    job.matrix = allocate_matrix(job.rows);
    job.vector = allocate_vector(job.rows);
    job.result = allocate_result(job.rows);
    pthread_barrier_init(&job.barrier, NULL, (unsigned)threads);
    pthread_t others[256];
    for (long t = 1; t < threads; t++) {
        if (pthread_create(&others[t], NULL, run_thread, (void *)t) != 0) {
            fprintf(stderr, "cannot start thread %ld; try fewer --threads\n", t);
            return 1;
        }
        pthread_setname_np(others[t], "rows");
    }
    run_thread((void *)0);
    for (long t = 1; t < threads; t++)
        pthread_join(others[t], NULL);
    double sum = 0;
    for (size_t i = 0; i < job.rows; i++)
        sum += job.result[i];
    printf("imbalance: %zu rows, checksum %.0f\n", job.rows, sum);
    print_pace("imbalance", &job.pace, REPEATS, "product");
    free(job.matrix), free(job.vector), free(job.result);
}
