/* Counters of two threads in one line. */
#include <pthread.h>
#include <stdlib.h>
static long rounds = 300000000;
static volatile long counters[64] __attribute__((aligned(64)));
static void *count_up(void *which) {
    volatile long *own = &counters[(long)which];
    for (long i = 0; i < rounds; i++) *own += i & 3;
    return NULL;
}
int main(int count, char **words) {
    pthread_t threads[2];
    if (count > 1) rounds = atol(words[1]);
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, count_up, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return counters[0] == 1;
}
