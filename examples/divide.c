// Divisions that each need the one before: limited by the divider.
#include <inttypes.h>
#include "options.h"

enum { STEPS = 1 << 18 };

// The divisor stays near 2^31 and the quotient too, so that no division is a short one.
static NOINLINE uint64_t divide_chain(uint64_t value, uint64_t dividend) {
    for (int i = 0; i < STEPS; i++)
        value = dividend / value + 3;
    return value;
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    const struct option options[] = {PACE_OPTIONS(pace)};
    PARSE_OPTIONS(argc, argv, "dependent divisions; limited by the divider", options);
    uint64_t value = 0;
    while (another_round(&pace))
        value = divide_chain(2654435769u, 0x7fffffffffffffe7u);
    printf("divide: checksum %016" PRIx64 "\n", value);
    print_pace("divide", &pace, STEPS, "division");
}
