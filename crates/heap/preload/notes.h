/* The shared memory that notes go to, and how they get there.
 *
 * memwall makes one memory file per recording, sealed against growing and shrinking, and lets the program inherit it. A
 * process looks at the descriptor once, when a program begins in it: if it is still that file, it claims a region, maps
 * it, and never uses the descriptor again. So nothing is opened, grown or created later, and whoever closed the
 * descriptor merely writes nothing down.
 *
 * A region is a ring that memwall empties. It belongs to one executed program and all that fork from it: they share the
 * mapping, and every note says whose it is. A ring that is full drops the note and counts it.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum {
    HEAD_BYTES = 1 << 16, /* whole pages on every machine */
    REGION_BYTES = 1 << 20,
    CALLERS = 4,
};

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

enum { MOST_EVENTS = 32, ATTR_BYTES = 184 };

/* An event to be opened for each thread that marks regions. */
struct asked_event {
    uint32_t leader; /* which one leads its group, counted from 1; 0: itself */
    uint32_t unused;
    unsigned char attr[ATTR_BYTES];
};

/* Begins the file. All is words of 64 bits, so that the reader needs to know no more than their order. */
struct head {
    char magic[8];
    uint64_t regions;
    _Atomic uint64_t claimed;
    /* Programs that wrote nothing down: no region was left, their address space is limited, no memory could be mapped. */
    _Atomic uint64_t turned_away, limited, unmappable;
    /* What is to be read at marks beside faults and switches: the thread's processor time, and so many events. */
    uint64_t clock, events;
    struct asked_event asked[MOST_EVENTS];
};

_Static_assert(sizeof(struct asked_event) == 192 && sizeof(struct head) < HEAD_BYTES, "as the writer has it");

static void ask_events(const struct head *head);
static void close_counters(void);

struct note {
    /* Written last, in one go: size, how densely small blocks are sampled, kind. 0: nothing here yet. */
    _Atomic uint64_t control;
    uint64_t time_ns, address;
    uint32_t pid, tid;
    uint64_t callers[CALLERS];
};

enum { SIZE_BITS = 48, DISTANCE_BITS = 8 };

struct region {
    _Atomic uint64_t claimed, dropped, closed;
    uint64_t began_ns, pid;
    uint64_t unused[3];
    _Atomic uint64_t taken; /* by the reader; on a line of its own */
    uint64_t unused_too[7];
    struct note notes[];
};

_Static_assert(sizeof(struct note) == 64 && sizeof(struct region) == 128, "as the reader has it");

enum { SLOTS = (REGION_BYTES - sizeof(struct region)) / sizeof(struct note) };

/* What a forked process must not believe of its parent: the kernel wipes this page in it, however it was forked. */
struct self {
    _Atomic uint64_t incarnation; /* 0: not known yet */
    _Atomic uint32_t pid;
    _Atomic uint32_t writers;
};

static struct self *self;
static struct region *_Atomic ring;

/* initial-exec: reaching it must not allocate. */
#define PER_THREAD static __thread __attribute__((tls_model("initial-exec")))
PER_THREAD bool inside;
PER_THREAD bool is_first_thread; /* it has the stack that the kernel made */
PER_THREAD uint64_t incarnation;
PER_THREAD uint32_t thread_id;
PER_THREAD uint64_t random_state;

static uintptr_t program_low, program_high;
static uint32_t program_middle, program_mask; /* bits 16 to 47 of its addresses: which of them all share, and what these are */
extern void *__libc_stack_end __attribute__((weak));

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- the beginning ----
 *
 * Every program that starts comes through here, most of them for a moment only. By bare system calls: each function of
 * the C library would have to be looked up first, which takes as long as the call.
 */

enum { PAGE = 4096 }; /* the kernel rounds it up where its own are larger */

static void *map_shared(int access, int file, size_t bytes, off_t at) {
    void *mapped = (void *)syscall(SYS_mmap, NULL, bytes, access, MAP_SHARED, file, at);
    return mapped == MAP_FAILED ? NULL : mapped;
}

/* Has the kernel tell memwall, in the order of all else it tells, whose region this is: mappings of code are reported,
 * with the process as memwall numbers it. */
static bool announce(int file, off_t at) {
    void *shown = map_shared(PROT_READ | PROT_EXEC, file, PAGE, at);
    if (shown != NULL) syscall(SYS_munmap, shown, PAGE);
    return shown != NULL;
}

