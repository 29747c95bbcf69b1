/* Two threads follow random pointers through 128 MiB of their own. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
enum { LINES = 1 << 21 };
struct node { struct node *next; char rest[56]; };
static long steps = 15000000;
static struct node *built(uint64_t x) {
    struct node *nodes = aligned_alloc(64, (size_t)LINES * sizeof *nodes);
    uint32_t *order = malloc(LINES * sizeof *order);
    for (uint32_t i = 0; i < LINES; i++) order[i] = i;
    for (uint32_t i = LINES - 1; i > 0; i--) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        uint32_t j = (uint32_t)((x >> 33) % i), kept = order[i];
        order[i] = order[j]; order[j] = kept;
    }
    for (uint32_t i = 0; i < LINES; i++) nodes[order[i]].next = &nodes[order[(i + 1) % LINES]];
    free(order);
    return nodes;
}
static void *follow(void *seed) {
    struct node *at = built((uint64_t)seed);
    for (long i = 0; i < steps; i++) at = at->next;
    return at;
}
int main(int count, char **words) {
    pthread_t threads[2];
    if (count > 1) steps = atol(words[1]);
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, follow, (void *)(i + 1));
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return 0;
}
