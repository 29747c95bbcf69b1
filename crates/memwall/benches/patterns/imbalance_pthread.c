/* Two threads; the second has a fourth of the first one's work and then spins until the first is done. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
static long rounds = 400000000;
static atomic_int is_done;
static uint64_t results[64];
static __attribute__((noinline)) uint64_t work(long times) {
    uint64_t x = 88172645463325252u;
    for (long i = 0; i < times; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; }
    return x;
}
static void *much(void *unused) { results[0] = work(rounds); atomic_store(&is_done, 1); return unused; }
static void *little(void *unused) {
    results[32] = work(rounds / 4);
    while (!atomic_load(&is_done)) {}
    return unused;
}
int main(int count, char **words) {
    pthread_t threads[2];
    if (count > 1) rounds = atol(words[1]);
    pthread_create(&threads[0], NULL, much, NULL);
    pthread_create(&threads[1], NULL, little, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return results[0] == results[32];
}
