// Threads that are always busy, half of the time waiting on memory: the load for measuring what recording costs.
#define _GNU_SOURCE
#include <pthread.h>
#include "work.h"

enum { MULTIPLICATIONS = 1 << 20 };

struct worker {
    struct pace pace;
    struct line *lines, *end;
    pthread_t thread;
};

static NOINLINE uint64_t multiply_step(uint64_t value) {
    for (int i = 0; i < MULTIPLICATIONS; i++) {
        value *= 6364136223846793005u;
        KEEP(value);
    }
    return value;
}

static void *run_worker(void *argument) {
    struct worker *me = argument;
    uint64_t value = 1;
    while (another_round(&me->pace)) {
        me->end = work_step(me->lines);
        value = multiply_step(value);
        KEEP(value);
    }
    return NULL;
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    long threads = 8;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"threads", COUNT, &threads, "busy threads"},
    };
    PARSE_OPTIONS(argc, argv, "keeps many threads busy", options);
    if (threads < 1 || threads > 256) {
        fprintf(stderr, "--threads: 1 to 256\n");
        return 2;
    }
    struct line *lines = allocate_work();
    struct worker workers[256];
    for (long t = 0; t < threads; t++) {
        workers[t] = (struct worker){.pace = pace, .lines = lines};
        if (pthread_create(&workers[t].thread, NULL, run_worker, &workers[t]) != 0) {
            fprintf(stderr, "cannot start thread %ld; try fewer --threads\n", t);
            return 1;
        }
        char name[16];
        snprintf(name, sizeof name, "busy %d", (int)t % 1000);
        pthread_setname_np(workers[t].thread, name);
    }
    for (long t = 0; t < threads; t++)
        pthread_join(workers[t].thread, NULL);
    printf("busy_threads: %ld threads, ended on line %td\n", threads, workers[0].end - lines);
    print_pace("busy_threads", &workers[0].pace, 1, "round of the first thread");
    free(lines);
}
