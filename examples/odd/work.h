// Something to be busy with while something odd happens.
#ifndef WORK_H
#define WORK_H

#include "../chain.h"
#include "../options.h"

enum { WORK_LINES = 1 << 16, WORK_STEPS = 1 << 16 };

static NOINLINE struct line *allocate_work(void) {
    size_t bytes = WORK_LINES * sizeof(struct line);
    struct line *lines = or_die(lines_of(bytes), bytes);
    link_chain(lines, WORK_LINES);
    return lines;
}

static NOINLINE struct line *work_step(struct line *at) {
    for (int i = 0; i < WORK_STEPS - 1; i++)
        at = at->next;
    return at;
}

// Chases pointers through 4 MB for as long as PACE says, and returns the number of the line it ended on.
static inline long work(struct pace *pace) {
    struct line *lines = allocate_work(), *end = lines;
    while (another_round(pace))
        end = work_step(lines);
    long at = end - lines;
    free(lines);
    return at;
}

#endif
