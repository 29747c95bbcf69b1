// Atomic additions to a line that no other thread touches: limited by the atomic operation itself.
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include "options.h"

enum { STEPS = 1 << 18, APART = 32 /* words: 256 bytes */ };

struct adder {
    _Atomic uint64_t *word;
    struct pace pace;
    pthread_t thread;
};

static NOINLINE _Atomic uint64_t *allocate_counters(size_t count) {
    void *counters = or_die(lines_of(count * APART * 8), count * APART * 8);
    return memset(counters, 0, count * APART * 8);
}

static NOINLINE void add_atomically(_Atomic uint64_t *word) {
    for (int i = 0; i < STEPS; i++)
        atomic_fetch_add(word, 1);
}

static void *run_adder(void *argument) {
    struct adder *me = argument;
    while (another_round(&me->pace))
        add_atomically(me->word);
    return NULL;
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    long threads = 1;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"threads", COUNT, &threads, "threads, each with a line of its own"},
    };
    PARSE_OPTIONS(argc, argv, "atomic additions to a private line; limited by atomic operations", options);
    if (threads < 1 || threads > 256) {
        fprintf(stderr, "--threads: 1 to 256\n");
        return 2;
    }
    _Atomic uint64_t *counters = allocate_counters((size_t)threads);
    struct adder adders[256];
    uint64_t lost = 0;
    for (long t = 0; t < threads; t++) {
        adders[t] = (struct adder){.word = counters + t * APART, .pace = pace};
        if (t > 0 && pthread_create(&adders[t].thread, NULL, run_adder, &adders[t]) != 0) {
            fprintf(stderr, "cannot start thread %ld; try fewer --threads\n", t);
            return 1;
        }
    }
    run_adder(&adders[0]);
    for (long t = 0; t < threads; t++) {
        if (t > 0)
            pthread_join(adders[t].thread, NULL);
        lost += (uint64_t)adders[t].pace.done * STEPS - *adders[t].word;
    }
    printf("atomics: %" PRIu64 " counts lost\n", lost);
    print_pace("atomics", &adders[0].pace, STEPS, "addition");
    free(counters);
}
