// The loops that rules were developed on.
#include "loops.h"

#define LOOP(name) static __attribute__((noinline)) double name(const struct data *d)

LOOP(sum) {
    double s = 0;
    for (size_t i = 0; i < d->n; i++) s += d->a[i];
    return s;
}

LOOP(every_eighth) {
    double s = 0;
    for (size_t i = 0; i < d->n; i += 8) s += d->a[i];
    return s;
}

LOOP(gather) {
    double s = 0;
    for (size_t i = 0; i < d->n; i++) s += d->a[d->index[i]];
    return s;
}

LOOP(fill) {
    double *a = d->a;
    for (size_t i = 0; i < d->n; i++) {
        a[i] = 3.0;
        __asm__("" : : : "memory");
    }
    return a[0];
}

LOOP(axpy) {
    double *a = d->a, *b = d->b;
    for (size_t i = 0; i < d->n; i++) a[i] += 3.0 * b[i];
    return a[0];
}

LOOP(triad) {
    double *a = d->a, *b = d->b, *c = d->c;
    for (size_t i = 0; i < d->n; i++) a[i] = b[i] + 3.0 * c[i];
    return a[0];
}

LOOP(polynomial) {
    double *a = d->a, *b = d->b;
    for (size_t i = 0; i < d->n; i++) {
        double x = a[i];
        b[i] = 1 + x * (2 + x * (3 + x * (4 + x * 5)));
    }
    return b[0];
}

LOOP(maximum) {
    double most = 0;
    for (size_t i = 0; i < d->n; i++) most = d->a[i] > most ? d->a[i] : most;
    return most;
}

LOOP(independent) {
    uint64_t x = 12345, s = 0;
    for (size_t i = 0; i < d->n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        s += d->words[(x >> 32) * d->n >> 32];
    }
    return (double)s;
}

LOOP(chase) {
    void **p = d->links;
    for (size_t i = 0; i < d->n; i++) p = *p;
    return p == NULL;
}

LOOP(atomic_private) {
    for (size_t i = 0; i < d->n; i++) __atomic_fetch_add(&d->words[0], 1, __ATOMIC_SEQ_CST);
    return (double)d->words[0];
}

LOOP(copy) {
    double *a = d->a, *b = d->b;
    for (size_t i = 0; i < d->n; i++) {
        a[i] = b[i];
        __asm__("" : : : "memory");
    }
    return a[0];
}

LOOP(dot) {
    double s = 0;
    for (size_t i = 0; i < d->n; i++) s += d->a[i] * d->b[i];
    return s;
}

LOOP(histogram) {
    uint64_t *counts = d->words;
    for (size_t i = 0; i < d->n; i++) counts[d->index[i]]++;
    return (double)counts[0];
}

LOOP(count_if) {
    uint64_t count = 0;
    for (size_t i = 0; i < d->n; i++) count += d->words[i] > UINT64_MAX / 2;
    return (double)count;
}

LOOP(divide) {
    double *a = d->a, *b = d->b;
    for (size_t i = 0; i < d->n; i++) b[i] = 3.0 / a[i];
    return b[0];
}

int main(int argc, char **argv) {
    static const struct entry all[] = {
        {"sum", sum, A, 1},
        {"every_eighth", every_eighth, A, 0.125},
        {"gather", gather, A | INDEX, 1},
        {"fill", fill, A, 1},
        {"axpy", axpy, A | B, 1},
        {"triad", triad, A | B | C, 1},
        {"polynomial", polynomial, A | B, 1},
        {"maximum", maximum, A, 1},
        {"independent", independent, WORDS, 1},
        {"chase", chase, LINKS, 1},
        {"atomic_private", atomic_private, WORDS, 1},
        {"copy", copy, A | B, 1},
        {"dot", dot, A | B, 1},
        {"histogram", histogram, WORDS | INDEX, 1},
        {"count_if", count_if, WORDS, 1},
        {"divide", divide, A | B, 1},
    };
    return run_loops(argc, argv, all, sizeof all / sizeof *all);
}
