/* Events that are counted at marks: opened for each thread that makes one, read by the thread itself from the page that the kernel
 * shows of each (rdpmc), without a system call.
 *
 * The descriptor is closed as soon as the page is mapped, which keeps the event: a program that closes or reuses descriptors
 * meets none of ours. What cannot be read from its page is not counted, and the reader is told why.
 */
#include <linux/perf_event.h>

enum {
    MOST_THREADS = 256, /* whose events are open at a time */
    OPENING_CREDIT_NS = 10000000,
    OPENING_SHIFT = 6, /* opening takes no more processor time than that part of the time, behind the credit */
};

typedef volatile struct perf_event_mmap_page counter_page;

struct counters {
    _Atomic uint64_t owner; /* thread and incarnation; 0: nobody */
    counter_page *pages[MOST_EVENTS];
};

/* What memwall asked for, read once. */
static uint64_t asked_count;
static bool asked_clock;

/* Mapped only where events are asked for: other programs must not start with so much more. */
static struct counter_table {
    struct asked_event asked[MOST_EVENTS];
    struct counters of[MOST_THREADS];
} *table;

PER_THREAD struct counters *own_counters;
PER_THREAD uint64_t counters_of; /* the incarnation that they were opened in */

static _Atomic uint64_t opening_ns;

/* Whether it is known now what is asked for. */
static bool ask_events(int file) {
    const struct head *head = map(PROT_READ, MAP_SHARED, file, HEAD_BYTES, 0);
    if (head == NULL) return false;
    uint64_t count = head->events <= MOST_EVENTS ? head->events : 0;
    if (count > 0) table = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, sizeof *table, 0);
    bool has_room = count == 0 || table != NULL;
    if (has_room) {
        asked_clock = head->clock != 0;
        asked_count = count;
        for (uint64_t event = 0; event < count; event++) table->asked[event] = head->asked[event];
    }
    CALL2(SYS_munmap, head, HEAD_BYTES);
    return has_room;
}

struct counter_value {
    uint64_t value, enabled_ns, running_ns;
};

#ifdef __x86_64__
static uint64_t instruction_rdpmc(uint32_t counter) {
    uint32_t low, high;
    __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(counter));
    return (uint64_t)high << 32 | low;
}

