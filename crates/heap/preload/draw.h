/* Which small blocks are written down: a Poisson process over the bytes that a thread allocates.
 *
 * Points lie at exponential distances, so a block of s bytes holds one with probability 1 - exp(-s / d), whatever was
 * allocated before it, where d is the mean distance, which the note carries. Each such block therefore stands for
 * s / (1 - exp(-s / d)) bytes, without bias. d doubles with every so many points in memory that held one before: a
 * program that uses the same memory again and again is noted ever more rarely, one that fills new memory is not, since its blocks
 * are named by their neighbours. It changes only at a point, so that it depends on the past alone. Where points come fast even so,
 * in blocks that nobody works on, it goes on doubling. A forked process has its parent's next point for its first one: without bias too, but
 * children of one parent share it.
 *
 * Whole numbers only: floating point would leave its marks in the program's flags, or trap there.
 */

enum {
    LARGE = 16384,     /* written down always, see heap.c */
    OFTEN_LOG2 = 12,   /* mean distance of a thread's points, at first */
    RARE_LOG2 = 23,    /* and at last, */
    RAREST_LOG2 = 30,  /* or where points come fast */
    WORTH_NS = 10000,  /* who is noted more often than that has notes come fast: one takes a hundredth of it, or two */
    AGAIN_MANY = 256,  /* in between it doubles after so many more points in memory that held one before than in new memory */
    CHUNK_LOG2 = 16,   /* of such pieces of memory is known whether they did: as far as blocks speak for their neighbours */
    CHUNKS = 8192,     /* so many of them; then they begin again */
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
    unsigned distance_log2; /* mean distance; 0 in a thread that has allocated nothing */
    unsigned again;         /* how many so far, see AGAIN_MANY */
    uint64_t rare_since_ns;
} points = {.small_most = LARGE - 1};

PER_THREAD uint64_t held[CHUNKS / 64]; /* a bit for each chunk */

/* What a thread begins with. Nobody is asked: who forbade itself system calls or the clock may still allocate. */
static uint64_t first_random(void) {
    static _Atomic uint64_t threads;
    uint64_t mixed = (program_began_ns + atomic_fetch_add(&threads, 1)) * 0x9e3779b97f4a7c15 ^ (uintptr_t)&random_state;
    return (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9 | 1;
}

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

/* Takes `bytes` off; whether there were fewer. Two instructions, whatever the number: an unsigned one cannot wrap unnoticed. */
#ifdef __x86_64__
#define RUNS_OUT(left, bytes)                                                                      \
    ({                                                                                             \
        bool wrapped;                                                                              \
        __asm__("subq %2, %1" : "=@ccc"(wrapped), "+m"(left) : "r"(bytes));                        \
        __builtin_expect(wrapped, 0);                                                              \
    })
#else
#define RUNS_OUT(left, bytes) __builtin_expect(__builtin_sub_overflow(left, bytes, &(left)), 0)
#endif

/* A small block has ended the countdown; whether the point lies behind it all the same: then it goes on. */
static inline __attribute__((always_inline)) bool goes_on(size_t size) {
    uint64_t most = points.small_most;
    if (size > most) return false;
    if (!RUNS_OUT(points.beyond, most)) {
        points.countdown += most;
        return true;
    }
    /* Near: the countdown is all that is left. */
    uint64_t rest = points.beyond + most;
    points.beyond = 0;
    return __builtin_add_overflow(points.countdown, rest, &points.countdown);
}

/* Whether an allocation has to be looked at: it is large, or the next point is near. */
static inline __attribute__((always_inline)) bool ends_countdown(size_t size) {
    return RUNS_OUT(points.countdown, size) && __builtin_expect(!goes_on(size), 1);
}

/* Lets a point lie so far ahead. */
static void count_down(uint64_t bytes) {
    points.countdown = bytes < points.small_most ? bytes : points.small_most;
    points.beyond = bytes - points.countdown;
}

/* Whether memory held a point before; now it does. */
static inline bool held_before(const void *block) {
    uint64_t chunk = (uintptr_t)block >> CHUNK_LOG2, bit = (uint64_t)1 << chunk % 64, *word = &held[chunk / 64 % (CHUNKS / 64)];
    bool before = (*word & bit) != 0;
    *word |= bit;
    return before;
}

/* Whether notes come fast: so many since this was asked before. It may not be asked where the time may not. */
static bool come_fast(uint64_t *since_ns, uint64_t notes) {
    if (inside || atomic_load_explicit(&ring, memory_order_relaxed) == NULL) return false;
    uint64_t before = *since_ns, now = now_ns();
    *since_ns = now;
    return now - before < notes * WORTH_NS;
}

/* So many points lay in memory that held one before. */
static __attribute__((noinline, cold)) void thin_points(void) {
    points.again = 0;
    bool goes_on = points.distance_log2 < RARE_LOG2 ||
                   (points.distance_log2 < RAREST_LOG2 && come_fast(&points.rare_since_ns, AGAIN_MANY));
    points.distance_log2 += goes_on;
}

/* A small block ends the countdown, which stands as before it. Gives the mean distance that it was chosen at if it holds the
 * next point, else 0. */
static inline unsigned pass_point(const void *block, size_t size) {
    if (points.distance_log2 == 0) {
        random_state = first_random();
        points.distance_log2 = OFTEN_LOG2;
        count_down(draw_distance());
    }
    uint64_t ahead = points.countdown + points.beyond;
    if (size <= ahead) {
        count_down(ahead - size);
        return 0;
    }
    unsigned chosen_at = points.distance_log2;
    if (!held_before(block)) {
        points.again -= points.again > 0;
    } else if (++points.again == AGAIN_MANY) {
        thin_points();
    }
    count_down(draw_distance());
    return chosen_at;
}
