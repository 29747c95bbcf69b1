// The library that `dlopens` loads: a pointer chase in a function that the main program does not hold.
#include "../chain.h"
#include "../opaque.h"

struct line *hot_function(struct line *at, long steps);

NOINLINE struct line *hot_function(struct line *at, long steps) {
    for (; steps > 0; steps--)
        at = at->next;
    return at;
}
