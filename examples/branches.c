// Branches that a fair coin decides, on data in the first-level cache: limited by mispredicted branches.
#include <inttypes.h>
#include "chain.h"
#include "options.h"

enum { STEPS = 1 << 20 };

static NOINLINE uint8_t *allocate_coins(size_t bytes) {
    uint8_t *coins = or_die(lines_of(bytes), bytes);
    uint64_t seed = 88172645463325252u;
    for (size_t i = 0; i < bytes; i++)
        coins[i] = next_random(&seed) >> 32 & 1;
    return coins;
}

// Looks the coins up in an order that takes far longer to repeat than a predictor remembers.
static NOINLINE uint64_t count_heads(const uint8_t *coins, size_t mask) {
    uint64_t heads = 0, tails = 1, order = 1;
    for (int i = 0; i < STEPS; i++) {
        order = order * 6364136223846793005u + 1442695040888963407u;
        if (coins[order >> 40 & mask]) {
            heads += 3;
            KEEP(heads);
        } else {
            tails ^= order;
            KEEP(tails);
        }
    }
    return heads + tails;
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    size_t size = 16 << 10;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"size", SIZE, &size, "bytes of coins, a power of two"},
    };
    PARSE_OPTIONS(argc, argv, "unpredictable branches; limited by mispredictions", options);
    if (size & (size - 1)) {
        fprintf(stderr, "--size: a power of two, not %zu\n", size);
        return 2;
    }
    uint8_t *coins = allocate_coins(size);
    uint64_t value = 0;
    while (another_round(&pace))
        value = count_heads(coins, size - 1);
    printf("branches: checksum %016" PRIx64 "\n", value);
    print_pace("branches", &pace, STEPS, "branch");
    free(coins);
}
