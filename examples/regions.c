// Regions marked for memwall: one walks through memory, one computes, both within a third; the first visit of the one that
// computes does not count.
#include "../include/memwall.h"
#include "chain.h"
#include "options.h"

static NOINLINE struct line *walk(struct line *at, size_t steps) {
    for (; steps > 0; steps--)
        at = at->next;
    return at;
}

static NOINLINE uint64_t compute(uint64_t value, size_t steps) {
    for (; steps > 0; steps--) {
        value *= 3;
        KEEP(value);
    }
    return value;
}

int main(int argc, char **argv) {
    enum { STEPS = 1 << 14, COMPUTING = 40 * STEPS };
    struct pace pace = {.seconds = 2};
    size_t size = 64 << 20;
    const struct option options[] = {
        {"size", SIZE, &size, "bytes to walk through"},
        PACE_OPTIONS(pace),
    };
    PARSE_OPTIONS(argc, argv, "walks and computes in marked regions", options);
    size_t count = size / sizeof(struct line);
    struct line *lines = or_die(lines_of(count * sizeof(struct line)), count * sizeof(struct line));
    link_chain(lines, count);
    struct line *at = lines;
    uint64_t value = 1;
    memwall_skip_first("compute", 1);
    while (another_round(&pace)) {
        memwall_begin("round");
        memwall_begin("walk");
        at = walk(at, STEPS);
        memwall_end("walk");
        memwall_begin("compute");
        value = compute(value, COMPUTING);
        memwall_end("compute");
        memwall_end("round");
    }
    KEEP(at);
    KEEP(value);
    printf("done\n");
    print_pace("regions", &pace, STEPS, "step");
    return 0;
}
