/* Passes calls on to the allocator and does nothing else: what any library in front of it costs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

static void *(*next_malloc)(size_t) = __libc_malloc;
static void *(*next_calloc)(size_t, size_t) = __libc_calloc;
static void *(*next_realloc)(void *, size_t) = __libc_realloc;
static void *(*next_aligned_alloc)(size_t, size_t);

__attribute__((constructor)) static void start(void) {
    next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    next_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    next_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    next_aligned_alloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
}

void *malloc(size_t size) { return next_malloc(size); }
void *calloc(size_t count, size_t size) { return next_calloc(count, size); }
void *aligned_alloc(size_t alignment, size_t size) { return next_aligned_alloc(alignment, size); }
void *realloc(void *block, size_t size) { return next_realloc(block, size); }
