/* How notes get into the shared memory. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "calls.h"

#include "begin.h"

enum kind {
    ALLOCATED = 1,
    SAMPLED = 2,
    MAPPED = 3,
    UNMAPPED = 4,
    REGION_BEGAN = 5,
    REGION_ENDED = 6,
    REGION_SKIPS = 7,
    WAIT_BEGAN = 8,  /* at a barrier within a region */
    WAIT_ENDED = 9,  /* its size: nanoseconds of work on tasks meanwhile */
    REGION_COUNTS = 10, /* of the mark behind it */
    EVENT_DONE = 11,
    NOTHING = 12, /* claimed for what could not be had */
    REGION_EVENT = 13, /* an event at the mark behind it; its size: which one */
    EVENT_REFUSED = 14, /* an event cannot be counted on this thread; its size: which one, its address: the error */
};

/* initial-exec: reaching it must not allocate. */
#define PER_THREAD static __thread __attribute__((tls_model("initial-exec")))
PER_THREAD bool inside;
PER_THREAD bool is_first_thread; /* it has the stack that the kernel made */
PER_THREAD uint64_t incarnation;
PER_THREAD uint32_t thread_id;
PER_THREAD uint64_t ids; /* of this process and thread, as a note has them */
PER_THREAD uint64_t random_state;

#include "callers.h"

/* This process put a filter of system calls in place, or one that it was forked from; so many, as far as we see it. From then on we
 * make no call that the program would not make alone. */
static _Atomic uint32_t filters;

static inline bool is_filtered(void) { return atomic_load_explicit(&filters, memory_order_relaxed) != 0; }

/* What is not written down because of a filter is counted. */
static void pass_over(struct region *region, enum passed_over what) {
    if (region == NULL) return;
    sign(region);
    atomic_fetch_add(&region->passed_over[what], 1);
}

/* The number of this thread. A filter that we did not see may forbid to ask for it, so the C library tells: it writes the number into
 * a mutex that looks for errors. In a process that was forked without the C library it is still the parent's. */
static uint32_t own_number(void) {
    pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    if (pthread_mutex_lock(&mutex) != 0) return 0;
    uint32_t number = (uint32_t)mutex.__data.__owner;
    pthread_mutex_unlock(&mutex);
    return number;
}

/* Who we are, found out once per process and thread; whether that could be. */
static __attribute__((noinline, cold)) bool get_to_know_self(struct region *to) {
    uint64_t known = atomic_load(&self->incarnation);
    bool is_forked = known == 0;
    if (is_forked) {
        long pid = is_filtered() ? 0 : CALL0(SYS_getpid);
        if (pid <= 0) {
            pass_over(atomic_exchange(&ring, NULL), FORKED);
            return false;
        }
        /* Threads that come here together write the same number, and agree on whose moment counts. */
        atomic_store(&self->pid, (uint32_t)pid);
        uint64_t fresh = now_ns() | 1;
        known = atomic_compare_exchange_strong(&self->incarnation, &known, fresh) ? fresh : known;
    }
    /* The first thread knows from the start, unless it was forked since: then what it knows is its parent's. */
    if (is_forked || (thread_id != 0 && known != program_incarnation)) thread_id = (uint32_t)CALL0(SYS_gettid);
    else if (thread_id == 0) thread_id = own_number();
    if (thread_id == 0) thread_id = (uint32_t)CALL0(SYS_gettid);
    ids = atomic_load(&self->pid) | (uint64_t)thread_id << 32;
    incarnation = known;
    /* A forked process draws on its own from here. */
    random_state = (random_state ^ (known + thread_id)) | 1;
    if (program_high == 0) find_program();
    sign(to);
    return true;
}

static inline bool know_self(struct region *to) {
    uint64_t known = atomic_load(&self->incarnation);
    return !__builtin_expect(incarnation != known || known == 0, 0) || get_to_know_self(to);
}

/* A place for a note, with who writes it; none if there is no room. */
static inline struct note *claim_note(struct region *to) {
    uint64_t at = atomic_load(&to->claimed);
    do {
        if (at - atomic_load(&to->taken) >= SLOTS) {
            atomic_fetch_add(&to->dropped, 1);
            return NULL;
        }
    } while (!atomic_compare_exchange_weak(&to->claimed, &at, at + 1));
    struct note *note = &to->notes[at % SLOTS];
    if (atomic_load(&note->control) != 0) {
        /* The reader gave this place up: somebody stopped within, and may still go on. */
        atomic_fetch_add(&to->dropped, 1);
        return NULL;
    }
    note->ids = ids;
    return note;
}

