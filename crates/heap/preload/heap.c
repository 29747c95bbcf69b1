/* Writes down who allocated what, and where regions begin and end, from inside the program: loaded in front of its own
 * libraries.
 *
 * What it promises: the program gets exactly what its own allocator gives, errno included, and never waits for us. After
 * the start nothing is opened, mapped or grown, unless events are to be counted at marks, and nothing is done at a fork.
 * Large blocks and mappings are all written down, unless there are very many. Of small ones only some, because a note for
 * each would cost more than the allocation. Frees are not looked at: a block is gone when another one is written down in
 * its place, and nobody reads memory that was freed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>

#include "notes.h"

#include "draw.h"
#include "preloading.h"

enum {
    LARGE_MANY = 512,     /* of large blocks a thread may have so many: then only those twice as large as the last are, and so on */
    LARGE_MOST = 1 << 17, /* up to here: the kernel's work on such blocks costs far more than a note */
};

PER_THREAD uint32_t large_notes;

/* ---- the allocator behind us ---- */

/* glibc's own names: what dlsym itself may need before the next allocator is known. */
extern void *__libc_malloc(size_t) __attribute__((weak));
extern void *__libc_calloc(size_t, size_t) __attribute__((weak));
extern void *__libc_realloc(void *, size_t) __attribute__((weak));

static void *first_malloc(size_t), *first_calloc(size_t, size_t), *first_realloc(void *, size_t);
static void *first_aligned_alloc(size_t, size_t), *first_memalign(size_t, size_t);

typedef int spawn_function(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                           char *const *, char *const *);

/* Each is looked up when it is first called: most programs call few of them. Those that are called most begin as functions that
 * find them, so that no call has to ask whether it was found. */
static struct {
    void *(*malloc)(size_t), *(*calloc)(size_t, size_t), *(*realloc)(void *, size_t);
    void *(*aligned_alloc)(size_t, size_t), *(*memalign)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*valloc)(size_t), *(*pvalloc)(size_t);
    void *(*mmap)(void *, size_t, int, int, int, off_t);
    int (*munmap)(void *, size_t);
    int (*mprotect)(void *, size_t, int);
    void *(*mremap)(void *, size_t, size_t, int, void *);
    int (*execve)(const char *, char *const *, char *const *), (*execvpe)(const char *, char *const *, char *const *);
    int (*execv)(const char *, char *const *), (*execvp)(const char *, char *const *);
    int (*fexecve)(int, char *const *, char *const *);
    spawn_function *posix_spawn, *posix_spawnp;
} next = {.malloc = first_malloc, .calloc = first_calloc, .realloc = first_realloc,
          .aligned_alloc = first_aligned_alloc, .memalign = first_memalign};

PER_THREAD bool finding;

/* The next function of a name; none if there is none, or if who looks it up calls it. Threads that look for the same find the same. */
static __attribute__((noinline, cold)) void *find(const char *name) {
    if (finding) return NULL;
    finding = true;
    int error = errno;
    void *found = dlsym(RTLD_NEXT, name);
    errno = error;
    finding = false;
    return found;
}

#define KNOWN(name) (next.name != NULL || (next.name = find(#name)) != NULL)

#define FIRST(name, parameters, arguments, instead)               \
    static void *first_##name parameters {                        \
        void *(*found) parameters = find(#name);                  \
        if (found == NULL) return instead;                        \
        next.name = found;                                        \
        return found arguments;                                   \
    }
FIRST(malloc, (size_t size), (size), __libc_malloc != NULL ? __libc_malloc(size) : NULL)
FIRST(calloc, (size_t count, size_t size), (count, size), __libc_calloc != NULL ? __libc_calloc(count, size) : NULL)
FIRST(realloc, (void *block, size_t size), (block, size), __libc_realloc != NULL ? __libc_realloc(block, size) : NULL)
FIRST(aligned_alloc, (size_t alignment, size_t size), (alignment, size), (errno = ENOMEM, NULL))
FIRST(memalign, (size_t alignment, size_t size), (alignment, size), (errno = ENOMEM, NULL))

/* ---- which are written down ---- */

#define FRAME ((uintptr_t)__builtin_frame_address(0))
#define CALLER __builtin_return_address(0)

static __attribute__((noinline)) void *noted(void *block, size_t size, void *caller, uintptr_t frame) {
    points.countdown += size;
    uint64_t what = WHAT(ALLOCATED, 0);
    if (size > points.small_most) {
        if (++large_notes == LARGE_MANY && points.small_most < LARGE_MOST - 1) {
            do points.small_most = points.small_most * 2 + 1;
            while (points.small_most < 2 * size && points.small_most < LARGE_MOST - 1);
            large_notes = 0;
        }
    } else {
        unsigned chosen_at = pass_point(block, size);
        if (chosen_at == 0) return block;
        what = WHAT(SAMPLED, chosen_at);
    }
    if (block != NULL) put_note(what, block, size, caller, frame);
    return block;
}

/* ---- start ---- */

static void find_next_call(void);

/* Whether a list of libraries has others than us. */
static bool names_others(const char *list) {
    while (list != NULL && *list != 0 && *list != ':' && *list != ' ') list++;
    return list == NULL || *list != 0;
}

/* Other libraries may stand between the program and the C library for what is called between fork and exec, or by a handler, where
 * others may hold the lock that looking it up takes. */
static __attribute__((noinline, cold)) void find_others(void) {
    next.execve = find("execve");
    next.execv = find("execv");
    next.execvp = find("execvp");
    next.execvpe = find("execvpe");
    next.fexecve = find("fexecve");
    next.mprotect = find("mprotect");
    find_next_call();
}

