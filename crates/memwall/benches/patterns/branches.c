/* Random numbers decide which way to go; --sorted foresees them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static int order(const void *a, const void *b) { return *(const unsigned char *)a - *(const unsigned char *)b; }
static __attribute__((noinline)) long tally(const unsigned char *data, long n, long *low) {
    long high = 0;
    for (long i = 0; i < n; i++) {
        if (data[i] < 128) { *low += data[i]; __asm__ volatile("" ::: "memory"); }
        else { high += data[i] * 3; __asm__ volatile("" ::: "memory"); }
    }
    return high;
}
int main(int count, char **words) {
    static unsigned char data[1 << 20];
    long low = 0, high = 0, rounds = 200;
    uint64_t x = 1;
    for (unsigned i = 0; i < sizeof data; i++) { x = x * 6364136223846793005u + 1442695040888963407u; data[i] = (unsigned char)(x >> 33); }
    if (count > 1 && !strcmp(words[1], "--sorted")) qsort(data, sizeof data, 1, order);
    for (long round = 0; round < rounds; round++) high += tally(data, sizeof data, &low);
    return high == low;
}
