/* Writes down who allocated what, from inside the program: loaded in front of its own libraries.
 *
 * What it promises: the program gets exactly what its own allocator gives, errno included, and never waits for
 * us. Large blocks and mappings are all written down, unless there are very many. Of small ones only some, by bytes
 * allocated and ever more rarely, because a note for each would cost more than the allocation. Frees are not looked
 * at: a block is gone when another one is written down in its place, and nobody reads memory that was freed. A log
 * that cannot grow is closed, and says so in its header.
 *
 * The log is a file per process in $MEMWALL_HEAP: a header, then notes of 64 bytes. Space is reserved before it is
 * touched, so that a full disk ends the log and not the program.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    LARGE = 16384,          /* written down always, until a thread has had */
    LARGE_MANY = 512,       /* so many: then only those of twice the size, and so on */
    LARGE_MOST = 1 << 17,   /* up to here: the kernel's work on such blocks costs far more than a note */
    SMALL_OFTEN = 4096,     /* bytes of small blocks from one note of a thread to the next, at first */
    SMALL_RARE = 1 << 20,   /* and at last */
    SMALL_SHARE = 512,      /* in between: this fraction of all it has allocated */
    FIRST = 1 << 16,        /* the log begins with this: most processes of a build or a script need no more */
    STEP = 1 << 20,         /* doubles, and then grows by this */
    MOST = 64 << 20,        /* and ends here: a million notes */
    CALLERS = 4,
};

enum kind { ALLOCATED = 1, SAMPLED = 2, MAPPED = 3, UNMAPPED = 4 };

enum state { OPEN = 0, FULL = 1, NO_SPACE = 2 };

struct header {
    char magic[8];
    uint32_t pid, parent;
    uint64_t began_ns;
    uint64_t large, small_rare;
    _Atomic uint32_t state;
    uint32_t forked; /* the parent's notes hold for what was there before */
    uint64_t unused[2];
};

struct note {
    uint64_t time_ns, address, size;
    uint32_t tid;
    _Atomic uint32_t kind; /* written last: 0 is a note that was never finished */
    uint64_t callers[CALLERS];
};

_Static_assert(sizeof(struct header) == 64 && sizeof(struct note) == 64, "both are one line");

/* The log of this process. */
static struct log {
    char *base;
    _Atomic size_t used, ready;
    char path[4096];
    pthread_mutex_t growing;
} notes = {.growing = PTHREAD_MUTEX_INITIALIZER};

/* initial-exec: reaching it must not allocate. */
#define PER_THREAD static __thread __attribute__((tls_model("initial-exec")))
PER_THREAD size_t large = LARGE; /* blocks of this size are all written down */
PER_THREAD uint32_t large_notes;
PER_THREAD long until_note;
PER_THREAD uint64_t small_bytes; /* allocated in small blocks so far */
PER_THREAD bool inside;
PER_THREAD uint32_t thread_id;

static uint32_t main_thread;
static uintptr_t program_low, program_high;
extern void *__libc_stack_end __attribute__((weak));

/* ---- the allocator behind us ---- */

/* glibc's own names: what dlsym itself may need before the next allocator is known. */
extern void *__libc_malloc(size_t) __attribute__((weak));
extern void *__libc_calloc(size_t, size_t) __attribute__((weak));
extern void *__libc_realloc(void *, size_t) __attribute__((weak));

static void *first_malloc(size_t);
static void *first_calloc(size_t, size_t);
static void *first_realloc(void *, size_t);

/* Each begins as a function that finds it, so that no call has to ask whether it was found. */
static struct {
    void *(*malloc)(size_t), *(*calloc)(size_t, size_t), *(*realloc)(void *, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t), *(*memalign)(size_t, size_t), *(*valloc)(size_t), *(*pvalloc)(size_t);
    void *(*mmap)(void *, size_t, int, int, int, off_t);
    int (*munmap)(void *, size_t);
    void *(*mremap)(void *, size_t, size_t, int, void *);
} next = {.malloc = first_malloc, .calloc = first_calloc, .realloc = first_realloc};

static bool finding;

