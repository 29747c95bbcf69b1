// Loops written after the rules, by somebody who had not seen what the analysis makes of them: reported once, then seen.
#include "loops.h"

#define LOOP(name) static __attribute__((noinline)) double name(const struct data *d)

LOOP(running_mean) {
    double mean = 0, *a = d->a;
    for (size_t i = 0; i < d->n; i++) mean += 0.01 * (a[i] - mean);
    return mean;
}

LOOP(deltas) {
    uint64_t *words = d->words, last = 0;
    for (size_t i = 0; i < d->n; i++) {
        uint64_t now = words[i];
        words[i] = now - last;
        last = now;
    }
    return (double)last;
}

LOOP(distance) {
    double s = 0, *a = d->a, *b = d->b;
    for (size_t i = 0; i < d->n; i++) {
        double difference = a[i] - b[i];
        s += difference * difference;
    }
    return s;
}

LOOP(scaled_copy) {
    double *a = d->a, *b = d->b;
    for (size_t i = 0; i < d->n; i++) b[i] = 3 * a[i] + 1;
    return b[1];
}

LOOP(words_to_doubles) {
    for (size_t i = 0; i < d->n; i++) d->a[i] = (double)(d->words[i] >> 12);
    return d->a[0];
}

LOOP(permuted_copy) {
    double *a = d->a, *b = d->b;
    for (size_t i = 0; i < d->n; i++) b[i] = a[d->index[i]];
    return b[0];
}

LOOP(permuted_store) {
    double *a = d->a, *b = d->b;
    for (size_t i = 0; i < d->n; i++) b[d->index[i]] = a[i];
    return b[0];
}

LOOP(lookup_bytes) {
    // A large table, asked by a counter that is mixed.
    uint64_t s = 0;
    const uint8_t *bytes = d->bytes;
    size_t n = d->n;
    for (size_t i = 0; i < n / 4; i++) {
        uint64_t key = i * 0xff51afd7ed558ccdu;
        s += bytes[(key >> 32) * n >> 32];
    }
    return (double)s;
}

LOOP(chase_and_work) {
    double s = 1;
    void **p = d->links;
    for (size_t i = 0; i < d->n; i++) {
        p = *p;
        s = s * 0.5 + (double)(uint64_t)p[4];
    }
    return s;
}

LOOP(chase_and_write) {
    void **p = d->links;
    for (size_t i = 0; i < d->n; i++) {
        p[5] = (void *)i;
        p = *p;
    }
    return p == d->links;
}

LOOP(every_third_line) {
    double s = 0, *a = d->a;
    for (size_t i = 0; i < d->n; i += 24) s += a[i];
    return s;
}

LOOP(short_rows) {
    // Rows of 24 elements, a sum for each.
    double *a = d->a, *b = d->b;
    for (size_t row = 0; row + 24 <= d->n; row += 24) {
        double s = 0;
        for (size_t i = 0; i < 24; i++) s += a[row + i];
        b[row / 24] = s;
    }
    return b[0];
}

LOOP(three_way) {
    double *a = d->a, *b = d->b, *c = d->c;
    for (size_t i = 0; i < d->n; i++) a[i] = a[i] * b[i] + c[i];
    return a[0];
}

LOOP(clamp) {
    double *a = d->a;
    for (size_t i = 0; i < d->n; i++) a[i] = a[i] < 1.2 ? 1.2 : a[i] > 1.8 ? 1.8 : a[i];
    return a[0];
}

LOOP(count_large) {
    size_t found = 0;
    for (size_t i = 0; i < d->n; i++) found += d->words[i] > 0x4000000000000000u;
    return (double)found;
}

LOOP(parity) {
    uint64_t x = 0;
    for (size_t i = 0; i < d->n; i++) x ^= d->words[i];
    return (double)x;
}

LOOP(inverse) {
    double *a = d->a, *b = d->b;
    for (size_t i = 0; i < d->n; i++) b[i] = 1 / a[i];
    return b[0];
}

LOOP(mixed_words) {
    // A few operations on each word that wait for each other, none for the next word.
    uint64_t s = 0;
    for (size_t i = 0; i < d->n; i++) {
        uint64_t x = d->words[i];
        x ^= x >> 33;
        x *= 0xff51afd7ed558ccdu;
        x ^= x >> 33;
        x *= 0xc4ceb9fe1a85ec53u;
        s += x ^ x >> 33;
    }
    return (double)s;
}

LOOP(swap_halves) {
    uint64_t *words = d->words;
    size_t half = d->n / 2;
    for (size_t i = 0; i < half; i++) {
        uint64_t kept = words[i];
        words[i] = words[half + i];
        words[half + i] = kept;
    }
    return (double)words[0];
}

LOOP(filtered) {
    // One element in four is taken, at random.
    double s = 0;
    for (size_t i = 0; i < d->n; i++)
        if ((d->index[i] & 3) == 0) s += d->a[i];
    return s;
}

int main(int argc, char **argv) {
    static const struct entry all[] = {
        {"running_mean", running_mean, A, 1},
        {"deltas", deltas, WORDS, 1},
        {"distance", distance, A | B, 1},
        {"scaled_copy", scaled_copy, A | B, 1},
        {"words_to_doubles", words_to_doubles, A | WORDS, 1},
        {"permuted_copy", permuted_copy, A | B | INDEX, 1},
        {"permuted_store", permuted_store, A | B | INDEX, 1},
        {"lookup_bytes", lookup_bytes, BYTES, 0.25},
        {"chase_and_work", chase_and_work, LINKS, 1},
        {"chase_and_write", chase_and_write, LINKS, 1},
        {"every_third_line", every_third_line, A, 1.0 / 24},
        {"short_rows", short_rows, A | B, 1},
        {"three_way", three_way, A | B | C, 1},
        {"clamp", clamp, A, 1},
        {"count_large", count_large, WORDS, 1},
        {"parity", parity, WORDS, 1},
        {"inverse", inverse, A | B, 1},
        {"mixed_words", mixed_words, WORDS, 1},
        {"swap_halves", swap_halves, WORDS, 0.5},
        {"filtered", filtered, A | INDEX, 1},
    };
    return run_loops(argc, argv, all, sizeof all / sizeof *all);
}