static bool begin_region(int file, off_t at) {
    void *page = (void *)syscall(SYS_mmap, NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    if (page == MAP_FAILED) return false;
    struct region *region = NULL;
    bool wipes = syscall(SYS_madvise, page, PAGE, MADV_WIPEONFORK) == 0;
    if (wipes) region = map_shared(PROT_READ | PROT_WRITE, file, REGION_BYTES, at);
    if (region != NULL) {
        region->began_ns = now_ns();
        region->pid = (uint64_t)syscall(SYS_getpid);
        if (announce(file, at)) {
            self = page;
            atomic_store(&ring, region);
            return true;
        }
        syscall(SYS_munmap, region, REGION_BYTES);
    }
    syscall(SYS_munmap, page, PAGE);
    return false;
}

static void claim_region(struct head *head, int file, uint64_t regions) {
    struct rlimit space;
    if (syscall(SYS_prlimit64, 0, RLIMIT_AS, NULL, &space) != 0 || space.rlim_cur != RLIM_INFINITY) {
        /* What we would map, the program may need. */
        atomic_fetch_add(&head->limited, 1);
        return;
    }
    uint64_t number = atomic_fetch_add(&head->claimed, 1);
    if (number >= regions) {
        atomic_fetch_add(&head->turned_away, 1);
    } else if (!begin_region(file, HEAD_BYTES + (off_t)number * REGION_BYTES)) {
        atomic_fetch_add(&head->unmappable, 1);
    }
}

/* `text` is DESCRIPTOR:DEVICE:INODE. The descriptor may long be another file, or none: then there is no log. */
static void begin_log(const char *text) {
    enum { SEALS = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL };
    uint64_t wanted[3];
    for (int index = 0; index < 3; index++) {
        if (text == NULL || *text < '0' || *text > '9') return;
        for (wanted[index] = 0; *text >= '0' && *text <= '9'; text++) wanted[index] = wanted[index] * 10 + (*text - '0');
        if (*text++ != (index < 2 ? ':' : 0)) return;
    }
    struct stat about; /* laid out as the kernel has it on every machine of 64 bits */
    int file = (int)wanted[0];
    if (syscall(SYS_fstat, file, &about) != 0 || about.st_dev != wanted[1] || about.st_ino != wanted[2]) return;
    long seals = syscall(SYS_fcntl, file, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || about.st_size < HEAD_BYTES) return;
    struct head *head = map_shared(PROT_READ | PROT_WRITE, file, HEAD_BYTES, 0);
    if (head == NULL) return;
    uint64_t room = (uint64_t)(about.st_size - HEAD_BYTES) / REGION_BYTES;
    if (memcmp(head->magic, "MWHEAP3", 8) == 0) {
        claim_region(head, file, head->regions < room ? head->regions : room);
        if (self != NULL) ask_events(head);
    }
    syscall(SYS_munmap, head, HEAD_BYTES);
}

/* ---- notes ---- */

/* Where the stack ends that `frame` lies on, if the kernel or libpthread gave it to this thread; else `frame`. */
static uintptr_t stack_end(uintptr_t frame) {
    enum { MOST_STACK = 8 << 20 };
    uintptr_t end = is_first_thread && &__libc_stack_end != NULL ? (uintptr_t)__libc_stack_end : (uintptr_t)&inside;
    return end > frame && end - frame < MOST_STACK ? end : frame;
}

enum { WORDS = 96, AT_ONCE = 16 };

#ifdef __SSE2__
/* Which of four words agree with addresses of the program, in the bits that all of these share. */
static inline __m128i agreeing(const uintptr_t *words) {
    const char *bytes = (const char *)words + 2;
    __m128 two = _mm_loadu_ps((const float *)bytes), more = _mm_loadu_ps((const float *)(bytes + 16));
    __m128i middles = _mm_castps_si128(_mm_shuffle_ps(two, more, _MM_SHUFFLE(2, 0, 2, 0)));
    return _mm_cmpeq_epi32(_mm_and_si128(middles, _mm_set1_epi32((int)program_mask)), _mm_set1_epi32((int)program_middle));
}

/* Which of so many words may be addresses of the program, a bit each. Looks at the beginning of the next one too. */
static inline unsigned candidates(const uintptr_t *words) {
    __m128i eight = _mm_packs_epi32(agreeing(words), agreeing(words + 4));
    __m128i more = _mm_packs_epi32(agreeing(words + 8), agreeing(words + 12));
    return (unsigned)_mm_movemask_epi8(_mm_packs_epi16(eight, more));
}
#else
static inline unsigned candidates(const uintptr_t *words) { return (void)words, (1u << AT_ONCE) - 1; }
#endif

/* The words above the frame that could be return addresses into the program, behind `caller`: the reader checks them. */
static void find_callers(uint64_t *callers, uintptr_t caller, uintptr_t frame) {
    enum { OWN = 2 }; /* the frame begins with what we saved and where we return to */
    uintptr_t low = program_low, bytes = program_high - low, words = (stack_end(frame) - frame) / sizeof(uintptr_t);
    if (words <= OWN) return;
    words -= OWN + 1; /* the last of the stack is none */
    const uintptr_t *word = (const uintptr_t *)frame + OWN, *end = word + (words < WORDS ? words : WORDS);
    for (int found = 1; word < end; word += AT_ONCE) {
        unsigned left = end - word < AT_ONCE ? (1u << (end - word)) - 1 : candidates(word);
        for (; left != 0; left &= left - 1) {
            uintptr_t value = word[__builtin_ctz(left)];
            if (value - low >= bytes || value == caller) continue;
            callers[found++] = value;
            if (found == CALLERS) return;
        }
    }
}

/* Who we are, asked for once per process and thread. */
static void know_self(void) {
    uint64_t known = atomic_load(&self->incarnation);
    if (known == 0) {
        /* Threads that come here together write the same number, and agree on whose moment counts. */
        atomic_store(&self->pid, (uint32_t)syscall(SYS_getpid));
        uint64_t fresh = now_ns() | 1;
        known = atomic_compare_exchange_strong(&self->incarnation, &known, fresh) ? fresh : known;
    }
    if (incarnation == known) return;
    incarnation = known;
    thread_id = (uint32_t)syscall(SYS_gettid);
    /* A forked process draws on its own from here. */
    random_state = (random_state ^ (known + thread_id)) | 1;
}

/* A place for a note, with who writes it; none if there is no room. */
static struct note *claim_note(struct region *to) {
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
    note->pid = atomic_load(&self->pid);
    note->tid = thread_id;
    return note;
}

/* Last of all: the reader may have given the place up meanwhile. */
static void finish_note(struct note *note, uint64_t control) {
    uint64_t expected = 0;
    atomic_compare_exchange_strong(&note->control, &expected, control);
}

static void fill_note(struct region *to, uint64_t control, const void *address, void *caller, uintptr_t frame) {
    struct note *note = claim_note(to);
    if (note == NULL) return;
    note->time_ns = now_ns();
    note->address = (uintptr_t)address;
    note->callers[0] = (uintptr_t)caller;
    for (int index = 1; index < CALLERS; index++) note->callers[index] = 0;
    if (caller != NULL) find_callers(note->callers, (uintptr_t)caller, frame);
    finish_note(note, control);
}

/* Whether this thread may write now; if so, everything up to leave() happens inside. */
static inline bool enter(void) {
    if (inside || atomic_load_explicit(&ring, memory_order_relaxed) == NULL) return false;
    inside = true;
    atomic_fetch_add(&self->writers, 1);
    return true;
}

static inline void leave(int error) {
    atomic_fetch_sub(&self->writers, 1);
    inside = false;
    errno = error;
}

static __attribute__((noinline, cold)) void write_note(enum kind kind, unsigned distance_log2, const void *address,
                                                       size_t size, void *caller, uintptr_t frame) {
    int error = errno;
    if (!enter()) return;
    struct region *to = atomic_load(&ring);
    if (to != NULL) {
        know_self();
        uint64_t most = ((uint64_t)1 << SIZE_BITS) - 1, bytes = size < most ? size : most;
        uint64_t control = (uint64_t)kind << (SIZE_BITS + DISTANCE_BITS) | (uint64_t)distance_log2 << SIZE_BITS | bytes;
        fill_note(to, control, address, caller, frame);
    }
    leave(error);
}

/* Takes our memory out of the process, as if the library were not there: nothing is written down any more. */
static void close_region(void) {
    struct region *region = atomic_exchange(&ring, NULL);
    if (region == NULL) return;
    atomic_store(&region->closed, 1);
    /* Other threads may be within. One that was interrupted there by who calls us never leaves: then it stays mapped. */
    for (int tries = 0; tries < 1000; tries++) {
        if (atomic_load(&self->writers) == 0) {
            close_counters();
            syscall(SYS_munmap, region, REGION_BYTES);
            return;
        }
        sched_yield();
    }
}
