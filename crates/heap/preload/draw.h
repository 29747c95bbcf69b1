/* Which small blocks are written down: a Poisson process over the bytes that a thread allocates.
 *
 * Points lie at exponential distances, so a block of s bytes holds one with probability 1 - exp(-s / d), whatever was
 * allocated before it, where d is the mean distance, which the note carries. Each such block therefore stands for
 * s / (1 - exp(-s / d)) bytes, without bias. d grows with what the thread has allocated, and only at a point, so that it
 * depends on the past alone. A forked process has its parent's next point for its first one: without bias too, but
 * children of one parent share it.
 *
 * Whole numbers only: floating point would leave its marks in the program's flags, or trap there.
 */

enum {
    LARGE = 16384,     /* written down always, see heap.c */
    OFTEN_LOG2 = 12,   /* mean distance of a thread's points, at first */
    RARE_LOG2 = 20,    /* and at last */
    SHARE_LOG2 = 9,    /* in between: this fraction of all it has allocated, down to a power of two */
    LOG_BITS = 16,     /* of a logarithm, behind the point */
    LN_2 = 45426,      /* with that many bits */
};

/* Bytes to the next point are countdown + beyond. The first is what every allocation looks at: it is less than the size of
 * blocks that are all written down, so that these need no look of their own. */
PER_THREAD uint64_t countdown, beyond;
PER_THREAD uint64_t distance;      /* to that point, from the one before */
PER_THREAD unsigned distance_log2; /* its mean; 0 in a thread that has allocated nothing */
PER_THREAD uint64_t small_bytes;   /* allocated in small blocks, up to the last point */
PER_THREAD size_t large = LARGE;   /* blocks of this size are all written down */

static uint64_t next_random(void) {
    /* xorshift64*: never 0. */
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1d;
}

/* -log2 of a number drawn evenly between 0 and 1, with one more bit behind the point than LOG_BITS. Bit by bit: squaring
 * doubles a logarithm. The last bit stands for all that are cut off, so it is wrong by 2^-17 at most, and the mean
 * distance by less than 10^-5 of it. */
static uint64_t drawn_log2(void) {
    uint64_t drawn = next_random() | 1;
    unsigned zeros = (unsigned)__builtin_clzll(drawn);
    uint64_t mantissa = drawn << zeros >> 32, logarithm = 0; /* from 2^31 to 2^32: 1 to 2 */
    for (int bit = 0; bit < LOG_BITS; bit++) {
        mantissa = mantissa * mantissa >> 31;
        logarithm <<= 1;
        if (mantissa >> 32) mantissa >>= 1, logarithm |= 1;
    }
    return ((uint64_t)(zeros + 1) << (LOG_BITS + 1)) - (logarithm << 1 | 1);
}

static uint64_t draw_distance(void) {
    return (drawn_log2() * LN_2 << distance_log2) >> (2 * LOG_BITS + 1);
}

/* Whether an allocation goes beyond the countdown; if so, it stands where it stood. Most do not, and cost two instructions:
 * whatever their size, since an unsigned number cannot wrap unnoticed. */
static inline __attribute__((always_inline)) bool ends_countdown(size_t size) {
#ifdef __x86_64__
    bool wrapped;
    __asm__("subq %2, %1" : "=@ccc"(wrapped), "+m"(countdown) : "r"(size));
    return __builtin_expect(wrapped, 0);
#else
    return __builtin_expect(__builtin_sub_overflow(countdown, size, &countdown), 0);
#endif
}

/* Lets a point lie so far ahead. */
static void count_down(uint64_t bytes) {
    countdown = bytes < large ? bytes : large - 1;
    beyond = bytes - countdown;
}

/* A small block has ended the countdown. Gives the mean distance that it was chosen at if it holds the next point, else 0. */
static unsigned pass_point(size_t size) {
    if (distance_log2 == 0) {
        random_state = (now_ns() ^ (uintptr_t)&random_state) * 0x9e3779b97f4a7c15 | 1;
        distance_log2 = OFTEN_LOG2;
        count_down(distance = draw_distance());
    }
    uint64_t ahead = countdown + beyond;
    if (size <= ahead) {
        count_down(ahead - size);
        return 0;
    }
    unsigned chosen_at = distance_log2;
    small_bytes += distance - ahead + size;
    uint64_t share = small_bytes >> SHARE_LOG2;
    unsigned wanted = share == 0 ? 0 : 63 - (unsigned)__builtin_clzll(share);
    distance_log2 = wanted < OFTEN_LOG2 ? OFTEN_LOG2 : wanted > RARE_LOG2 ? RARE_LOG2 : wanted;
    count_down(distance = draw_distance());
    return chosen_at;
}
