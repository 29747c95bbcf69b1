// Computes for a while, then waits on memory for a while, in turn. Says on standard error when each phase began and
// ended, in seconds of CLOCK_MONOTONIC, so that a time line can be checked against it.
#include <inttypes.h>
#include "chain.h"
#include "options.h"

enum { MULTIPLICATIONS = 1 << 16, LOADS = 1 << 10 }; // between two looks at the clock: about 0.1 ms

static NOINLINE struct line *allocate_chain(size_t bytes) {
    struct line *lines = or_die(lines_of(bytes), bytes);
    link_chain(lines, bytes / sizeof *lines);
    return lines;
}

static NOINLINE uint64_t compute_phase(double end) {
    uint64_t value, factor = 6364136223846793005u;
    KEEP(factor);
    do {
        value = 88172645463325253u;
        for (int i = 0; i < MULTIPLICATIONS; i++) {
            value *= factor;
            KEEP(value);
        }
    } while (monotonic_seconds() < end);
    return value;
}

static NOINLINE struct line *waiting_phase(struct line *at, double end) {
    do {
        for (int i = 0; i < LOADS; i++)
            at = at->next;
    } while (monotonic_seconds() < end);
    return at;
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 4};
    double compute = 0.5, wait = 0.5;
    size_t size = 256 << 20;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"compute", SECONDS, &compute, "length of a compute phase"},
        {"wait", SECONDS, &wait, "length of a waiting phase"},
        {"size", SIZE, &size, "bytes walked through in a waiting phase"},
    };
    PARSE_OPTIONS(argc, argv, "computes and waits on loads in turn; a round is one of each", options);
    if (size < 2 * sizeof(struct line)) {
        fprintf(stderr, "--size: at least 128 bytes\n");
        return 2;
    }
    struct line *lines = allocate_chain(size / sizeof *lines * sizeof *lines), *at = lines;
    uint64_t value = 0;
    while (another_round(&pace)) {
        double began = monotonic_seconds();
        value = compute_phase(began + compute);
        double turned = monotonic_seconds();
        at = waiting_phase(at, turned + wait);
        KEEP(at);
        double ended = monotonic_seconds();
        fprintf(stderr, "phase compute_phase %.9f %.9f\n", began, turned);
        fprintf(stderr, "phase waiting_phase %.9f %.9f\n", turned, ended);
    }
    printf("phases: checksum %016" PRIx64 "\n", value);
    print_pace("phases", &pace, 2, "phase");
    free(lines);
}
