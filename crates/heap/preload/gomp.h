/* Parallel regions of gcc's OpenMP: every thread of one runs the same function, which the compiler made of it. Several functions of the
 * runtime begin one, by what is shared out in it.
 */

#include "libgomps.h"

struct parallel {
    void *reductions; /* as the program's own data begins, where there are some: the runtime looks there */
    void (*work)(void *);
    void *data;
};

static void in_parallel(void *given) {
    struct parallel *region = given;
    mark(REGION_BEGAN, NULL, (const void *)region->work, 0);
    region->work(region->data);
    mark(REGION_ENDED, NULL, (const void *)region->work, 0);
}

static inline bool is_shown(void) { return atomic_load_explicit(&ring, memory_order_relaxed) != NULL; }

/* Nobody calls these who has no runtime; if it cannot be found all the same, the work is done by one thread. */
#define BEGINS_REGION(which, name, parameters, arguments)                              \
    SHOWN void name parameters {                                                       \
        void (*next_parallel) parameters = (void (*) parameters)libgomps(which, work); \
        if (next_parallel == NULL) {                                                   \
            work(data);                                                                \
            return;                                                                    \
        }                                                                              \
        struct parallel region = {NULL, work, data};                                   \
        if (is_shown()) work = in_parallel, data = &region;                            \
        next_parallel arguments;                                                       \
    }

#define BEGINS_LOOP(which, name)                                                                                              \
    BEGINS_REGION(which, name,                                                                                                \
                  (void (*work)(void *), void *data, unsigned threads, long from, long to, long step, long chunk, unsigned flags), \
                  (work, data, threads, from, to, step, chunk, flags))

#define BEGINS_LOOP_OF_RUNTIME(which, name)                                                                       \
    BEGINS_REGION(which, name,                                                                                    \
                  (void (*work)(void *), void *data, unsigned threads, long from, long to, long step, unsigned flags), \
                  (work, data, threads, from, to, step, flags))

BEGINS_REGION(PARALLEL, GOMP_parallel, (void (*work)(void *), void *data, unsigned threads, unsigned flags),
              (work, data, threads, flags))
BEGINS_REGION(PARALLEL_SECTIONS, GOMP_parallel_sections,
              (void (*work)(void *), void *data, unsigned threads, unsigned sections, unsigned flags),
              (work, data, threads, sections, flags))
BEGINS_LOOP(PARALLEL_LOOP_STATIC, GOMP_parallel_loop_static)
BEGINS_LOOP(PARALLEL_LOOP_DYNAMIC, GOMP_parallel_loop_dynamic)
BEGINS_LOOP(PARALLEL_LOOP_GUIDED, GOMP_parallel_loop_guided)
BEGINS_LOOP(PARALLEL_LOOP_NONMONOTONIC_DYNAMIC, GOMP_parallel_loop_nonmonotonic_dynamic)
BEGINS_LOOP(PARALLEL_LOOP_NONMONOTONIC_GUIDED, GOMP_parallel_loop_nonmonotonic_guided)
BEGINS_LOOP_OF_RUNTIME(PARALLEL_LOOP_RUNTIME, GOMP_parallel_loop_runtime)
BEGINS_LOOP_OF_RUNTIME(PARALLEL_LOOP_NONMONOTONIC_RUNTIME, GOMP_parallel_loop_nonmonotonic_runtime)
BEGINS_LOOP_OF_RUNTIME(PARALLEL_LOOP_MAYBE_NONMONOTONIC_RUNTIME, GOMP_parallel_loop_maybe_nonmonotonic_runtime)

/* Gives how many threads there were, for each of which there is a result. */
SHOWN unsigned GOMP_parallel_reductions(void (*work)(void *), void *data, unsigned threads, unsigned flags) {
    typedef unsigned parallel_reductions(void (*)(void *), void *, unsigned, unsigned);
    parallel_reductions *next_parallel = (parallel_reductions *)libgomps(PARALLEL_REDUCTIONS, work);
    if (next_parallel == NULL) return work(data), 1;
    if (!is_shown()) return next_parallel(work, data, threads, flags);
    struct parallel region = {*(void **)data, work, data};
    return next_parallel(in_parallel, &region, threads, flags);
}
