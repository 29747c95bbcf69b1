// Twenty plain loops: what random kernels must have the instructions of.
#include <math.h>
#include <stddef.h>
#include <stdint.h>

double sum(const double *a, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += a[i];
    return s;
}

long sum_long(const long *a, size_t n) {
    long s = 0;
    for (size_t i = 0; i < n; i++) s += a[i];
    return s;
}

double dot(const double *a, const double *b, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}

void axpy(double *a, const double *b, size_t n) {
    for (size_t i = 0; i < n; i++) a[i] += 3.0 * b[i];
}

void triad(double *restrict a, const double *restrict b, const double *restrict c, size_t n) {
    for (size_t i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
}

void fill(double *a, size_t n) {
    for (size_t i = 0; i < n; i++) a[i] = 3.0;
}

void copy(long *a, const long *b, size_t n) {
    for (size_t i = 0; i < n; i++) a[i] = b[i];
}

double every_eighth(const double *a, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i += 8) s += a[i];
    return s;
}

double gather(const double *a, const uint32_t *x, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += a[x[i]];
    return s;
}

void scatter(double *a, const double *b, const size_t *x, size_t n) {
    for (size_t i = 0; i < n; i++) a[x[i]] = b[i];
}

void histogram(long *a, const uint32_t *x, size_t n) {
    for (size_t i = 0; i < n; i++) a[x[i]]++;
}

double maximum(const double *a, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) most = a[i] > most ? a[i] : most;
    return most;
}

long maximum_long(const long *a, size_t n) {
    long most = 0;
    for (size_t i = 0; i < n; i++) most = a[i] > most ? a[i] : most;
    return most;
}

size_t count_below(const double *a, double limit, size_t n) {
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        if (a[i] < limit) found++;
    return found;
}

void stencil(double *restrict a, const double *restrict b, size_t n) {
    for (size_t i = 1; i + 1 < n; i++) a[i] = (b[i - 1] + b[i] + b[i + 1]) / 3.0;
}

void polynomial(double *a, const double *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double x = b[i];
        a[i] = 1 + x * (2 + x * (3 + x * (4 + x * 5)));
    }
}

void quotient(double *a, const double *b, size_t n) {
    for (size_t i = 0; i < n; i++) a[i] = b[i] / a[i];
}

long product(const long *a, size_t n) {
    long p = 1;
    for (size_t i = 0; i < n; i++) p *= a[i];
    return p;
}

void atomics(long *a, size_t n) {
    for (size_t i = 0; i < n; i++) __atomic_fetch_add(&a[i], 1, __ATOMIC_RELAXED);
}

struct node {
    struct node *next;
    long value;
};

long chase(const struct node *p) {
    long s = 0;
    while (p) {
        s += p->value;
        p = p->next;
    }
    return s;
}
