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
    LOG_BITS = 30,     /* of a logarithm, behind the point */
    LN_2_BITS = 16,
    LN_2 = 45426,      /* with that many bits */
};

/* All in one place, so that who needs several of them looks up once where they are. */
PER_THREAD struct {
    /* Bytes to the next point are countdown + beyond. The first is what every allocation looks at: it is at most
     * `small_most`, so that larger blocks need no look of their own. */
    uint64_t countdown, beyond;
    uint64_t small_most;    /* larger blocks are all written down */
    uint64_t distance;      /* to the next point, from the one before */
    uint64_t small_bytes;   /* allocated in small blocks, up to the last point */
    unsigned distance_log2; /* mean distance; 0 in a thread that has allocated nothing */
} points = {.small_most = LARGE - 1};

static uint64_t next_random(void) {
    /* xorshift64*: never 0. */
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1d;
}

/* log2(1 + t), with LOG_BITS behind the point, of a t with 32. Right at 0 and at 1, and nowhere wrong by more than
 * 2.3 * 10^-6; its mean, and with it the mean distance, by less than 10^-8. */
static inline int64_t log2_of_1_plus(int64_t t) {
    int64_t sum = (-27746991 * t >> 32) + 130779333;
    sum = (sum * t >> 32) - 298398373;
    sum = (sum * t >> 32) + 491289586;
    sum = (sum * t >> 32) - 771102567;
    sum = (sum * t >> 32) + 1548920836;
    return sum * t >> 32;
}

/* -log2 of a number drawn evenly between 0 and 1, with LOG_BITS behind the point. */
static uint64_t drawn_log2(void) {
    uint64_t drawn = next_random() | 1;
    unsigned zeros = (unsigned)__builtin_clzll(drawn);
    int64_t behind_point = (int64_t)(drawn << zeros << 1 >> 32); /* of the mantissa, from 1 to 2 */
    return ((uint64_t)(zeros + 1) << LOG_BITS) - (uint64_t)log2_of_1_plus(behind_point);
}

static uint64_t draw_distance(void) {
    return drawn_log2() * LN_2 >> (LOG_BITS + LN_2_BITS - points.distance_log2);
}

/* Takes it off the countdown; whether it goes beyond. Most allocations do not, and cost two instructions: whatever their size,
 * since an unsigned number cannot wrap unnoticed. */
static inline __attribute__((always_inline)) bool count(size_t size) {
#ifdef __x86_64__
    bool wrapped;
    __asm__("subq %2, %1" : "=@ccc"(wrapped), "+m"(points.countdown) : "r"(size));
    return __builtin_expect(wrapped, 0);
#else
    return __builtin_expect(__builtin_sub_overflow(points.countdown, size, &points.countdown), 0);
#endif
}

/* A small block has ended the countdown, and the point is still so far ahead that it goes on: then so it does. */
static inline __attribute__((always_inline)) bool goes_on(size_t size) {
    uint64_t most = points.small_most;
    if (size > most || points.beyond < most) return false;
    points.beyond -= most;
    points.countdown += most;
    return true;
}

/* Whether an allocation has to be looked at: it is large, or the next point is near. */
static inline __attribute__((always_inline)) bool ends_countdown(size_t size) {
    return count(size) && __builtin_expect(!goes_on(size), 1);
}

/* Lets a point lie so far ahead. */
static void count_down(uint64_t bytes) {
    points.countdown = bytes < points.small_most ? bytes : points.small_most;
    points.beyond = bytes - points.countdown;
}

/* A small block ends the countdown, which stands as before it. Gives the mean distance that it was chosen at if it holds the
 * next point, else 0. */
static unsigned pass_point(size_t size) {
    if (points.distance_log2 == 0) {
        random_state = (now_ns() ^ (uintptr_t)&random_state) * 0x9e3779b97f4a7c15 | 1;
        points.distance_log2 = OFTEN_LOG2;
        count_down(points.distance = draw_distance());
    }
    uint64_t ahead = points.countdown + points.beyond;
    if (size <= ahead) {
        count_down(ahead - size);
        return 0;
    }
    unsigned chosen_at = points.distance_log2;
    points.small_bytes += points.distance - ahead + size;
    uint64_t share = points.small_bytes >> SHARE_LOG2;
    unsigned wanted = share == 0 ? 0 : 63 - (unsigned)__builtin_clzll(share);
    points.distance_log2 = wanted < OFTEN_LOG2 ? OFTEN_LOG2 : wanted > RARE_LOG2 ? RARE_LOG2 : wanted;
    count_down(points.distance = draw_distance());
    return chosen_at;
}
