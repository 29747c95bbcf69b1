/* The shared memory that notes go to, and how a program comes by its part.
 *
 * memwall makes one memory file per recording, sealed against growing and shrinking, and lets the program inherit it. A
 * process looks at the descriptor once, when a program begins in it: if it is still that file, it claims a region, maps
 * it, and never uses the descriptor again. So nothing is opened, grown or created later, and whoever closed the
 * descriptor merely writes nothing down.
 *
 * A region is a ring that memwall empties. It belongs to one executed program and all that fork from it: they share the
 * mapping, and every note says whose it is. A ring that is full drops the note and counts it.
 *
 * Every program that starts comes through here, most of them for a moment only: as few calls as can be, and no page is touched
 * that will not be written to.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum {
    HEAD_BYTES = 1 << 16, /* whole pages on every machine */
    REGION_BYTES = 1 << 20,
    CALLERS = 4,
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
    /* Programs that wrote nothing down: no region was left, their address space is limited, no memory could be mapped. */
    _Atomic uint64_t absent[3];
    /* What is to be read at marks beside faults and switches: the thread's processor time, and so many events. Looked at only
     * where the environment says that there is something. */
    uint64_t clock, events;
    struct asked_event asked[MOST_EVENTS];
};

_Static_assert(sizeof(struct asked_event) == 192 && sizeof(struct head) < HEAD_BYTES, "as the writer has it");

static bool ask_events(int file);
static void close_counters(void);

enum absence { TURNED_AWAY, LIMITED, UNMAPPABLE };

enum passed_over { PROGRAMS, FORKED };

struct note {
    /* Written last, in one go: size, how densely small blocks are sampled, kind. 0: nothing here yet. */
    _Atomic uint64_t control;
    uint64_t time_ns, address;
    uint64_t ids; /* process, and thread in the upper half */
    uint64_t callers[CALLERS];
};

enum { SIZE_BITS = 48, DISTANCE_BITS = 8 };

struct region {
    _Atomic uint64_t claimed, dropped, closed;
    _Atomic uint64_t began_ns, pid; /* of the program; written with the first note */
    _Atomic uint64_t passed_over[2]; /* behind a filter of system calls: programs, forked processes */
    uint64_t unused;
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
static uint64_t program_began_ns, program_pid, program_incarnation;

enum { PAGE = 4096 }; /* the kernel rounds it up where its own are larger */

static void *map(int access, int flags, int file, size_t bytes, off_t at) {
    long mapped = call6(SYS_mmap, 0, (long)bytes, access, flags, file, at);
    return is_error(mapped) ? NULL : (void *)mapped;
}

static void count_absence(int file, enum absence why) {
    struct head *head = map(PROT_READ | PROT_WRITE, MAP_SHARED, file, HEAD_BYTES, 0);
    if (head == NULL) return;
    atomic_fetch_add(&head->absent[why], 1);
    CALL2(SYS_munmap, head, HEAD_BYTES);
}

/* As code first, for a moment: the kernel tells memwall of mappings of code, in the order of all else it tells, with the process as
 * memwall numbers it. */
static struct region *map_region(int file, off_t at) {
    struct region *region = map(PROT_READ | PROT_EXEC, MAP_SHARED, file, REGION_BYTES, at);
    if (region == NULL || CALL3(SYS_mprotect, region, REGION_BYTES, PROT_READ | PROT_WRITE) == 0) return region;
    CALL2(SYS_munmap, region, REGION_BYTES);
    return NULL;
}

static bool begin_region(int file, off_t at) {
    struct self *page = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, PAGE, 0);
    if (page == NULL) return false;
    struct region *region = NULL;
    if (CALL3(SYS_madvise, page, PAGE, MADV_WIPEONFORK) == 0) {
        /* Asked for now: later a filter of system calls may not let us. */
        program_began_ns = kernel_ns();
        program_pid = (uint64_t)CALL0(SYS_getpid);
        region = map_region(file, at);
    }
    if (region == NULL) {
        CALL2(SYS_munmap, page, PAGE);
        return false;
    }
    self = page;
    atomic_store(&self->pid, (uint32_t)program_pid);
    atomic_store(&self->incarnation, program_incarnation = program_began_ns | 1);
    atomic_store(&ring, region);
    return true;
}

/* Says whose region it is, before anything else is written to it. The same, whoever comes first. */
static void sign(struct region *region) {
    atomic_store(&region->began_ns, program_began_ns);
    atomic_store(&region->pid, program_pid);
}

/* Regions are claimed by the file's position, which all that inherited it share: the kernel moves it for one after the other. */
static void claim_region(int file, uint64_t bytes, bool asks) {
    struct rlimit space;
    if (CALL4(SYS_prlimit64, 0, RLIMIT_AS, 0, &space) != 0 || space.rlim_cur != RLIM_INFINITY) {
        /* What we would map, the program may need. */
        count_absence(file, LIMITED);
        return;
    }
    long behind = CALL3(SYS_lseek, file, REGION_BYTES, SEEK_CUR);
    if (behind < HEAD_BYTES + REGION_BYTES || (behind - HEAD_BYTES) % REGION_BYTES != 0) {
        count_absence(file, UNMAPPABLE);
    } else if ((uint64_t)behind > bytes) {
        count_absence(file, TURNED_AWAY);
    } else if ((asks && !ask_events(file)) || !begin_region(file, behind - REGION_BYTES)) {
        close_counters();
        count_absence(file, UNMAPPABLE);
    }
}

/* What memwall tells every program, in one number. */
enum told {
    ASKS = 1,              /* something is to be read at marks */
    OTHERS_COME_FIRST = 2, /* the system preloads libraries into all programs */
};

/* `text` is DESCRIPTOR:DEVICE:INODE, and one number more where there is something to tell, which comes back. The descriptor may long
 * be another file, or none: then there is no log. */
static uint64_t begin_log(const char *text) {
    enum { LEAST = 3, MOST = 4 };
    uint64_t wanted[MOST];
    int numbers = 0;
    for (bool more = true; more; numbers++) {
        if (text == NULL || *text < '0' || *text > '9') return 0;
        for (wanted[numbers] = 0; *text >= '0' && *text <= '9'; text++) wanted[numbers] = wanted[numbers] * 10 + (*text - '0');
        more = numbers + 1 < MOST && *text == ':';
        if (more) text++;
    }
    if (*text != 0 || numbers < LEAST) return 0;
    uint64_t told = numbers == MOST ? wanted[LEAST] : 0;
    struct stat about; /* laid out as the kernel has it on every machine of 64 bits */
    int file = (int)wanted[0];
    if (CALL2(SYS_fstat, file, &about) != 0 || about.st_dev != wanted[1] || about.st_ino != wanted[2]) return told;
    if (about.st_size > HEAD_BYTES) claim_region(file, (uint64_t)about.st_size, told & ASKS);
    return told;
}
