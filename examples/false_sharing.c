// Two threads count in two halves of one cache line: each write takes the line away from the other core, which then
// waits when it next reads its own half.
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include "options.h"

enum { STEPS = 1 << 18, APART_PADDED = 16 /* counters: 256 bytes, beyond lines fetched in pairs */ };

struct counter { uint64_t step, count; };

struct counting {
    volatile struct counter *counter;
    struct pace pace;
};

static NOINLINE struct counter *allocate_counters(void) {
    size_t bytes = 2 * APART_PADDED * sizeof(struct counter);
    return memset(or_die(lines_of(bytes), bytes), 0, bytes);
}

static NOINLINE void count_left(volatile struct counter *left) {
    for (int i = 0; i < STEPS; i++)
        left->count = left->count + left->step;
}

static NOINLINE void count_right(volatile struct counter *right) {
    for (int i = 0; i < STEPS; i++)
        right->count = right->count + right->step;
}

static void *run_left(void *argument) {
    struct counting *left = argument;
    while (another_round(&left->pace))
        count_left(left->counter);
    return NULL;
}

static void *run_right(void *argument) {
    struct counting *right = argument;
    while (another_round(&right->pace))
        count_right(right->counter);
    return NULL;
}

// On the first and the last CPU this process may use: two that are least likely to be one core.
static void keep_apart(pthread_t left, pthread_t right) {
    cpu_set_t allowed, first, last;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) {
        fprintf(stderr, "false_sharing: one CPU only, so nothing will be shared between two\n");
        return;
    }
    CPU_ZERO(&first);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed)) {
            if (CPU_COUNT(&first) == 0)
                CPU_SET(cpu, &first);
            CPU_ZERO(&last);
            CPU_SET(cpu, &last);
        }
    pthread_setaffinity_np(left, sizeof first, &first);
    pthread_setaffinity_np(right, sizeof last, &last);
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    bool padded = false;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"padded", FLAG, &padded, "the two counters lie on lines of their own: nothing is shared"},
    };
    PARSE_OPTIONS(argc, argv, "false sharing; limited by one line moving between two cores", options);
    size_t apart = padded ? APART_PADDED : 2;
    struct counter *counters = allocate_counters();
    counters[0].step = counters[apart].step = 1;
    struct counting left = {counters, pace}, right = {counters + apart, pace};
    pthread_t left_thread, right_thread;
    if (pthread_create(&left_thread, NULL, run_left, &left) != 0 ||
        pthread_create(&right_thread, NULL, run_right, &right) != 0) {
        fprintf(stderr, "cannot start two threads\n");
        return 1;
    }
    keep_apart(left_thread, right_thread);
    pthread_setname_np(left_thread, "left");
    pthread_setname_np(right_thread, "right");
    pthread_join(left_thread, NULL);
    pthread_join(right_thread, NULL);
    uint64_t lost = (uint64_t)(left.pace.done + right.pace.done) * STEPS - counters[0].count - counters[apart].count;
    printf("false_sharing: %" PRIu64 " counts lost\n", lost);
    print_pace("false_sharing", &left.pace, STEPS, "count of the left thread");
    free(counters);
}
