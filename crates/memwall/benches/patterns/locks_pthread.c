/* Two threads that take one lock for every addition. */
#include <pthread.h>
#include <stdlib.h>
static long rounds = 12000000, sum;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *add(void *unused) {
    for (long i = 0; i < rounds; i++) {
        pthread_mutex_lock(&lock);
        sum += i & 7;
        pthread_mutex_unlock(&lock);
    }
    return unused;
}
int main(int count, char **words) {
    pthread_t threads[2];
    if (count > 1) rounds = atol(words[1]);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, add, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return sum == 1;
}