static void find_next(void) {
    finding = true;
    void *found_malloc = dlsym(RTLD_NEXT, "malloc"), *found_calloc = dlsym(RTLD_NEXT, "calloc");
    void *found_realloc = dlsym(RTLD_NEXT, "realloc");
    next.posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
    next.aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
    next.memalign = dlsym(RTLD_NEXT, "memalign");
    next.valloc = dlsym(RTLD_NEXT, "valloc");
    next.pvalloc = dlsym(RTLD_NEXT, "pvalloc");
    next.mmap = dlsym(RTLD_NEXT, "mmap");
    next.munmap = dlsym(RTLD_NEXT, "munmap");
    next.mremap = dlsym(RTLD_NEXT, "mremap");
    if (found_malloc != NULL) next.malloc = found_malloc;
    if (found_calloc != NULL) next.calloc = found_calloc;
    if (found_realloc != NULL) next.realloc = found_realloc;
    finding = false;
}

/* Whether the next allocator is known; looks for it once. Only the first thread comes here: a program allocates
 * before it can start another. */
static bool found(void) {
    if (next.malloc == first_malloc && !finding) find_next();
    return next.malloc != first_malloc;
}

static void *first_malloc(size_t size) {
    if (found()) return next.malloc(size);
    return __libc_malloc != NULL ? __libc_malloc(size) : NULL;
}

static void *first_calloc(size_t count, size_t size) {
    if (found()) return next.calloc(count, size);
    return __libc_calloc != NULL ? __libc_calloc(count, size) : NULL;
}

static void *first_realloc(void *block, size_t size) {
    if (found()) return next.realloc(block, size);
    return __libc_realloc != NULL ? __libc_realloc(block, size) : NULL;
}

/* ---- the log ---- */

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static struct header *header(void) { return (struct header *)notes.base; }

/* Reserves more of the file. It is opened anew each time: a descriptor that stays open could be closed by
 * the program, and its number given to a file that is not ours. */
