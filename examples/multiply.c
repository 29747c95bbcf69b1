// Multiplications that each need the one before, and no memory at all: limited by a dependency chain.
#include <inttypes.h>
#include "options.h"

enum { STEPS = 1 << 20, UNROLLED = 32 };

static NOINLINE uint64_t multiply_chain(uint64_t value, uint64_t factor) {
    for (int i = 0; i < STEPS / UNROLLED; i++) {
#pragma GCC unroll 32
        for (int j = 0; j < UNROLLED; j++) {
            value *= factor;
            KEEP(value);
        }
    }
    return value;
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    const struct option options[] = {PACE_OPTIONS(pace)};
    PARSE_OPTIONS(argc, argv, "dependent multiplications; limited by a dependency chain", options);
    uint64_t value = 0;
    while (another_round(&pace))
        value = multiply_chain(88172645463325253u, 6364136223846793005u);
    printf("multiply: checksum %016" PRIx64 "\n", value);
    print_pace("multiply", &pace, STEPS, "multiplication");
}
