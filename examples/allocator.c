// Threads that do little but allocate and free blocks of many sizes: limited by the allocator.
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include "chain.h"
#include "options.h"

enum { LIVE = 1024, STEPS = 1 << 17 };

struct churner {
    struct pace pace;
    uint64_t seed, checksum;
    pthread_t thread;
};

static NOINLINE char *allocate_small(size_t random) { return or_die(malloc(16 + random % 240), 256); }
static NOINLINE char *allocate_medium(size_t random) { return or_die(malloc(256 + random % 3840), 4096); }
static NOINLINE char *allocate_large(size_t random) { return or_die(malloc(4096 + random % 61440), 65536); }
static NOINLINE char *allocate_aligned(size_t random) { return or_die(aligned_alloc(64, 64 + random % 16 * 64), 1024); }
static NOINLINE char *grow(char *block, size_t random) { return or_die(realloc(block, 512 + random % 8192), 8704); }

static inline char *allocate_some(size_t random) {
    size_t kind = random % 64, rest = random >> 8;
    return kind < 48   ? allocate_small(rest)
           : kind < 58 ? allocate_medium(rest)
           : kind < 62 ? allocate_aligned(rest)
                       : allocate_large(rest);
}

// Keeps LIVE blocks and replaces a random one at each step; one step in sixteen grows a block instead.
static NOINLINE uint64_t churn(uint64_t seed) {
    char *blocks[LIVE] = {0};
    uint64_t checksum = 0;
    for (int i = 0; i < STEPS; i++) {
        uint64_t random = next_random(&seed);
        size_t at = random >> 50 & (LIVE - 1);
        checksum += blocks[at] ? (unsigned char)blocks[at][0] : 1;
        if (i % 16 == 0) {
            blocks[at] = grow(blocks[at], random >> 8);
        } else {
            free(blocks[at]);
            blocks[at] = allocate_some(random);
        }
        blocks[at][0] = (char)i;
    }
    for (int i = 0; i < LIVE; i++)
        free(blocks[i]);
    return checksum;
}

static void *run_churner(void *argument) {
    struct churner *me = argument;
    while (another_round(&me->pace))
        me->checksum = churn(me->seed);
    return NULL;
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    long threads = 2;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"threads", COUNT, &threads, "threads that allocate"},
    };
    PARSE_OPTIONS(argc, argv, "allocates and frees; limited by malloc and free", options);
    if (threads < 1 || threads > 256) {
        fprintf(stderr, "--threads: 1 to 256\n");
        return 2;
    }
    struct churner churners[256];
    uint64_t checksum = 0;
    for (long t = 0; t < threads; t++) {
        churners[t] = (struct churner){.pace = pace, .seed = 88172645463325252u + (uint64_t)t};
        if (pthread_create(&churners[t].thread, NULL, run_churner, &churners[t]) != 0) {
            fprintf(stderr, "cannot start thread %ld; try fewer --threads\n", t);
            return 1;
        }
        pthread_setname_np(churners[t].thread, "churn");
    }
    for (long t = 0; t < threads; t++) {
        pthread_join(churners[t].thread, NULL);
        checksum = checksum * 31 + churners[t].checksum;
    }
    printf("allocator: checksum %016" PRIx64 "\n", checksum);
    print_pace("allocator", &churners[0].pace, STEPS, "allocation of the first thread");
}