static bool reserve(size_t from, size_t bytes, int flags, int *file) {
    /* Beyond the largest file the program may write there is a signal that would end it. */
    struct rlimit largest;
    if (getrlimit(RLIMIT_FSIZE, &largest) != 0 || largest.rlim_cur < from + bytes) return errno = EFBIG, false;
    int opened = open(notes.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    if (opened < 0) return false;
    bool reserved = posix_fallocate(opened, (off_t)from, (off_t)bytes) == 0;
    if (reserved && file != NULL) {
        *file = opened;
    } else {
        close(opened);
    }
    return reserved;
}

static void begin_log(uint32_t forked) {
    const char *folder = getenv("MEMWALL_HEAP");
    int file = -1;
    notes.base = NULL;
    if (folder == NULL || folder[0] != '/') return;
    /* After an exec the process keeps its number: each program it was has its own log. */
    for (int programs = 0; programs < 100 && file < 0; programs++) {
        int length = snprintf(notes.path, sizeof notes.path, "%s/%d.%d.heap", folder, (int)getpid(), programs);
        if (length < 0 || (size_t)length >= sizeof notes.path) return;
        if (!reserve(0, FIRST, O_CREAT | O_EXCL, &file) && errno != EEXIST) return;
    }
    if (file < 0) return;
    void *base = next.mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    close(file);
    if (base == MAP_FAILED) return;
    atomic_store(&notes.used, sizeof(struct header));
    atomic_store(&notes.ready, FIRST);
    struct header *head = base;
    memcpy(head->magic, "MWHEAP1", 8);
    head->pid = (uint32_t)getpid();
    head->parent = (uint32_t)getppid();
    head->began_ns = now_ns();
    head->large = LARGE;
    head->small_rare = SMALL_RARE;
    head->forked = forked;
    notes.base = base;
}

/* Reserves space for notes up to `end`; false once and for all if there is none. */
static bool grow(size_t end) {
    pthread_mutex_lock(&notes.growing);
    size_t ready = atomic_load(&notes.ready);
    if (end > ready && atomic_load(&header()->state) == OPEN) {
        size_t step = ready < STEP ? ready : STEP;
        if (ready + step > MOST) {
            atomic_store(&header()->state, FULL);
        } else if (!reserve(ready, step, 0, NULL)) {
            atomic_store(&header()->state, NO_SPACE);
        } else {
            atomic_store(&notes.ready, ready + step);
        }
    }
    bool grown = end <= atomic_load(&notes.ready);
    pthread_mutex_unlock(&notes.growing);
    return grown;
}

/* Whether `frame` lies on the stack that the kernel or libpthread gave this thread, and where that ends. */
static uintptr_t stack_end(uintptr_t frame) {
    enum { MOST_STACK = 8 << 20 };
    uintptr_t end = thread_id == main_thread && &__libc_stack_end != NULL ? (uintptr_t)__libc_stack_end
                                                                          : (uintptr_t)&until_note;
    return end > frame && end - frame < MOST_STACK ? end : frame;
}

/* The words above the frame that could be return addresses into the program: the reader checks them. */
static void find_callers(uint64_t *callers, uintptr_t frame) {
    enum { WORDS = 96 };
    uintptr_t end = stack_end(frame);
    const uintptr_t *word = (const uintptr_t *)frame;
    for (int found = 1, looked = 0; looked < WORDS && found < CALLERS; looked++, word++) {
        if ((uintptr_t)(word + 1) > end) return;
        if (*word >= program_low && *word < program_high && *word != callers[0]) callers[found++] = *word;
    }
}

static __attribute__((noinline, cold)) void write_note(enum kind kind, const void *address, size_t size,
                                                       void *caller, uintptr_t frame) {
    if (notes.base == NULL || inside || atomic_load(&header()->state) != OPEN) return;
    int error = errno;
    inside = true;
    size_t at = atomic_fetch_add(&notes.used, sizeof(struct note));
    size_t end = at + sizeof(struct note);
    if (end <= atomic_load(&notes.ready) || grow(end)) {
        struct note *note = (struct note *)(notes.base + at);
        if (thread_id == 0) thread_id = (uint32_t)syscall(SYS_gettid);
        note->time_ns = now_ns();
        note->address = (uintptr_t)address;
        note->size = size;
        note->tid = thread_id;
        if (kind != UNMAPPED) {
            note->callers[0] = (uintptr_t)caller;
            find_callers(note->callers, frame);
        }
        atomic_store_explicit(&note->kind, kind, memory_order_release);
    }
    inside = false;
    errno = error;
}

#define FRAME ((uintptr_t)__builtin_frame_address(0))
#define CALLER __builtin_return_address(0)

/* Whether this allocation is written down; most are not, and cost one subtraction. */
static inline bool is_noted(size_t size) {
    return __builtin_expect(size >= large, 0) || __builtin_expect((until_note -= (long)size) < 0, 0);
}

static __attribute__((noinline, cold)) void *noted(void *block, size_t size, void *caller, uintptr_t frame) {
    enum kind kind = size >= large ? ALLOCATED : SAMPLED;
    if (kind == ALLOCATED) {
        if (++large_notes == LARGE_MANY && large < LARGE_MOST) large *= 2, large_notes = 0;
    } else {
        static _Atomic uint32_t draws;
        /* Drawn between half and one and a half, so that no pattern of the program hides from it. */
        uint64_t draw = (atomic_fetch_add_explicit(&draws, 0x9e3779b9u, memory_order_relaxed) >> 16) & 0xffff;
        uint64_t every = small_bytes / SMALL_SHARE;
        if (every < SMALL_OFTEN) every = SMALL_OFTEN;
        if (every > SMALL_RARE) every = SMALL_RARE;
        every = every / 2 + ((every * draw) >> 16);
        until_note = (long)every;
        small_bytes += every;
    }
    if (block != NULL) write_note(kind, block, size, caller, frame);
    return block;
}

/* ---- start, fork ---- */

static int find_program(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    for (int index = 0; index < info->dlpi_phnum; index++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[index];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X)) {
            program_low = info->dlpi_addr + part->p_vaddr;
            program_high = program_low + part->p_memsz;
        }
    }
    return 1; /* the program is the first */
}

static void after_fork(void) {
    /* The parent's mapping is shared: leave it alone, and begin our own. */
    if (notes.base != NULL) next.munmap(notes.base, MOST);
    pthread_mutex_init(&notes.growing, NULL);
    inside = false;
    thread_id = main_thread = (uint32_t)syscall(SYS_gettid);
    begin_log(1);
}

