// A plain loop over data of some size, repeated for some time: what one turn of it takes.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Arrays of n elements each; together they are as large as asked for.
struct data {
    size_t n;
    double *a, *b, *c;
    uint32_t *index;
    uint64_t *words;
    uint8_t *bytes;
    void **links;
};

typedef double (*loop)(const struct data *);

// What a loop needs, in bytes per element, decides n.
enum needs { A = 1, B = 2, C = 4, INDEX = 8, WORDS = 16, BYTES = 32, LINKS = 64 };

struct entry {
    const char *name;
    loop run;
    int needs;
    // Turns in one call, as a part of n.
    double turns;
};

static double cpu_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static uint64_t random_state = 88172645463325252u;

static uint64_t draw(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static void *array(int wanted, size_t bytes) {
    if (!wanted) return NULL;
    void *found = aligned_alloc(4096, (bytes + 8191) / 4096 * 4096);
    if (!found) exit(1);
    memset(found, 1, bytes);
    return found;
}

static struct data make(int needs, size_t bytes) {
    size_t each = 8 * !!(needs & A) + 8 * !!(needs & B) + 8 * !!(needs & C) + 4 * !!(needs & INDEX) +
                  8 * !!(needs & WORDS) + !!(needs & BYTES) + 64 * !!(needs & LINKS);
    size_t n = bytes / each / 8 * 8;
    struct data d = {
        .n = n,
        .a = array(needs & A, 8 * n),
        .b = array(needs & B, 8 * n),
        .c = array(needs & C, 8 * n),
        .index = array(needs & INDEX, 4 * n),
        .words = array(needs & WORDS, 8 * n),
        .bytes = array(needs & BYTES, n),
        .links = array(needs & LINKS, 64 * n),
    };
    for (size_t i = 0; i < n; i++) {
        if (d.a) d.a[i] = 1.0 + (double)(draw() % 1000) / 1000;
        if (d.b) d.b[i] = 0.5;
        if (d.c) d.c[i] = 0.25;
        if (d.index) d.index[i] = (uint32_t)(draw() % n);
        if (d.words) d.words[i] = draw();
        if (d.bytes) d.bytes[i] = (uint8_t)draw();
    }
    if (d.links) {
        // One cycle through all lines, in random order.
        size_t *order = malloc(n * sizeof *order);
        if (!order) exit(1);
        for (size_t i = 0; i < n; i++) order[i] = i;
        for (size_t i = n - 1; i > 0; i--) {
            size_t j = draw() % (i + 1), kept = order[i];
            order[i] = order[j];
            order[j] = kept;
        }
        for (size_t i = 0; i < n; i++) d.links[8 * order[i]] = &d.links[8 * order[(i + 1) % n]];
        free(order);
    }
    return d;
}

static volatile double sink;

// LOOP NAME BYTES SECONDS: prints nanoseconds of processor time per turn, the shortest of the calls left out. LOOP: lists names.
static int run_loops(int argc, char **argv, const struct entry *all, size_t count) {
    if (argc < 4) {
        for (size_t i = 0; i < count; i++) puts(all[i].name);
        return argc == 1 ? 0 : 2;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(all[i].name, argv[1]) != 0) continue;
        struct data d = make(all[i].needs, strtoull(argv[2], NULL, 10));
        double turns = all[i].turns * (double)d.n, seconds = atof(argv[3]);
        sink = all[i].run(&d);
        double began = cpu_s(), now = began, done = 0;
        // Few looks at the clock, however short a call is.
        double batch = 1 + 2e6 / turns;
        while (now - began < seconds) {
            for (double k = 0; k < batch; k++) sink = all[i].run(&d);
            done += turns * (double)(size_t)(batch + 0.999999);
            now = cpu_s();
        }
        printf("%.6f\n", (now - began) * 1e9 / done);
        return 0;
    }
    return 2;
}
