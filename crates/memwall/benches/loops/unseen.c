// Loops that nobody looked at while rules were made: what memwall says of these is what it may promise. Do not tune on them.
#include "loops.h"

#define LOOP(name) static __attribute__((noinline)) double name(const struct data *d)

LOOP(stencil) {
    double *a = d->a, *b = d->b;
    for (size_t i = 1; i + 1 < d->n; i++) b[i] = 0.25 * a[i - 1] + 0.5 * a[i] + 0.25 * a[i + 1];
    return b[1];
}

LOOP(prefix) {
    double s = 0, *a = d->a, *b = d->b;
    for (size_t i = 0; i < d->n; i++) b[i] = s += a[i];
    return s;
}

LOOP(checksum) {
    uint64_t x = 0;
    for (size_t i = 0; i < d->n; i++) x = (x << 5 | x >> 59) ^ d->words[i];
    return (double)x;
}

LOOP(translate) {
    uint8_t table[256];
    for (int i = 0; i < 256; i++) table[i] = (uint8_t)(i * 7);
    uint8_t *bytes = d->bytes;
    for (size_t i = 0; i < d->n; i++) bytes[i] = table[bytes[i]];
    return bytes[0];
}

LOOP(scatter) {
    double *a = d->a;
    for (size_t i = 0; i < d->n; i++) a[d->index[i]] = 1.5;
    return a[0];
}

LOOP(payload) {
    uint64_t s = 0;
    void **p = d->links;
    for (size_t i = 0; i < d->n; i++) {
        s += (uint64_t)p[1] * (uint64_t)p[2];
        p = *p;
    }
    return (double)s;
}

LOOP(columns) {
    // Lines of 64 elements, walked down.
    double s = 0;
    size_t rows = d->n / 64;
    for (size_t column = 0; column < 64; column++)
        for (size_t row = 0; row < rows; row++) s += d->a[row * 64 + column];
    return s;
}

LOOP(four_sums) {
    double s = 0, t = 0, u = 0, v = 0;
    for (size_t i = 0; i + 3 < d->n; i += 4) {
        s += d->a[i];
        t += d->a[i + 1];
        u += d->a[i + 2];
        v += d->a[i + 3];
    }
    return s + t + u + v;
}

LOOP(scale) {
    double *a = d->a;
    for (size_t i = 0; i < d->n; i++) a[i] *= 1.0000001;
    return a[0];
}

LOOP(reverse) {
    double *a = d->a, *b = d->b;
    size_t n = d->n;
    for (size_t i = 0; i < n; i++) b[n - 1 - i] = a[i];
    return b[0];
}

LOOP(indirect_products) {
    double s = 0;
    for (size_t i = 0; i < d->n; i++) s += d->b[i] * d->a[d->index[i]];
    return s;
}

LOOP(hash_probe) {
    uint64_t found = 0;
    for (size_t i = 0; i < d->n; i++) {
        uint64_t key = (uint64_t)i * 0x9e3779b97f4a7c15u;
        found += d->words[(key >> 32) * d->n >> 32] == key;
    }
    return (double)found;
}

LOOP(smallest_index) {
    size_t best = 0;
    for (size_t i = 0; i < d->n; i++) best = d->words[i] < d->words[best] ? i : best;
    return (double)best;
}

LOOP(two_chases) {
    void **p = d->links, **q = d->links + 8 * (d->n / 2);
    for (size_t i = 0; i < d->n / 2; i++) {
        p = *p;
        q = *q;
    }
    return p == q;
}

LOOP(root) {
    double *a = d->a, *b = d->b;
    for (size_t i = 0; i < d->n; i++) b[i] = __builtin_sqrt(a[i]);
    return b[0];
}

LOOP(sum_of_bytes) {
    uint64_t s = 0;
    for (size_t i = 0; i < d->n; i++) s += d->bytes[i];
    return (double)s;
}

int main(int argc, char **argv) {
    static const struct entry all[] = {
        {"stencil", stencil, A | B, 1},
        {"prefix", prefix, A | B, 1},
        {"checksum", checksum, WORDS, 1},
        {"translate", translate, BYTES, 1},
        {"scatter", scatter, A | INDEX, 1},
        {"payload", payload, LINKS, 1},
        {"columns", columns, A, 1},
        {"four_sums", four_sums, A, 0.25},
        {"scale", scale, A, 1},
        {"reverse", reverse, A | B, 1},
        {"indirect_products", indirect_products, A | B | INDEX, 1},
        {"hash_probe", hash_probe, WORDS, 1},
        {"smallest_index", smallest_index, WORDS, 1},
        {"two_chases", two_chases, LINKS, 0.5},
        {"root", root, A | B, 1},
        {"sum_of_bytes", sum_of_bytes, BYTES, 1},
    };
    return run_loops(argc, argv, all, sizeof all / sizeof *all);
}
