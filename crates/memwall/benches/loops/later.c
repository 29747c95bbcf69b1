// Loops written after counters told turns and chases told places, before anything of them was measured.
#include "loops.h"

#define LOOP(name) static __attribute__((noinline)) double name(const struct data *d)

LOOP(blend) {
    double *a = d->a, *b = d->b, *c = d->c;
    for (size_t i = 0; i < d->n; i++) c[i] = a[i] + 0.3 * (b[i] - a[i]);
    return c[0];
}

LOOP(horner) {
    double s = 0, *a = d->a;
    for (size_t i = 0; i < d->n; i++) {
        double x = a[i];
        s += ((0.1 * x + 0.2) * x + 0.3) * x + 0.4;
    }
    return s;
}

LOOP(chase_and_sum) {
    uint64_t s = 0;
    void **p = d->links;
    for (size_t i = 0; i < d->n; i++) {
        s += (uint64_t)p[3] * 7;
        p = *p;
    }
    return (double)s;
}

LOOP(chase_two_loads) {
    double s = 0;
    void **p = d->links;
    for (size_t i = 0; i < d->n; i++) {
        p = *p;
        s += *(double *)(p + 1) * *(double *)(p + 6);
    }
    return s;
}

LOOP(count_bytes) {
    static uint32_t counts[256];
    for (size_t i = 0; i < d->n; i++) counts[d->bytes[i]]++;
    return counts[7];
}

LOOP(gather_two) {
    double s = 0, *a = d->a, *b = d->b;
    for (size_t i = 0; i < d->n; i++) s += a[d->index[i]] * b[i];
    return s;
}

LOOP(scatter_add) {
    double *a = d->a;
    for (size_t i = 0; i < d->n; i++) a[d->index[i]] += 1.0;
    return a[0];
}

LOOP(random_probe) {
    uint64_t s = 0, state = 12345;
    for (size_t i = 0; i < d->n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        s += d->words[(state >> 33) * d->n >> 31];
    }
    return (double)s;
}

LOOP(every_eighth_pair) {
    double s = 0, *a = d->a;
    for (size_t i = 0; i + 1 < d->n; i += 16) s += a[i] * a[i + 1];
    return s;
}

LOOP(backward_copy) {
    double *a = d->a, *b = d->b;
    for (size_t i = d->n; i-- > 0;) b[i] = a[i];
    return b[0];
}

LOOP(square_roots) {
    double s = 0, *a = d->a;
    for (size_t i = 0; i < d->n; i++) s += __builtin_sqrt(a[i]);
    return s;
}

LOOP(largest_word) {
    uint64_t most = 0;
    for (size_t i = 0; i < d->n; i++) most = d->words[i] > most ? d->words[i] : most;
    return (double)most;
}

LOOP(three_points) {
    double *a = d->a, *b = d->b;
    for (size_t i = 1; i + 1 < d->n; i++) b[i] = 0.25 * a[i - 1] + 0.5 * a[i] + 0.25 * a[i + 1];
    return b[1];
}

LOOP(shift_words) {
    for (size_t i = 0; i + 1 < d->n; i++) d->words[i] = d->words[i + 1];
    return (double)d->words[0];
}

LOOP(rotated_sum) {
    uint64_t s = 0;
    for (size_t i = 0; i < d->n; i++) s = (s << 5 | s >> 59) ^ d->words[i];
    return (double)s;
}

LOOP(decayed) {
    double s = 0, *a = d->a, *b = d->b;
    for (size_t i = 0; i < d->n; i++) {
        s = s * 0.9 + a[i];
        b[i] = s;
    }
    return s;
}

int main(int argc, char **argv) {
    static const struct entry all[] = {
        {"blend", blend, A | B | C, 1},
        {"horner", horner, A, 1},
        {"chase_and_sum", chase_and_sum, LINKS, 1},
        {"chase_two_loads", chase_two_loads, LINKS, 1},
        {"count_bytes", count_bytes, BYTES, 1},
        {"gather_two", gather_two, A | B | INDEX, 1},
        {"scatter_add", scatter_add, A | INDEX, 1},
        {"random_probe", random_probe, WORDS, 1},
        {"every_eighth_pair", every_eighth_pair, A, 1.0 / 16},
        {"backward_copy", backward_copy, A | B, 1},
        {"square_roots", square_roots, A, 1},
        {"largest_word", largest_word, WORDS, 1},
        {"three_points", three_points, A | B, 1},
        {"shift_words", shift_words, WORDS, 1},
        {"rotated_sum", rotated_sum, WORDS, 1},
        {"decayed", decayed, A | B, 1},
    };
    return run_loops(argc, argv, all, sizeof all / sizeof *all);
}
