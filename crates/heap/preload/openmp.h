/* Parallel regions of OpenMP, which nobody marks: those of gcc by the functions that begin them (gomp.h), those of LLVM by
 * the interface that its runtime has for tools (OMPT, OpenMP 5.0 ch. 4).
 */

#include "gomp.h"

/* ---- LLVM: what of OMPT is needed, as OpenMP 5.0 has it ---- */

union ompt_data {
    uint64_t value;
    void *pointer;
};

typedef void ompt_callback(void);
typedef ompt_callback *ompt_lookup(const char *name);

struct ompt_tool {
    int (*initialize)(ompt_lookup *lookup, int device, union ompt_data *tool);
    void (*finalize)(union ompt_data *tool);
    union ompt_data data;
};

enum {
    OMPT_PARALLEL_BEGIN = 3,
    OMPT_TASK_CREATE = 5,
    OMPT_TASK_SCHEDULE = 6,
    OMPT_IMPLICIT_TASK = 7,
    OMPT_SYNC_REGION_WAIT = 16,
};
enum { OMPT_SCOPE_BEGIN = 1, OMPT_SCOPE_END = 2 };
enum {
    OMPT_BARRIER = 1,
    OMPT_BARRIER_IMPLICIT = 2, /* before 5.1 that of a loop and that of a region alike */
    OMPT_BARRIER_EXPLICIT = 3,
    OMPT_BARRIER_IMPLEMENTATION = 4,
    OMPT_BARRIER_OF_LOOP = 8,
    OMPT_BARRIER_OF_REGION = 9,
};
enum { OMPT_TASK_IS_INITIAL = 1, IS_EXPLICIT_TASK = 1 };
enum { TELLS_WAITS = 1 }; /* with the beginning of a region: barriers in it are written down too */

/* What a thread does at a barrier: it may work on tasks there. */
PER_THREAD struct {
    bool waits;
    uint64_t worked_ns, task_began_ns;
} barrier;

static void ompt_parallel_begin(union ompt_data *task, const void *frame, union ompt_data *parallel, unsigned threads,
                                int flags, const void *code) {
    (void)task, (void)frame, (void)threads, (void)flags;
    /* A program of gcc with LLVM's runtime comes through gomp.h, where it was marked. */
    parallel->pointer = is_own_code(code) ? NULL : (void *)code;
}

static void ompt_ends(union ompt_data *task) {
    if (task == NULL || task->value <= IS_EXPLICIT_TASK) return;
    mark(REGION_ENDED, NULL, task->pointer, 0);
    task->pointer = NULL;
}

static void ompt_implicit_task(int scope, union ompt_data *parallel, union ompt_data *task, unsigned threads, unsigned index,
                               int flags) {
    (void)threads, (void)index;
    if (flags & OMPT_TASK_IS_INITIAL || task == NULL) return;
    if (scope == OMPT_SCOPE_END) {
        ompt_ends(task);
    } else if (parallel != NULL && (task->pointer = parallel->pointer) != NULL) {
        mark(REGION_BEGAN, NULL, task->pointer, TELLS_WAITS);
    }
}

/* A thread's part of a region ends where it begins to wait for the others: of the end itself threads hear only when the next
 * region begins. That barrier is told from others by where it was called, in runtimes before 5.1. */
static bool is_of_region(int kind, const union ompt_data *task, const void *code) {
    return kind == OMPT_BARRIER_OF_REGION || (kind == OMPT_BARRIER_IMPLICIT && (code == NULL || code == task->pointer));
}

static void ompt_sync_region_wait(int kind, int scope, union ompt_data *parallel, union ompt_data *task, const void *code) {
    (void)parallel;
    bool is_barrier = (kind >= OMPT_BARRIER && kind <= OMPT_BARRIER_IMPLEMENTATION) || kind == OMPT_BARRIER_OF_LOOP ||
                      kind == OMPT_BARRIER_OF_REGION;
    if (!is_barrier || task == NULL || task->value <= IS_EXPLICIT_TASK) return;
    if (scope == OMPT_SCOPE_BEGIN && is_of_region(kind, task, code)) {
        ompt_ends(task);
    } else if (scope == OMPT_SCOPE_BEGIN && !barrier.waits) {
        barrier.waits = true;
        barrier.worked_ns = barrier.task_began_ns = 0;
        mark(WAIT_BEGAN, NULL, task->pointer, 0);
    } else if (scope == OMPT_SCOPE_END && barrier.waits) {
        barrier.waits = false;
        uint64_t most = ((uint64_t)1 << SIZE_BITS) - 1;
        mark(WAIT_ENDED, NULL, task->pointer, barrier.worked_ns < most ? barrier.worked_ns : most);
    }
}

static void ompt_task_create(union ompt_data *by, const void *frame, union ompt_data *task, int flags, int depends,
                             const void *code) {
    (void)by, (void)frame, (void)depends, (void)code;
    if (!(flags & OMPT_TASK_IS_INITIAL)) task->value = IS_EXPLICIT_TASK;
}

static void ompt_task_schedule(union ompt_data *prior, int status, union ompt_data *next_task) {
    (void)prior, (void)status;
    if (!barrier.waits) return;
    bool works = next_task != NULL && next_task->value == IS_EXPLICIT_TASK;
    if (works && barrier.task_began_ns == 0) {
        barrier.task_began_ns = now_ns();
    } else if (!works && barrier.task_began_ns != 0) {
        barrier.worked_ns += now_ns() - barrier.task_began_ns;
        barrier.task_began_ns = 0;
    }
}

static int ompt_initialize(ompt_lookup *lookup, int device, union ompt_data *tool) {
    (void)device, (void)tool;
    int (*set)(int, ompt_callback *) = (int (*)(int, ompt_callback *))lookup("ompt_set_callback");
    if (set == NULL) return 0;
    set(OMPT_PARALLEL_BEGIN, (ompt_callback *)ompt_parallel_begin);
    set(OMPT_IMPLICIT_TASK, (ompt_callback *)ompt_implicit_task);
    set(OMPT_SYNC_REGION_WAIT, (ompt_callback *)ompt_sync_region_wait);
    set(OMPT_TASK_CREATE, (ompt_callback *)ompt_task_create);
    set(OMPT_TASK_SCHEDULE, (ompt_callback *)ompt_task_schedule);
    return 1;
}

static void ompt_finalize(union ompt_data *tool) { (void)tool; }

/* The runtime takes one tool. Whoever brings another keeps it: a library behind us, or one that the environment names. The
 * runtime's own for programs under ThreadSanitizer comes last of all, and has to be let in as well. */
SHOWN struct ompt_tool *ompt_start_tool(unsigned version, const char *runtime) {
    static struct ompt_tool own = {ompt_initialize, ompt_finalize, {0}};
    struct ompt_tool *(*next_start)(unsigned, const char *) =
        (struct ompt_tool * (*)(unsigned, const char *)) dlsym(RTLD_NEXT, "ompt_start_tool");
    struct ompt_tool *another = next_start != NULL ? next_start(version, runtime) : NULL;
    if (another != NULL) return another;
    const char *named = getenv("OMP_TOOL_LIBRARIES");
    if (named != NULL && *named != 0) return NULL;
    if (dlsym(RTLD_DEFAULT, "__tsan_func_entry") != NULL) return NULL;
    return atomic_load(&ring) != NULL ? &own : NULL;
}