/* Last of all: the reader may have given the place up meanwhile. */
static inline void finish_note(struct note *note, uint64_t control) {
    uint64_t expected = 0;
    atomic_compare_exchange_strong(&note->control, &expected, control);
}

static inline __attribute__((always_inline)) void fill_note(struct region *to, uint64_t control, const void *address, void *caller, uintptr_t frame) {
    struct note *note = claim_note(to);
    if (note == NULL) return;
    note->time_ns = now_ns();
    note->address = (uintptr_t)address;
    note->callers[0] = (uintptr_t)caller;
    static const uint64_t nobody[CALLERS - 1];
    const uint64_t *behind = caller != NULL ? find_callers((uintptr_t)caller, frame) : nobody;
    for (int index = 1; index < CALLERS; index++) note->callers[index] = behind[index - 1];
    finish_note(note, control);
}

/* Whether this thread may write now; if so, everything up to leave() happens inside. The program's errno stays as it is: nothing
 * within fails that writes to it. */
static inline bool enter(void) {
    if (inside || atomic_load_explicit(&ring, memory_order_relaxed) == NULL) return false;
    inside = true;
    atomic_fetch_add(&self->writers, 1);
    return true;
}

static inline void leave(void) {
    atomic_fetch_sub(&self->writers, 1);
    inside = false;
}

static inline __attribute__((always_inline)) void put_note(uint64_t what, const void *address, size_t size, void *caller,
                                                           uintptr_t frame) {
    if (!enter()) return;
    struct region *to = atomic_load(&ring);
    if (to != NULL && know_self(to)) {
        uint64_t most = ((uint64_t)1 << SIZE_BITS) - 1;
        fill_note(to, what | (size < most ? size : most), address, caller, frame);
    }
    leave();
}

/* The same where it need not be fast. */
static __attribute__((noinline, cold)) void write_note(uint64_t what, const void *address, size_t size, void *caller,
                                                       uintptr_t frame) {
    put_note(what, address, size, caller, frame);
}

/* What a note tells, as they take it. */
#define WHAT(kind, distance_log2) ((uint64_t)(kind) << (SIZE_BITS + DISTANCE_BITS) | (uint64_t)(distance_log2) << SIZE_BITS)

/* Why a region holds less than it could. */
enum closing { LOCKED = 1, FORBIDDEN = 2, TAKEN_AWAY = 3, CONFINED = 4 };

/* This thread is about to forbid itself the clock: it writes nothing down any more, and reads no counter. Nor does any other:
 * threads that it starts inherit the ban. */
static void fall_silent(void) {
    struct region *region = atomic_exchange(&ring, NULL);
    inside = true;
    if (region == NULL) return;
    sign(region);
    atomic_store(&region->closed, FORBIDDEN);
}

/* Takes our memory out of the process, as if the library were not there: nothing is written down any more. */
static void close_region(enum closing why) {
    struct region *region = atomic_exchange(&ring, NULL);
    if (region == NULL) return;
    sign(region);
    atomic_store(&region->closed, why);
    /* Other threads may be within. One that was interrupted there by who calls us never leaves: then it stays mapped. */
    for (int tries = 0; tries < 1000; tries++) {
        if (atomic_load(&self->writers) == 0) {
            close_counters();
            CALL2(SYS_munmap, region, REGION_BYTES);
            return;
        }
        sched_yield();
    }
}

static inline bool overlap(const void *block, size_t size, const void *own, size_t bytes) {
    return (uintptr_t)own - (uintptr_t)block < size || (uintptr_t)block - (uintptr_t)own < bytes;
}

/* The program is about to take this memory away, or to forbid that it is written to: programs that put all they find in their address
 * space aside do. If it is ours, we are done. */
static inline void let_go(const void *block, size_t size) {
    const struct region *region = atomic_load_explicit(&ring, memory_order_relaxed);
    if (region != NULL && (overlap(block, size, region, REGION_BYTES) || overlap(block, size, self, PAGE)))
        close_region(TAKEN_AWAY);
}
