/* Regions of the program: where they begin and end, as it says so itself (include/memwall.h). A mark is a note whose words
 * for callers hold the name. Where it may be, the kernel's counts of the thread stand in a note before it, of the same time.
 */
#include <sys/prctl.h>

enum { NAME_BYTES = CALLERS * sizeof(uint64_t) };

/* ---- counts at marks: page faults and switches of the thread, by one system call ----
 *
 * Counting takes less than 1/170 of a thread's processor time, whatever its regions are: where marks follow each other faster than
 * that only some visits are counted, and the reader sees which. A hundredth is not to be exceeded in all, of which marks that are
 * not counted take up to 0.4 where regions take 100 µs.
 */

enum {
    COST_PART = 170,
    CREDIT_NS = 50000,      /* that much a thread may spend at first */
    INTERRUPTED = 4,        /* a mark that took so many times what they take was interrupted */
    MOST_COUNTED = 16,      /* regions that may be open within each other and counted */
};

/* Once a filter of system calls may be there, asking could end the program. */
static _Atomic bool counts_are_off;

PER_THREAD struct {
    uint64_t spent_ns, cost_ns;
    /* Processor time of the thread when it was first asked for and last, as the kernel keeps it; and when the latter was. */
    uint64_t first_cpu_ns, cpu_ns, asked_ns;
    /* Open regions that were counted when they began, by what they are called. */
    uint64_t open[MOST_COUNTED];
    unsigned depth;
} counting;

static uint64_t key_of(const uint64_t *name, const void *code) {
    uint64_t key = (uintptr_t)code;
    for (int word = 0; word < CALLERS; word++) key = (key ^ name[word]) * 0x9e3779b97f4a7c15;
    return key;
}

/* Whether a region that begins may be counted; its end has to be paid as well. */
static bool begins_counted(uint64_t key, uint64_t now) {
    if (atomic_load_explicit(&counts_are_off, memory_order_relaxed) || counting.depth == MOST_COUNTED) return false;
    if (counting.cost_ns == 0) {
        counting.asked_ns = now, counting.cost_ns = 500;
        /* A filter may have come with the program. */
        if (CALL2(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0) == 1) atomic_store(&counts_are_off, true);
        if (atomic_load(&counts_are_off)) return false;
    }
    /* It may have been on its CPU all the time since it was asked. */
    uint64_t lived = counting.cpu_ns - counting.first_cpu_ns + (now - counting.asked_ns);
    uint64_t due = (counting.depth + 2) * counting.cost_ns;
    if (counting.spent_ns + due > CREDIT_NS + lived / COST_PART) return false;
    counting.open[counting.depth++] = key;
    return true;
}

/* Whether a region that ends was counted when it began. */
static bool ends_counted(uint64_t key) {
    for (unsigned at = counting.depth; at-- > 0;) {
        if (counting.open[at] != key) continue;
        counting.depth--;
        memmove(&counting.open[at], &counting.open[at + 1], (counting.depth - at) * sizeof counting.open[0]);
        return !atomic_load_explicit(&counts_are_off, memory_order_relaxed);
    }
    return false;
}

struct mark_counts {
    struct rusage usage;
    uint64_t cpu_ns; /* 0 if nobody asked */
    struct mark_events events;
};

/* Processor time comes next to the region, since all that we do here adds to it. */
static bool read_clock(struct mark_counts *counts) {
    struct timespec time = {0, 0};
    if (asked_clock && CALL2(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &time) != 0) return false;
    counts->cpu_ns = nanoseconds(&time);
    return true;
}

/* What a mark took that was counted: all of it, its notes as well. */
static void charge(uint64_t took) {
    bool is_interrupted = took > INTERRUPTED * counting.cost_ns;
    counting.spent_ns += is_interrupted ? counting.cost_ns : took;
    /* Or it is slower than it was thought to be: if it is so again and again, that will be known. */
    counting.cost_ns = is_interrupted ? counting.cost_ns * 9 / 8 : (counting.cost_ns * 7 + took) / 8;
}

