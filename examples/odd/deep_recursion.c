// Calls itself tens of thousands of times and works at the bottom: a stack deeper than anyone unwinds.
#include "work.h"

static NOINLINE long descend(long depth, struct pace *pace) {
    if (depth == 0)
        return work(pace);
    long below = descend(depth - 1, pace);
    KEEP(below); // so that this is no tail call
    return below + 1;
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 1};
    long depth = 50000;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"depth", COUNT, &depth, "calls within calls"},
    };
    PARSE_OPTIONS(argc, argv, "works at the bottom of a deep recursion", options);
    printf("deep_recursion: depth %ld, ended on line %ld\n", depth, descend(depth, &pace) - depth);
}