static uint64_t instruction_rdtsc(void) {
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

/* A counter of so many bits, as the signed number it is. */
static uint64_t sign_extended(uint64_t counter, unsigned width) {
    unsigned unused = 64 - (width < 1 ? 1 : width > 64 ? 64 : width);
    return (uint64_t)((int64_t)(counter << unused) >> unused);
}

/* The kernel writes the page on this CPU only, while we are interrupted: what we read is whole if its number did not move. An
 * event that has no counter now (index 0) stands still, with all it has counted in the offset; its time goes on. */
static bool read_page(const counter_page *page, struct counter_value *to) {
    enum { TRIES = 64 };
    for (int tries = 0; tries < TRIES; tries++) {
        uint32_t sequence = page->lock;
        __asm__ volatile("" ::: "memory");
        if (!page->cap_user_rdpmc || !page->cap_user_time) return false;
        uint64_t enabled = page->time_enabled, running = page->time_running, value = (uint64_t)page->offset;
        unsigned shift = page->time_shift < 127 ? page->time_shift : 127;
        uint64_t passed = (uint64_t)((unsigned __int128)instruction_rdtsc() * page->time_mult >> shift) + page->time_offset;
        uint32_t index = page->index;
        if (index != 0) value += sign_extended(instruction_rdpmc(index - 1), page->pmc_width);
        __asm__ volatile("" ::: "memory");
        if (page->lock != sequence) continue;
        to->value = value;
        to->enabled_ns = enabled + passed;
        to->running_ns = index != 0 ? running + passed : running;
        return true;
    }
    return false;
}
#else
static bool read_page(const counter_page *page, struct counter_value *to) { return (void)page, (void)to, false; }
#endif

static void refuse_event(struct region *to, uint64_t event, long why) {
    struct note *note = claim_note(to);
    if (note == NULL) return;
    note->time_ns = now_ns();
    note->address = (uint64_t)why;
    memset(note->callers, 0, sizeof note->callers);
    finish_note(note, (uint64_t)EVENT_REFUSED << (SIZE_BITS + DISTANCE_BITS) | event);
}

/* Pages of a thread that ended, or of one that must not have them any more. */
static void unmap_counters(struct counters *all) {
    for (int event = 0; event < MOST_EVENTS; event++) {
        if (all->pages[event] != NULL) CALL2(SYS_munmap, all->pages[event], PAGE);
        all->pages[event] = NULL;
    }
}

/* A place of this thread's own. Those of a process that this one was forked from have no pages here. */
static struct counters *claim_counters(void) {
    uint64_t own = incarnation << 32 | thread_id;
    for (int looks_for_ended = 0; looks_for_ended < 2; looks_for_ended++)
        for (int at = 0; at < MOST_THREADS; at++) {
            struct counters *place = &table->of[at];
            uint64_t was = atomic_load(&place->owner);
            bool is_ours = was >> 32 == own >> 32;
            if (is_ours && !looks_for_ended) continue;
            if (is_ours && CALL3(SYS_tgkill, atomic_load(&self->pid), (uint32_t)was, 0) == 0) continue;
            if (!atomic_compare_exchange_strong(&place->owner, &was, own)) continue;
            if (is_ours) unmap_counters(place);
            memset((void *)place->pages, 0, sizeof place->pages);
            return place;
        }
    return NULL;
}

static counter_page *open_event(struct region *to, uint64_t event, int *files) {
    const struct asked_event *asked = &table->asked[event];
    uint32_t leader = asked->leader;
    int group = leader != 0 && leader <= event ? files[leader - 1] : -1;
    /* Whoever leads could not be opened: alone it counts as well. */
    files[event] = (int)call6(SYS_perf_event_open, (long)asked->attr, 0, -1, group, PERF_FLAG_FD_CLOEXEC, 0);
    long mapped = files[event] < 0 ? files[event] : call6(SYS_mmap, 0, PAGE, PROT_READ, MAP_SHARED, files[event], 0);
    if (is_error(mapped)) {
        refuse_event(to, event, -mapped);
        return NULL;
    }
    counter_page *page = (counter_page *)mapped;
    struct counter_value value;
    if (read_page(page, &value)) return page;
    refuse_event(to, event, 0);
    CALL2(SYS_munmap, page, PAGE);
    return NULL;
}

/* Of this thread: where others have its CPU meanwhile, opening costs the program nothing. */
static uint64_t processor_ns(void) {
    struct timespec time = {0};
    CALL2(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &time);
    return nanoseconds(&time);
}

/* Once for each thread, at its first mark that counts. Programs that start very many threads do not have all of them counted. */
static __attribute__((noinline, cold)) void open_counters(struct region *to) {
    uint64_t began = processor_ns(), alive_ns = now_ns() - program_began_ns;
    if (atomic_load(&opening_ns) > OPENING_CREDIT_NS + (alive_ns >> OPENING_SHIFT)) return;
    counters_of = incarnation;
    own_counters = claim_counters();
    if (own_counters == NULL) return;
    int files[MOST_EVENTS];
    for (uint64_t event = 0; event < asked_count; event++) own_counters->pages[event] = open_event(to, event, files);
    for (uint64_t event = 0; event < asked_count; event++)
        if (files[event] >= 0) CALL2(SYS_close, files[event], 0);
    atomic_fetch_add(&opening_ns, processor_ns() - began);
}

/* Takes all pages out of the process, if there are any; nobody reads any more. */
static void close_counters(void) {
    if (table == NULL) return;
    uint64_t own = self != NULL ? atomic_load(&self->incarnation) << 32 : 0;
    for (int at = 0; at < MOST_THREADS; at++)
        if (atomic_load(&table->of[at].owner) >> 32 == own >> 32) unmap_counters(&table->of[at]);
    CALL2(SYS_munmap, table, sizeof *table);
    table = NULL;
}

/* What is counted at one mark: places for the notes, taken before or after. */
struct mark_events {
    struct note *notes[MOST_EVENTS];
    struct counter_value values[MOST_EVENTS];
    bool is_read[MOST_EVENTS];
};

static bool has_counters(void) { return asked_count > 0 && counters_of == incarnation && own_counters != NULL; }

static void claim_events(struct region *to, struct mark_events *all) {
    for (uint64_t event = 0; event < asked_count; event++)
        all->notes[event] = own_counters->pages[event] != NULL ? claim_note(to) : NULL;
}

static void read_events(struct mark_events *all) {
    for (uint64_t event = 0; event < asked_count; event++) {
        const counter_page *page = own_counters->pages[event];
        all->is_read[event] = page != NULL && read_page(page, &all->values[event]);
    }
}

static void finish_events(struct mark_events *all, uint64_t time_ns, bool is_counted) {
    for (uint64_t event = 0; event < asked_count; event++) {
        struct note *note = all->notes[event];
        if (note == NULL) continue;
        note->time_ns = time_ns;
        note->address = all->values[event].value;
        note->callers[0] = all->values[event].enabled_ns;
        note->callers[1] = all->values[event].running_ns;
        note->callers[2] = note->callers[3] = 0;
        enum kind kind = is_counted && all->is_read[event] ? REGION_EVENT : NOTHING;
        finish_note(note, (uint64_t)kind << (SIZE_BITS + DISTANCE_BITS) | event);
    }
}