static void know_lived(const struct rusage *usage, uint64_t now) {
    const struct timeval *user = &usage->ru_utime, *kernel = &usage->ru_stime;
    counting.cpu_ns = (uint64_t)(user->tv_sec + kernel->tv_sec) * 1000000000u + (uint64_t)(user->tv_usec + kernel->tv_usec) * 1000u;
    if (counting.first_cpu_ns == 0) counting.first_cpu_ns = counting.cpu_ns;
    counting.asked_ns = now;
}

static bool read_counts(struct mark_counts *counts, bool ends, uint64_t *ended_ns) {
    bool is_read = true;
    if (ends) {
        if (has_counters()) read_events(&counts->events);
        is_read = read_clock(counts);
    }
    is_read = CALL2(SYS_getrusage, RUSAGE_THREAD, &counts->usage) == 0 && is_read;
    if (!ends) {
        is_read = read_clock(counts) && is_read;
        if (has_counters()) read_events(&counts->events);
    }
    *ended_ns = now_ns();
    if (is_read) know_lived(&counts->usage, *ended_ns);
    return is_read;
}

static void finish_counts(struct note *note, const struct mark_counts *counts, uint64_t time_ns) {
    note->time_ns = time_ns;
    note->address = (uint64_t)counts->usage.ru_minflt;
    note->callers[0] = (uint64_t)counts->usage.ru_majflt;
    note->callers[1] = (uint64_t)counts->usage.ru_nvcsw;
    note->callers[2] = (uint64_t)counts->usage.ru_nivcsw;
    note->callers[3] = counts->cpu_ns;
    finish_note(note, (uint64_t)REGION_COUNTS << (SIZE_BITS + DISTANCE_BITS));
}

/* ---- marks ---- */

static void fill_mark(struct region *to, enum kind kind, const uint64_t *name, const void *code, uint64_t number) {
    bool ends = kind == REGION_ENDED;
    uint64_t began_ns = now_ns(), ended_ns = began_ns, key = key_of(name, code);
    bool is_counted = ends ? ends_counted(key) : kind == REGION_BEGAN && begins_counted(key, began_ns);
    bool is_charged = is_counted;
    if (is_counted && !ends && asked_count > 0 && counters_of != incarnation) open_counters(to);
    struct mark_counts counts;
    struct note *of_counts = NULL;
    /* Pages of our own that are touched for the first time must not count: claimed before a region is counted, and after. */
    if (is_counted && ends) is_counted = read_counts(&counts, true, &ended_ns);
    bool has_events = is_counted && has_counters();
    if (has_events) claim_events(to, &counts.events);
    if (is_counted) of_counts = claim_note(to);
    struct note *note = claim_note(to);
    if (is_counted && !ends) is_counted = read_counts(&counts, false, &ended_ns);
    uint64_t time_ns = ends || !is_counted ? began_ns : ended_ns;
    if (has_events) finish_events(&counts.events, time_ns, is_counted);
    if (of_counts != NULL && is_counted) finish_counts(of_counts, &counts, time_ns);
    else if (of_counts != NULL) finish_note(of_counts, (uint64_t)NOTHING << (SIZE_BITS + DISTANCE_BITS));
    if (note != NULL) {
        note->time_ns = time_ns;
        note->address = (uintptr_t)code;
        memcpy(note->callers, name, NAME_BYTES);
        finish_note(note, (uint64_t)kind << (SIZE_BITS + DISTANCE_BITS) | number);
    }
    if (is_charged) charge(now_ns() - began_ns);
}

static __attribute__((noinline)) void mark(enum kind kind, const char *name, const void *code, uint64_t number) {
    if (!enter()) return;
    struct region *to = atomic_load(&ring);
    if (to != NULL && know_self(to)) {
        /* All of it if it fits; what is longer is cut, and the reader sees that no zero ends it. */
        uint64_t words[CALLERS] = {0};
        if (name != NULL) memcpy(words, name, strnlen(name, NAME_BYTES));
        fill_mark(to, kind, words, code, number);
    }
    leave();
}

SHOWN void memwall_region_begin(const char *name) { mark(REGION_BEGAN, name, NULL, 0); }

SHOWN void memwall_region_end(const char *name) { mark(REGION_ENDED, name, NULL, 0); }

SHOWN void memwall_region_skip_first(const char *name, unsigned visits) { mark(REGION_SKIPS, name, NULL, visits); }

SHOWN void memwall_region_event_done(void) { mark(EVENT_DONE, NULL, NULL, 0); }
