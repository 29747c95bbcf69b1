// A random closed chain of cache lines: each leads to the next, all are visited before one is seen again.
#ifndef CHAIN_H
#define CHAIN_H

#include <stddef.h>
#include <stdint.h>

struct line {
    struct line *next;
    char rest[56];
};

// The next number of a seeded sequence (an xorshift; good enough to confuse a prefetcher).
static inline uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

// Sattolo's shuffle: a permutation that is one cycle.
static inline void link_chain(struct line *lines, size_t count) {
    uint64_t seed = 88172645463325252u;
    for (size_t i = 0; i < count; i++)
        lines[i].next = &lines[i];
    for (size_t i = count; i-- > 1;) {
        size_t j = next_random(&seed) % i;
        struct line *kept = lines[i].next;
        lines[i].next = lines[j].next;
        lines[j].next = kept;
    }
}

#endif