__attribute__((constructor)) static void start(void) {
    if (!found() || next.mmap == NULL || next.munmap == NULL) return;
    inside = true;
    thread_id = main_thread = (uint32_t)syscall(SYS_gettid);
    dl_iterate_phdr(find_program, NULL);
    begin_log(0);
    pthread_atfork(NULL, NULL, after_fork);
    inside = false;
}

/* ---- what the program calls ----
 *
 * Only what hands out memory itself. C++'s operators and reallocarray are left to whoever the program would have had:
 * they call malloc and realloc, and one of ours in between would choose for a program that brings its own (a plugin
 * with a private libstdc++, an allocator inside the executable).
 */

#define SHOWN __attribute__((visibility("default")))

SHOWN void *malloc(size_t size) {
    if (is_noted(size)) return noted(next.malloc(size), size, CALLER, FRAME);
    return next.malloc(size);
}

SHOWN void *calloc(size_t count, size_t size) {
    size_t all;
    if (!__builtin_mul_overflow(count, size, &all) && is_noted(all))
        return noted(next.calloc(count, size), all, CALLER, FRAME);
    return next.calloc(count, size);
}

SHOWN void *realloc(void *block, size_t size) {
    if (is_noted(size)) return noted(next.realloc(block, size), size, CALLER, FRAME);
    return next.realloc(block, size);
}

SHOWN int posix_memalign(void **block, size_t alignment, size_t size) {
    if (!found() || next.posix_memalign == NULL) return ENOMEM;
    int failed = next.posix_memalign(block, alignment, size);
    if (failed == 0 && is_noted(size)) noted(*block, size, CALLER, FRAME);
    return failed;
}

#define ALIGNED(name)                                                                    \
    SHOWN void *name(size_t alignment, size_t size) {                                    \
        if (!found() || next.name == NULL) return errno = ENOMEM, NULL;                  \
        if (is_noted(size)) return noted(next.name(alignment, size), size, CALLER, FRAME); \
        return next.name(alignment, size);                                               \
    }
ALIGNED(aligned_alloc)
ALIGNED(memalign)

#define PAGED(name)                                                                      \
    SHOWN void *name(size_t size) {                                                      \
        if (!found() || next.name == NULL) return errno = ENOMEM, NULL;                  \
        if (is_noted(size)) return noted(next.name(size), size, CALLER, FRAME);          \
        return next.name(size);                                                          \
    }
PAGED(valloc)
PAGED(pvalloc)

static void *mapped(void *block, size_t size, int flags, void *caller, uintptr_t frame) {
    if (block != MAP_FAILED && (flags & MAP_ANONYMOUS) && size >= LARGE) write_note(MAPPED, block, size, caller, frame);
    return block;
}

SHOWN void *mmap(void *hint, size_t size, int access, int flags, int file, off_t offset) {
    if (!found() || next.mmap == NULL)
        return (void *)syscall(SYS_mmap, hint, size, access, flags, file, offset);
    return mapped(next.mmap(hint, size, access, flags, file, offset), size, flags, CALLER, FRAME);
}

SHOWN void *mmap64(void *hint, size_t size, int access, int flags, int file, off_t offset) {
    if (!found() || next.mmap == NULL)
        return (void *)syscall(SYS_mmap, hint, size, access, flags, file, offset);
    return mapped(next.mmap(hint, size, access, flags, file, offset), size, flags, CALLER, FRAME);
}

SHOWN int munmap(void *block, size_t size) {
    if (!found() || next.munmap == NULL) return (int)syscall(SYS_munmap, block, size);
    int failed = next.munmap(block, size);
    if (failed == 0 && size >= LARGE) write_note(UNMAPPED, block, size, NULL, 0);
    return failed;
}

SHOWN void *mremap(void *block, size_t before, size_t size, int flags, ...) {
    va_list more;
    va_start(more, flags);
    void *wanted = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
    va_end(more);
    if (!found() || next.mremap == NULL) return (void *)syscall(SYS_mremap, block, before, size, flags, wanted);
    void *moved = next.mremap(block, before, size, flags, wanted);
    if (moved != MAP_FAILED && before >= LARGE) write_note(UNMAPPED, block, before, NULL, 0);
    return mapped(moved, size, MAP_ANONYMOUS, CALLER, FRAME);
}
