// A random pointer chase: each load needs the one before. Optionally with multiplications between the loads, that the
// next load needs too (dependent) or that can be done while it waits (independent).
//
// More than 16 MB are walked in sections, one a round, all linked alike: every round ends on the same line of its
// section, and a section is long out of the caches when its turn comes again.
#include "chain.h"
#include "options.h"

typedef struct line *chase_function(struct line *at, size_t steps, uint64_t one);

enum { SECTION = (16 << 20) / sizeof(struct line) };

static NOINLINE struct line *allocate_chains(size_t sections, size_t count) {
    size_t bytes = sections * count * sizeof(struct line);
    struct line *lines = or_die(lines_of(bytes), bytes);
    for (size_t i = 0; i < sections; i++)
        link_chain(lines + i * count, count);
    return lines;
}

static NOINLINE struct line *chase(struct line *at, size_t steps, uint64_t one) {
    (void)one;
    for (; steps > 0; steps--)
        at = at->next;
    return at;
}

// Multiplies the address by a one that the compiler does not know of, so that the next load waits for all of it.
#define CHASE_DEPENDENT(muls)                                                                             \
    static NOINLINE struct line *chase_dependent_##muls(struct line *at, size_t steps, uint64_t one) {   \
        for (; steps > 0; steps--) {                                                                      \
            uint64_t address = (uint64_t)at->next;                                                        \
            _Pragma("GCC unroll 32") for (int i = 0; i < muls; i++) {                                     \
                address *= one;                                                                           \
                KEEP(address);                                                                            \
            }                                                                                             \
            at = (struct line *)address;                                                                  \
        }                                                                                                 \
        return at;                                                                                        \
    }

#define KEEP4(a, b, c, d) __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d))

// Four chains of multiplications that no load waits for.
#define CHASE_INDEPENDENT(muls)                                                                           \
    static NOINLINE struct line *chase_independent_##muls(struct line *at, size_t steps, uint64_t one) { \
        uint64_t a = 3, b = 5, c = 7, d = 9;                                                              \
        for (; steps > 0; steps--) {                                                                      \
            at = at->next;                                                                                \
            _Pragma("GCC unroll 32") for (int i = 0; i < muls / 4; i++) {                                 \
                a *= one, b *= one, c *= one, d *= one;                                                   \
                KEEP4(a, b, c, d);                                                                        \
            }                                                                                             \
        }                                                                                                 \
        return at;                                                                                        \
    }

CHASE_DEPENDENT(8)
CHASE_DEPENDENT(16)
CHASE_DEPENDENT(24)
CHASE_DEPENDENT(32)
CHASE_INDEPENDENT(8)
CHASE_INDEPENDENT(16)
CHASE_INDEPENDENT(24)
CHASE_INDEPENDENT(32)

static chase_function *choose(long muls, bool independent) {
    static chase_function *const functions[][2] = {
        {chase, chase},
        {chase_dependent_8, chase_independent_8},
        {chase_dependent_16, chase_independent_16},
        {chase_dependent_24, chase_independent_24},
        {chase_dependent_32, chase_independent_32},
    };
    if (muls > 32 || muls % 8 != 0) {
        fprintf(stderr, "--muls: 0, 8, 16, 24 or 32, not %ld\n", muls);
        exit(2);
    }
    return functions[muls / 8][independent];
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    size_t size = 256 << 20;
    long muls = 0;
    bool dependent = false, independent = false;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"size", SIZE, &size, "bytes walked through"},
        {"muls", COUNT, &muls, "multiplications between two loads: 0, 8, 16, 24 or 32"},
        {"dependent", FLAG, &dependent, "the next load needs the multiplications (the default)"},
        {"independent", FLAG, &independent, "no load needs the multiplications"},
    };
    PARSE_OPTIONS(argc, argv, "random pointer chase; waits on loads", options);
    if (dependent && independent) {
        fprintf(stderr, "--dependent and --independent exclude each other\n");
        return 2;
    }
    chase_function *walk = choose(muls, independent);
    size_t count = size / sizeof(struct line);
    if (count < 2) {
        fprintf(stderr, "--size: at least 128 bytes\n");
        return 2;
    }
    size_t sections = count > SECTION ? count / SECTION : 1;
    count /= sections;
    struct line *lines = allocate_chains(sections, count);
    // All but one step of a few whole turns: the line at the end then says whether the walk went right.
    size_t turns = count < 65536 ? 65536 / count : 1;
    size_t steps = turns * count - 1;
    ptrdiff_t end = 0;
    for (size_t round = 0; another_round(&pace); round++) {
        struct line *section = lines + round % sections * count;
        end = walk(section, steps, 1) - section;
    }
    printf("chase: ended on line %td of %zu\n", end, count);
    print_pace("chase", &pace, (double)steps, "load");
    free(lines);
}