__attribute__((constructor)) static void start(void) {
    inside = is_first_thread = true;
    uint64_t told = begin_log(value_of("MEMWALL_HEAP="));
    if (told & OTHERS_COME_FIRST || names_others(value_of(PRELOAD))) find_others();
    thread_id = (uint32_t)program_pid;
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
    if (ends_countdown(size)) return noted(next.malloc(size), size, CALLER, FRAME);
    return next.malloc(size);
}

/* Apart, so that others need not keep what only this one needs. */
static __attribute__((noinline, cold)) void *calloc_noted(size_t items, size_t size, void *caller, uintptr_t frame) {
    return noted(next.calloc(items, size), items * size, caller, frame);
}

SHOWN void *calloc(size_t items, size_t size) {
    size_t all;
    if (!__builtin_mul_overflow(items, size, &all) && ends_countdown(all)) return calloc_noted(items, size, CALLER, FRAME);
    return next.calloc(items, size);
}

SHOWN void *realloc(void *block, size_t size) {
    if (ends_countdown(size)) return noted(next.realloc(block, size), size, CALLER, FRAME);
    return next.realloc(block, size);
}

SHOWN int posix_memalign(void **block, size_t alignment, size_t size) {
    if (!KNOWN(posix_memalign)) return ENOMEM;
    int failed = next.posix_memalign(block, alignment, size);
    if (failed == 0 && ends_countdown(size)) noted(*block, size, CALLER, FRAME);
    return failed;
}

#define ALIGNED(name)                                                                    \
    SHOWN void *name(size_t alignment, size_t size) {                                    \
        if (ends_countdown(size)) return noted(next.name(alignment, size), size, CALLER, FRAME); \
        return next.name(alignment, size);                                               \
    }
ALIGNED(aligned_alloc)
ALIGNED(memalign)

#define PAGED(name)                                                                      \
    SHOWN void *name(size_t size) {                                                      \
        if (!KNOWN(name)) return errno = ENOMEM, NULL;                                   \
        if (ends_countdown(size)) return noted(next.name(size), size, CALLER, FRAME);          \
        return next.name(size);                                                          \
    }
PAGED(valloc)
PAGED(pvalloc)

static void *mapped(void *block, size_t size, int flags, void *caller, uintptr_t frame) {
    if (block != MAP_FAILED && (flags & MAP_ANONYMOUS) && size >= LARGE) write_note(WHAT(MAPPED, 0), block, size, caller, frame);
    return block;
}

SHOWN void *mmap(void *hint, size_t size, int access, int flags, int file, off_t offset) {
    if (flags & MAP_FIXED) let_go(hint, size);
    if (!KNOWN(mmap))
        return (void *)plain_call(SYS_mmap, (long)hint, (long)size, access, flags, file, offset);
    return mapped(next.mmap(hint, size, access, flags, file, offset), size, flags, CALLER, FRAME);
}

SHOWN void *mmap64(void *hint, size_t size, int access, int flags, int file, off_t offset) {
    if (flags & MAP_FIXED) let_go(hint, size);
    if (!KNOWN(mmap))
        return (void *)plain_call(SYS_mmap, (long)hint, (long)size, access, flags, file, offset);
    return mapped(next.mmap(hint, size, access, flags, file, offset), size, flags, CALLER, FRAME);
}

SHOWN int munmap(void *block, size_t size) {
    let_go(block, size);
    if (!KNOWN(munmap)) return (int)plain_call(SYS_munmap, (long)block, (long)size, 0, 0, 0, 0);
    int failed = next.munmap(block, size);
    if (failed == 0 && size >= LARGE) write_note(WHAT(UNMAPPED, 0), block, size, NULL, 0);
    return failed;
}

SHOWN void *mremap(void *block, size_t before, size_t size, int flags, ...) {
    va_list more;
    va_start(more, flags);
    void *wanted = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
    va_end(more);
    let_go(block, before);
    if (flags & MREMAP_FIXED) let_go(wanted, size);
    if (!KNOWN(mremap)) return (void *)plain_call(SYS_mremap, (long)block, (long)before, (long)size, flags, (long)wanted, 0);
    void *moved = next.mremap(block, before, size, flags, wanted);
    if (moved != MAP_FAILED && before >= LARGE) write_note(WHAT(UNMAPPED, 0), block, before, NULL, 0);
    return mapped(moved, size, MAP_ANONYMOUS, CALLER, FRAME);
}

/* Called from handlers of signals, too: the next one is not looked up here. */
SHOWN int mprotect(void *block, size_t size, int access) {
    if ((access & PROT_READ) == 0 || (access & PROT_WRITE) == 0) let_go(block, size);
    return next.mprotect != NULL ? next.mprotect(block, size, access) : (int)plain_call(SYS_mprotect, (long)block, (long)size, access, 0, 0, 0);
}

/* Locks all memory, or fails where the limit does not allow for all of it: ours must not count. */
SHOWN int mlockall(int flags) {
    close_region(LOCKED);
    int (*next_mlockall)(int) = (int (*)(int))dlsym(RTLD_NEXT, "mlockall");
    return next_mlockall != NULL ? next_mlockall(flags) : (int)plain_call(SYS_mlockall, flags, 0, 0, 0, 0, 0);
}

SHOWN int chroot(const char *path) {
    int (*next_chroot)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "chroot");
    int failed = next_chroot != NULL ? next_chroot(path) : (int)plain_call(SYS_chroot, (long)path, 0, 0, 0, 0, 0);
    if (failed == 0) leave_environment();
    return failed;
}

#include "executing.h"
#include "counters.h"
#include "marks.h"
#include "filters.h"
#include "openmp.h"
