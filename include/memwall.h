/* Regions of a program, for memwall: which part waits for memory.
 *
 *     memwall_begin("assemble");
 *     ...
 *     memwall_end("assemble");
 *
 * Nothing to link with, nothing to switch on: under `memwall run` and `memwall record` the marks are written down, otherwise each
 * is a load and a branch. Regions may be nested, may overlap, and are each thread's own: a mark is about the thread that makes it.
 * A sample belongs to the innermost region that is open. Of names the first 32 bytes count. Languages that include no headers
 * call the same functions in libmemwall.a.
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

/* Asked for where the loader writes addresses down, which it does when the program starts: of a weak function that is named as usual, a
 * program at a fixed address is told by its linker already that there is none. */
#if defined __x86_64__ && defined __ELF__ && !defined __ILP32__
#define MEMWALL_FIND(found, name)           \
    __asm__(".weak " #name "\n\t"           \
            "mov{q}\t{" #name "@GOTPCREL(%%rip), %0|%0, QWORD PTR " #name "@GOTPCREL[rip]}" \
            : "=r"(found))
#else
#define MEMWALL_FIND(found, name) ((found) = (name))
#endif

/* Of the library these are functions like others. */
#ifndef MEMWALL_MARK
#define MEMWALL_MARK static inline
#endif

/* A region begins on this thread. */
MEMWALL_MARK void memwall_begin(const char *name) {
    void (*found)(const char *);
    MEMWALL_FIND(found, memwall_region_begin);
    if (found) found(name);
}

/* It ends. */
MEMWALL_MARK void memwall_end(const char *name) {
    void (*found)(const char *);
    MEMWALL_FIND(found, memwall_region_end);
    if (found) found(name);
}

/* The first visits of a region, on each thread, do not count: caches and pages are cold. Say so before they begin. */
MEMWALL_MARK void memwall_skip_first(const char *name, unsigned visits) {
    void (*found)(const char *, unsigned);
    MEMWALL_FIND(found, memwall_region_skip_first);
    if (found) found(name, visits);
}

/* The program has done with one of the events, steps or requests that it works on. How many and how long they take is told, and
 * `memwall run --skip-events N` leaves out what came before the first N were done. */
MEMWALL_MARK void memwall_event_done(void) {
    void (*found)(void);
    MEMWALL_FIND(found, memwall_region_event_done);
    if (found) found();
}

/* Whether marks are written down. */
MEMWALL_MARK int memwall_is_watching(void) {
    void (*found)(const char *);
    MEMWALL_FIND(found, memwall_region_begin);
    return found != 0;
}

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
