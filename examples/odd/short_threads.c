// Starts thread after thread, each of which computes for a moment.
#include <inttypes.h>
#include <pthread.h>
#include "../options.h"

enum { AT_ONCE = 4 };

static long steps = 100000;

static NOINLINE uint64_t short_work(uint64_t value) {
    for (long i = 0; i < steps; i++) {
        value *= 6364136223846793005u;
        KEEP(value);
    }
    return value;
}

static void *run_thread(void *argument) { return (void *)short_work((uint64_t)argument); }

int main(int argc, char **argv) {
    long threads = 4000;
    const struct option options[] = {
        {"threads", COUNT, &threads, "how many in all, four at a time"},
        {"steps", COUNT, &steps, "multiplications in each"},
    };
    PARSE_OPTIONS(argc, argv, "starts many short threads", options);
    uint64_t checksum = 0;
    for (long begun = 0; begun < threads; begun += AT_ONCE) {
        pthread_t batch[AT_ONCE];
        long in_batch = threads - begun < AT_ONCE ? threads - begun : AT_ONCE;
        for (long i = 0; i < in_batch; i++)
            if (pthread_create(&batch[i], NULL, run_thread, (void *)(begun + i)) != 0) {
                fprintf(stderr, "cannot start thread %ld\n", begun + i);
                return 1;
            }
        for (long i = 0; i < in_batch; i++) {
            void *value;
            pthread_join(batch[i], &value);
            checksum = checksum * 31 + (uint64_t)value;
        }
    }
    printf("short_threads: %ld threads, checksum %016" PRIx64 "\n", threads, checksum);
}
