/* Regions of a program, for memwall: which part waits for memory.
 *
 *     memwall_begin("assemble");
 *     ...
 *     memwall_end("assemble");
 *
 * Nothing to link with, nothing to switch on: under `memwall run` and `memwall record` the marks are written down, otherwise each
 * is a load and a branch. Regions may be nested, may overlap, and are each thread's own: a mark is about the thread that makes it.
 * A sample belongs to the innermost region that is open. Of names the first 32 bytes count.
 *
 * Programs that are linked statically cannot be entered: there the marks do nothing.
 */
#ifndef MEMWALL_H
#define MEMWALL_H

#ifdef __cplusplus
extern "C" {
#endif

/* Where memwall has entered the program these are its own; otherwise they are null. */
extern void memwall_region_begin(const char *name) __attribute__((weak));
extern void memwall_region_end(const char *name) __attribute__((weak));
extern void memwall_region_skip_first(const char *name, unsigned visits) __attribute__((weak));
extern void memwall_region_event_done(void) __attribute__((weak));

/* A region begins on this thread. */
static inline void memwall_begin(const char *name) {
    if (memwall_region_begin) memwall_region_begin(name);
}

/* It ends. */
static inline void memwall_end(const char *name) {
    if (memwall_region_end) memwall_region_end(name);
}

/* The first visits of a region, on each thread, do not count: caches and pages are cold. Say so before they begin. */
static inline void memwall_skip_first(const char *name, unsigned visits) {
    if (memwall_region_skip_first) memwall_region_skip_first(name, visits);
}

/* The program has done with one of the events, steps or requests that it works on. How many and how long they take is told, and
 * `memwall run --skip-events N` leaves out what came before the first N were done. */
static inline void memwall_event_done(void) {
    if (memwall_region_event_done) memwall_region_event_done();
}

/* Whether marks are written down. */
static inline int memwall_is_watching(void) { return memwall_region_begin != 0; }

#ifdef __cplusplus
}

namespace memwall {
/* A region that ends with its scope. */
class region {
  public:
    explicit region(const char *name) : name_(name) { memwall_begin(name_); }
    ~region() { memwall_end(name_); }
    region(const region &) = delete;
    region &operator=(const region &) = delete;

  private:
    const char *name_;
};
} // namespace memwall
#endif

#endif
