/* Regions of the program: where they begin and end, as it says so itself (include/memwall.h), and where OpenMP's parallel
 * ones do in programs of gcc. A mark is a note whose words for callers hold the name.
 */

enum { NAME_BYTES = CALLERS * sizeof(uint64_t) };

static __attribute__((noinline)) void mark(enum kind kind, const char *name, const void *code, uint64_t number) {
    int error = errno;
    if (!enter()) return;
    struct region *to = atomic_load(&ring);
    if (to != NULL) {
        know_self();
        struct note *note = claim_note(to);
        if (note != NULL) {
            note->address = (uintptr_t)code;
            /* All of it if it fits; what is longer is cut, and the reader sees that no zero ends it. */
            memset(note->callers, 0, NAME_BYTES);
            if (name != NULL) memcpy(note->callers, name, strnlen(name, NAME_BYTES));
            finish_note(note, (uint64_t)kind << (SIZE_BITS + DISTANCE_BITS) | number);
        }
    }
    leave(error);
}

SHOWN void memwall_region_begin(const char *name) { mark(REGION_BEGAN, name, NULL, 0); }

SHOWN void memwall_region_end(const char *name) { mark(REGION_ENDED, name, NULL, 0); }

SHOWN void memwall_region_skip_first(const char *name, unsigned visits) { mark(REGION_SKIPS, name, NULL, visits); }

/* ---- OpenMP of gcc: every thread of a parallel region runs the same function ---- */

struct parallel {
    void (*work)(void *);
    void *data;
};

static void in_parallel(void *given) {
    struct parallel *region = given;
    mark(REGION_BEGAN, NULL, (const void *)region->work, 0);
    region->work(region->data);
    mark(REGION_ENDED, NULL, (const void *)region->work, 0);
}

SHOWN void GOMP_parallel(void (*work)(void *), void *data, unsigned threads, unsigned flags) {
    static void (*_Atomic known)(void (*)(void *), void *, unsigned, unsigned);
    void (*next_parallel)(void (*)(void *), void *, unsigned, unsigned) = atomic_load(&known);
    if (next_parallel == NULL) {
        next_parallel = (void (*)(void (*)(void *), void *, unsigned, unsigned))dlsym(RTLD_NEXT, "GOMP_parallel");
        /* Nobody calls it who has no OpenMP; if it cannot be found all the same, the work is done by one thread. */
        if (next_parallel == NULL) {
            work(data);
            return;
        }
        atomic_store(&known, next_parallel);
    }
    if (atomic_load_explicit(&ring, memory_order_relaxed) == NULL) {
        next_parallel(work, data, threads, flags);
        return;
    }
    struct parallel region = {work, data};
    next_parallel(in_parallel, &region, threads, flags);
}
