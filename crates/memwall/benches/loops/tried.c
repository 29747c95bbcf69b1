// Loops that were unseen once: what was wrong of them led to rules.
#include "loops.h"

#define LOOP(name) static __attribute__((noinline)) double name(const struct data *d)

LOOP(strided_store) {
    double *a = d->a;
    for (size_t i = 0; i < d->n; i += 16) a[i] = 2.0;
    return a[0];
}
LOOP(transpose) {
    size_t r = 64, rows = d->n / r;
    double *a = d->a, *b = d->b;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < r; j++) b[j * rows + i] = a[i * r + j];
    return b[0];
}
LOOP(count_buckets) {
    uint32_t *x = d->index;
    uint64_t *w = d->words;
    for (size_t i = 0; i < d->n; i++) w[x[i]]++;
    return (double)w[0];
}
LOOP(row_products) {
    size_t cols = 512, rows = d->n / cols;
    double t = 0;
    double *a = d->a;
    if (!rows) {
        rows = 1;
        cols = d->n;
    }
    for (size_t i = 0; i < rows; i++) {
        double s = 0;
        for (size_t j = 0; j < cols; j++) s += a[i * cols + j] * 1.5;
        t += s;
    }
    return t;
}
LOOP(library_copy) {
    memcpy(d->b, d->a, d->n * 8);
    return d->b[0];
}
LOOP(library_fill) {
    memset(d->a, 0, d->n * 8);
    return d->a[0];
}
LOOP(bits) {
    uint64_t s = 0, x = 99;
    const uint64_t *w = d->words;
    size_t bits = d->n * 64;
    for (size_t i = 0; i < d->n; i++) {
        x = x * 6364136223846793005u + 1;
        size_t b = (size_t)(((unsigned __int128)x * bits) >> 64);
        s += w[b >> 6] >> (b & 63) & 1;
    }
    return (double)s;
}
LOOP(sparse_rows) {
    double t = 0;
    const double *a = d->a, *b = d->b;
    const uint32_t *x = d->index;
    size_t n = d->n;
    for (size_t row = 0; row + 8 <= n; row += 8) {
        double s = 0;
        for (size_t k = row; k < row + 8; k++) s += a[k] * b[x[k]];
        t += s;
    }
    return t;
}
LOOP(byte_hash) {
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < d->n; i++) h = (h ^ d->bytes[i]) * 1099511628211u;
    return (double)h;
}
LOOP(ones) {
    uint64_t s = 0;
    for (size_t i = 0; i < d->n; i++) s += (uint64_t)__builtin_popcountll(d->words[i]);
    return (double)s;
}
LOOP(difference) {
    double *a = d->a, *b = d->b, *c = d->c;
    for (size_t i = 0; i < d->n; i++) c[i] = a[i] - b[i];
    return c[0];
}
LOOP(shuffle) {
    uint64_t x = 7, *w = d->words;
    size_t n = d->n;
    for (size_t i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1;
        size_t j = (size_t)(((unsigned __int128)x * n) >> 64);
        uint64_t k = w[i];
        w[i] = w[j];
        w[j] = k;
    }
    return (double)w[0];
}
LOOP(sieve) {
    uint8_t *b = d->bytes;
    size_t n = d->n;
    for (size_t p = 3; p < 60; p += 2)
        for (size_t i = p; i < n; i += p) b[i] = 1;
    return b[5];
}
LOOP(records) {
    // Three fields of records of 64 bytes.
    double s = 0;
    double *a = d->a;
    for (size_t i = 0; i + 7 < d->n; i += 8) s += a[i] * a[i + 3] + a[i + 6];
    return s;
}
LOOP(two_steps) {
    double s = 0;
    uint32_t *x = d->index;
    double *a = d->a;
    for (size_t i = 0; i < d->n; i++) s += a[x[x[i]]];
    return s;
}
LOOP(divided) {
    double s = 0;
    double *a = d->a, *b = d->b;
    for (size_t i = 0; i < d->n; i++) s += a[i] / b[i];
    return s;
}
LOOP(branch_sum) {
    double s = 0;
    double *a = d->a;
    for (size_t i = 0; i < d->n; i++)
        if (a[i] > 1.5)
            s += a[i];
        else
            s -= 0.25;
    return s;
}
LOOP(atomic_random) {
    uint64_t x = 5, *w = d->words;
    size_t n = d->n;
    for (size_t i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1;
        __atomic_fetch_add(&w[(size_t)(((unsigned __int128)x * n) >> 64)], 1, __ATOMIC_RELAXED);
    }
    return (double)w[0];
}
LOOP(shifted_or) {
    uint64_t *w = d->words;
    uint64_t c = 0;
    for (size_t i = 0; i < d->n; i++) {
        uint64_t v = w[i];
        w[i] = v << 1 | c;
        c = v >> 63;
    }
    return (double)c;
}
LOOP(backwards) {
    double s = 0;
    double *a = d->a;
    for (size_t i = d->n; i-- > 0;) s += a[i];
    return s;
}
LOOP(every_line_update) {
    uint64_t *w = d->words;
    for (size_t i = 0; i < d->n; i += 8) w[i] += 3;
    return (double)w[0];
}
LOOP(page_steps) {
    uint64_t s = 0, *w = d->words;
    size_t n = d->n;
    for (size_t o = 0; o < 512; o += 8)
        for (size_t i = o; i < n; i += 512) s += w[i];
    return (double)s;
}
LOOP(list_search) {
    // A branch on what each link holds.
    void **p = d->links;
    uint64_t s = 0;
    for (size_t i = 0; i < d->n; i++) {
        if (((uint64_t)p[3] & 3) == 0)
            s += 1;
        else
            s += (uint64_t)p[2];
        p = *p;
    }
    return (double)s;
}
LOOP(absolute_max) {
    double m = 0;
    double *a = d->a;
    for (size_t i = 0; i < d->n; i++) {
        double v = __builtin_fabs(a[i] - 1.5);
        m = v > m ? v : m;
    }
    return m;
}
LOOP(horner) {
    double s = 0;
    double *a = d->a;
    for (size_t i = 0; i < d->n; i++) {
        double x = a[i];
        s += ((((((x + 1) * x + 2) * x + 3) * x + 4) * x + 5) * x + 6) * x;
    }
    return s;
}
LOOP(blend) {
    double *a = d->a, *b = d->b, *c = d->c;
    for (size_t i = 0; i < d->n; i++) c[i] = a[i] > 1.5 ? b[i] : a[i] * 0.5;
    return c[0];
}

