// The triad of STREAM, a = b + s * c, on arrays far larger than any cache: limited by memory bandwidth.
#include <pthread.h>
#include "options.h"

struct part {
    double *a, *b, *c;
    size_t first, last;
    struct pace pace;
    pthread_t thread;
};

static NOINLINE double *allocate_a(size_t bytes) { return or_die(lines_of(bytes), bytes); }
static NOINLINE double *allocate_b(size_t bytes) { return or_die(lines_of(bytes), bytes); }
static NOINLINE double *allocate_c(size_t bytes) { return or_die(lines_of(bytes), bytes); }

static NOINLINE void fill(struct part *part) {
    for (size_t i = part->first; i < part->last; i++) {
        part->a[i] = 0;
        part->b[i] = (double)(i % 7);
        part->c[i] = (double)(i % 5);
    }
}

static NOINLINE void triad(double *restrict a, const double *restrict b, const double *restrict c, size_t count) {
    for (size_t i = 0; i < count; i++)
        a[i] = b[i] + 3.0 * c[i];
}

static void *run_part(void *argument) {
    struct part *p = argument;
    fill(p);
    while (another_round(&p->pace)) {
        triad(p->a + p->first, p->b + p->first, p->c + p->first, p->last - p->first);
        KEEP_MEMORY(p->a);
    }
    return NULL;
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    size_t size = 192 << 20;
    long threads = 1;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"size", SIZE, &size, "bytes of the three arrays together"},
        {"threads", COUNT, &threads, "threads that share them"},
    };
    PARSE_OPTIONS(argc, argv, "STREAM triad; limited by memory bandwidth", options);
    if (threads < 1 || threads > 256) {
        fprintf(stderr, "--threads: 1 to 256\n");
        return 2;
    }
    size_t count = size / 3 / sizeof(double), bytes = count * sizeof(double);
    double *a = allocate_a(bytes), *b = allocate_b(bytes), *c = allocate_c(bytes);
    struct part parts[256];
    for (long t = 0; t < threads; t++) {
        size_t first = count * (size_t)t / (size_t)threads, last = count * (size_t)(t + 1) / (size_t)threads;
        parts[t] = (struct part){.a = a, .b = b, .c = c, .first = first, .last = last, .pace = pace};
        if (t > 0 && pthread_create(&parts[t].thread, NULL, run_part, &parts[t]) != 0) {
            fprintf(stderr, "cannot start thread %ld; try fewer --threads\n", t);
            return 1;
        }
    }
    run_part(&parts[0]);
    for (long t = 1; t < threads; t++)
        pthread_join(parts[t].thread, NULL);
    double sum = 0;
    for (size_t i = 0; i < count; i += 1009)
        sum += a[i];
    printf("stream: checksum %.0f\n", sum);
    print_pace("stream", &parts[0].pace, (double)(parts[0].last - parts[0].first), "element and thread");
    free(a), free(b), free(c);
}
