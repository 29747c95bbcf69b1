// Threads that fight for one spinning lock: limited by an atomic exchange that all of them try.
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include "options.h"

enum { STEPS = 1 << 14, ACCOUNTS = 8 };

static _Alignas(128) atomic_int lock;
static _Alignas(128) uint64_t accounts[ACCOUNTS]; // guarded by `lock`

struct fighter {
    struct pace pace;
    pthread_t thread;
};

static NOINLINE void lock_spin(atomic_int *held) {
    while (atomic_exchange_explicit(held, 1, memory_order_acquire) != 0)
        ;
}

static NOINLINE void unlock(atomic_int *held) { atomic_store_explicit(held, 0, memory_order_release); }

static NOINLINE void update_accounts(void) {
    for (int i = 0; i < ACCOUNTS; i++) {
        accounts[i]++;
        KEEP_MEMORY(accounts);
    }
}

static void *run_fighter(void *argument) {
    struct fighter *me = argument;
    while (another_round(&me->pace))
        for (int i = 0; i < STEPS; i++) {
            lock_spin(&lock);
            update_accounts();
            unlock(&lock);
        }
    return NULL;
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    long threads = 2;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"threads", COUNT, &threads, "threads that want the lock"},
    };
    PARSE_OPTIONS(argc, argv, "a contended spinning lock; limited by atomic operations", options);
    if (threads < 1 || threads > 256) {
        fprintf(stderr, "--threads: 1 to 256\n");
        return 2;
    }
    struct fighter fighters[256];
    for (long t = 0; t < threads; t++) {
        fighters[t] = (struct fighter){.pace = pace};
        if (pthread_create(&fighters[t].thread, NULL, run_fighter, &fighters[t]) != 0) {
            fprintf(stderr, "cannot start thread %ld; try fewer --threads\n", t);
            return 1;
        }
        pthread_setname_np(fighters[t].thread, "fighter");
    }
    uint64_t lost = 0;
    for (long t = 0; t < threads; t++) {
        pthread_join(fighters[t].thread, NULL);
        lost += (uint64_t)fighters[t].pace.done * STEPS * ACCOUNTS;
    }
    for (int i = 0; i < ACCOUNTS; i++)
        lost -= accounts[i];
    printf("spinlock: %" PRIu64 " updates lost\n", lost);
    print_pace("spinlock", &fighters[0].pace, STEPS, "lock taken by the first thread");
}