int main(int argc, char **argv) {
    static const struct entry all[] = {
        {"strided_store", strided_store, A, 1.0 / 16},
        {"transpose", transpose, A | B, 1},
        {"count_buckets", count_buckets, WORDS | INDEX, 1},
        {"row_products", row_products, A, 1},
        {"library_copy", library_copy, A | B, 1},
        {"library_fill", library_fill, A, 1},
        {"bits", bits, WORDS, 1},
        {"sparse_rows", sparse_rows, A | B | INDEX, 1},
        {"byte_hash", byte_hash, BYTES, 1},
        {"ones", ones, WORDS, 1},
        {"difference", difference, A | B | C, 1},
        {"shuffle", shuffle, WORDS, 1},
        {"sieve", sieve, BYTES, 2.0},
        {"records", records, A, 1.0 / 8},
        {"two_steps", two_steps, A | INDEX, 1},
        {"divided", divided, A | B, 1},
        {"branch_sum", branch_sum, A, 1},
        {"atomic_random", atomic_random, WORDS, 1},
        {"shifted_or", shifted_or, WORDS, 1},
        {"backwards", backwards, A, 1},
        {"every_line_update", every_line_update, WORDS, 1.0 / 8},
        {"page_steps", page_steps, WORDS, 1.0 / 8},
        {"list_search", list_search, LINKS, 1},
        {"absolute_max", absolute_max, A, 1},
        {"horner", horner, A, 1},
        {"blend", blend, A | B | C, 1},
    };
    return run_loops(argc, argv, all, sizeof all / sizeof *all);
}
