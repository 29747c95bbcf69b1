/* Programs that are executed, and those that must not have us: a sanitizer's runtime insists on being the first library, and ends the program if it is
 * not; loaders of other processors or C libraries complain; programs without a loader pass us on to others, which nobody looks at.
 * Which one comes next is known when a process executes it, so that its file is looked at there, and our entry taken
 * out of the environment that it is given. The same where the library cannot be reached any more, and behind a filter of system calls,
 * which may forbid what we need at the start.
 *
 * Between fork (or vfork) and exec: only system calls and the stack.
 */
#include <elf.h>
#include <spawn.h>

static const char *const FIRST_OF_ALL[] = {"libasan.", "libtsan.", "liblsan.", "libhwasan.", "libclang_rt."};

static bool read_at(int file, void *to, size_t bytes, uint64_t at) {
    return CALL4(SYS_pread64, file, to, bytes, at) == (long)bytes;
}

/* Whether the name of a library, at this place of the file, is of a kind. */
typedef bool is_kind(int file, uint64_t at);

static bool is_sanitizer(int file, uint64_t at) {
    char name[16] = {0};
    if (CALL4(SYS_pread64, file, name, sizeof name - 1, at) <= 0) return false;
    for (size_t index = 0; index < sizeof FIRST_OF_ALL / sizeof FIRST_OF_ALL[0]; index++)
        if (begins_with(name, FIRST_OF_ALL[index])) return true;
    return false;
}

/* As the loaders of glibc are called, and no other's. */
static const char LOADER[] = "ld-linux";

static bool is_loader(int file, uint64_t at) {
    char name[sizeof LOADER] = {0};
    return read_at(file, name, sizeof name - 1, at) && begins_with(name, LOADER);
}

/* A table of a program's file, of which a little is in memory at a time. */
struct table {
    uint64_t at, end;
    int file;
    unsigned size, known, taken; /* of an entry in bytes; entries in memory, and passed */
    _Alignas(uint64_t) unsigned char some[256];
};

/* What is beyond so many entries is not looked at. */
enum { MOST_ENTRIES = 128 };

static void begin_table(struct table *table, int file, uint64_t at, uint64_t bytes, unsigned size) {
    table->file = file, table->at = at, table->size = size, table->known = table->taken = 0;
    table->end = at + (bytes < (uint64_t)MOST_ENTRIES * size ? bytes : (uint64_t)MOST_ENTRIES * size);
}

static const void *next_entry(struct table *table) {
    if (table->taken == table->known) {
        uint64_t left = (table->end - table->at) / table->size, room = sizeof table->some / table->size;
        table->known = (unsigned)(left < room ? left : room), table->taken = 0;
        uint64_t bytes = (uint64_t)table->known * table->size;
        if (bytes == 0 || !read_at(table->file, table->some, bytes, table->at)) return NULL;
        table->at += bytes;
    }
    return table->some + (size_t)table->taken++ * table->size;
}

/* Where in the file an address lies; 0 if nowhere. */
static uint64_t offset_of(int file, const ElfW(Ehdr) *head, uint64_t address) {
    struct table parts;
    begin_table(&parts, file, head->e_phoff, (uint64_t)head->e_phnum * sizeof(ElfW(Phdr)), sizeof(ElfW(Phdr)));
    for (const ElfW(Phdr) *part; (part = next_entry(&parts)) != NULL;)
        if (part->p_type == PT_LOAD && address >= part->p_vaddr && address - part->p_vaddr < part->p_filesz)
            return address - part->p_vaddr + part->p_offset;
    return 0;
}

/* A part of a program's file. */
struct part {
    uint64_t at, bytes;
};

/* Whether one of the names that the entries of this kind lead to is such a one. */
static bool names_one(int file, const ElfW(Ehdr) *head, struct part dynamic, int64_t tag, is_kind *is_one) {
    struct table entries;
    const ElfW(Dyn) *entry;
    uint64_t names = 0;
    begin_table(&entries, file, dynamic.at, dynamic.bytes, sizeof *entry);
    while (names == 0 && (entry = next_entry(&entries)) != NULL)
        if (entry->d_tag == DT_STRTAB) names = offset_of(file, head, entry->d_un.d_ptr);
    begin_table(&entries, file, dynamic.at, dynamic.bytes, sizeof *entry);
    while (names != 0 && (entry = next_entry(&entries)) != NULL && entry->d_tag != DT_NULL)
        if (entry->d_tag == tag && is_one(file, names + entry->d_un.d_val)) return true;
    return false;
}

/* Whether the loader that a program asks for is one of glibc: the end of its path tells. */
static bool asks_for_glibc(int file, struct part path) {
    enum { LONGEST_NAME = 40 };
    uint64_t bytes = path.bytes < LONGEST_NAME ? path.bytes : LONGEST_NAME;
    char end[LONGEST_NAME + 1];
    if (!read_at(file, end, bytes, path.at + path.bytes - bytes)) return true;
    end[bytes] = 0;
    const char *name = end;
    for (const char *sign = end; *sign != 0; sign++)
        if (*sign == '/') name = sign + 1;
    return begins_with(name, LOADER);
}

#ifdef __x86_64__
enum { OWN_CLASS = ELFCLASS64, OWN_MACHINE = EM_X86_64 };
#else
enum { OWN_CLASS = ELFCLASS64, OWN_MACHINE = EM_AARCH64 };
#endif

/* Whether a program of this file can have us in its environment. */
static bool is_fit(int file, const ElfW(Ehdr) *head) {
    if (!begins_with((const char *)head->e_ident, ELFMAG)) return true;
    if (head->e_ident[EI_CLASS] != OWN_CLASS || head->e_machine != OWN_MACHINE) return false;
    if (head->e_phentsize != sizeof(ElfW(Phdr))) return true;
    struct part dynamic = {0, 0}, loader = {0, 0};
    {
        struct table parts;
        begin_table(&parts, file, head->e_phoff, (uint64_t)head->e_phnum * sizeof(ElfW(Phdr)), sizeof(ElfW(Phdr)));
        for (const ElfW(Phdr) *part; (part = next_entry(&parts)) != NULL;) {
            struct part here = {part->p_offset, part->p_filesz};
            if (part->p_type == PT_DYNAMIC) dynamic = here;
            if (part->p_type == PT_INTERP) loader = here;
        }
    }
    /* Who executes the loader itself names the program behind it. */
    if (loader.bytes == 0) return names_one(file, head, dynamic, DT_SONAME, is_loader);
    return asks_for_glibc(file, loader) && !names_one(file, head, dynamic, DT_NEEDED, is_sanitizer);
}

enum {
    BEGIN_BYTES = 256, /* of a script the kernel looks at so many, */
    LONGEST_CHAIN = 5, /* and scripts may be interpreted by scripts */
};

/* What a script names as its interpreter, cut out of its beginning; none if it is not one. */
static const char *interpreter_of(char *begin) {
    if (!begins_with(begin, "#!")) return NULL;
    char *name = begin + 2;
    while (*name == ' ' || *name == '\t') name++;
    char *end = name;
    while (*end != 0 && *end != ' ' && *end != '\t' && *end != '\n') end++;
    *end = 0;
    return *name != 0 ? name : NULL;
}

static int open_program(int folder, const char *path) {
    return (int)CALL4(SYS_openat, folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
}

/* Whether a program can be executed with us in its environment: for a script its interpreter counts. What cannot be read is left to
 * itself. The file is closed if it is ours. */
static bool may_enter_file(int file, bool is_ours) {
    union {
        ElfW(Ehdr) head;
        char text[BEGIN_BYTES + 1];
    } begin;
    for (int scripts = 0; file >= 0; scripts++) {
        long bytes = CALL4(SYS_pread64, file, begin.text, BEGIN_BYTES, 0);
        begin.text[bytes > 0 ? bytes : 0] = 0;
        const char *interpreter = scripts < LONGEST_CHAIN ? interpreter_of(begin.text) : NULL;
        bool fits = interpreter != NULL || bytes < (long)sizeof begin.head || is_fit(file, &begin.head);
        if (is_ours) CALL2(SYS_close, file, 0);
        if (interpreter == NULL) return fits;
        file = open_program(AT_FDCWD, interpreter);
        is_ours = true;
    }
    return true;
}

static bool may_enter(const char *path) { return may_enter_file(open_program(AT_FDCWD, path), true); }

/* The same of a file that is open already, perhaps not to be read (O_PATH). */
static bool may_enter_open(int file) {
    static const char FOLDER[] = "/proc/self/fd/";
    enum { DIGITS = 10 };
    char path[sizeof FOLDER + DIGITS], *at = path + sizeof path - 1;
    *at = 0;
    unsigned number = (unsigned)file;
    do *--at = (char)('0' + number % 10); while ((number /= 10) != 0);
    at -= sizeof FOLDER - 1;
    copy(at, FOLDER, sizeof FOLDER - 1);
    int again = open_program(AT_FDCWD, at);
    return again >= 0 ? may_enter_file(again, true) : may_enter_file(file, false);
}

/* The same of a path below an open folder, or of that file itself. */
static bool may_enter_at(int folder, const char *path, int flags) {
    int file = open_program(folder, path);
    return file < 0 && (flags & AT_EMPTY_PATH) != 0 ? may_enter_open(folder) : may_enter_file(file, true);
}

/* A name as it is found in a folder, which may be none: the one that the process is in. */
static void join(char *path, const char *folder, size_t length, const char *name) {
    copy(path, folder, length);
    if (length > 0) path[length++] = '/';
    copy(path + length, name, length_of(name) + 1);
}

static const char *search_path(void) {
    const char *folders = value_of("PATH=");
    return folders != NULL ? folders : "/bin:/usr/bin";
}

enum { LONGEST_FOLDER = 4095 }; /* to the C library */

/* Bytes for the longest path of a name in one of these folders. */
static size_t path_room(const char *folders, const char *name) {
    size_t length = length_of(folders);
    return (length < LONGEST_FOLDER ? length : LONGEST_FOLDER) + length_of(name) + 2;
}

/* Who starts a program may have it go to another folder first, from where paths lead elsewhere. */
enum moving { STAYS, MAY_MOVE };

static bool is_path(const char *name) { return name[length_before(name, '/', '/')] != 0; }

/* What a path leads to in another folder is not known. */
static bool may_enter_from(const char *path, enum moving moving) {
    return (moving == STAYS || *path == '/') && may_enter(path);
}

/* The same for a name that is looked for as shells do. */
static bool may_enter_named(const char *name, enum moving moving) {
    if (is_path(name)) return may_enter_from(name, moving);
    const char *folders = search_path();
    char path[path_room(folders, name)];
    for (size_t length;; folders += length + 1) {
        if (moving != STAYS && *folders != '/') return false;
        length = length_before(folders, ':', ':');
        if (length <= LONGEST_FOLDER) {
            join(path, folders, length, name);
            if (may_access(path, X_OK)) return may_enter(path);
        }
        if (folders[length] == 0) return true;
    }
}

/* The place of LD_PRELOAD with us in it; -1 if it is not there. `reachable` says whether the library still lies there. */
static long own_place(char *const *environment, bool *reachable, size_t *count) {
    long place = -1;
    for (*count = 0; environment != NULL && environment[*count] != NULL; ++*count) {
        const char *variable = environment[*count];
        if (place >= 0 || !begins_with(variable, PRELOAD)) continue;
        for (const char *entry = variable + sizeof PRELOAD - 1; *entry != 0;) {
            size_t length = entry_length(entry);
            if (is_own_entry(entry, length)) place = (long)*count, *reachable = can_be_loaded(entry, length);
            entry += length + (entry[length] != 0);
        }
    }
    return place;
}

/* Declares `given`: the environment that a program gets, ours or one on the stack without us. */
#define GIVEN_ENVIRONMENT(environment, is_fit)                                                         \
    bool reachable = true;                                                                             \
    size_t variables = 0;                                                                              \
    long place = own_place(environment, &reachable, &variables);                                       \
    bool takes_out = place >= 0 && (!reachable || !(is_fit));                                          \
    if (takes_out && is_filtered()) pass_over(atomic_load(&ring), PROGRAMS);                           \
    char *shorter[takes_out ? variables + 1 : 1];                                                      \
    char preload[takes_out ? length_of(environment[place]) + 1 : 1];                                   \
    char *const *given = takes_out ? taken_out(shorter, preload, environment, place, variables) : environment

static char *const *taken_out(char **shorter, char *preload, char *const *environment, long place, size_t variables) {
    for (size_t index = 0; index <= variables; index++) shorter[index] = environment[index];
    copy(preload, PRELOAD, sizeof PRELOAD - 1);
    if (without_own_entry(preload + sizeof PRELOAD - 1, environment[place] + sizeof PRELOAD - 1) > 0) {
        shorter[place] = preload;
    } else {
        for (size_t index = (size_t)place; index < variables; index++) shorter[index] = shorter[index + 1];
    }
    return shorter;
}

SHOWN int execve(const char *path, char *const arguments[], char *const environment[]) {
    GIVEN_ENVIRONMENT(environment, may_enter(path));
    if (next.execve != NULL) return next.execve(path, arguments, given);
    return (int)plain_call(SYS_execve, (long)path, (long)arguments, (long)given, 0, 0, 0);
}

/* Another library may watch this one alone. */
SHOWN int execv(const char *path, char *const arguments[]) {
    if (next.execv == NULL) return execve(path, arguments, environ);
    GIVEN_ENVIRONMENT(environ, may_enter(path));
    return given == environ ? next.execv(path, arguments) : execve(path, arguments, given);
}

/* What has no beginning that the kernel knows is for the shell. */
static __attribute__((noinline)) int interpret(const char *path, char *const arguments[], char *const environment[]) {
    size_t count = 0;
    while (arguments[count] != NULL) count++;
    const char *interpreted[count + 3];
    interpreted[0] = "/bin/sh";
    interpreted[1] = path;
    interpreted[2] = NULL;
    for (size_t index = 1; index <= count; index++) interpreted[index + 1] = arguments[index];
    return execve(interpreted[0], (char *const *)interpreted, environment);
}

static int execute_or_interpret(const char *path, char *const arguments[], char *const environment[]) {
    int failed = execve(path, arguments, environment);
    return errno == ENOEXEC ? interpret(path, arguments, environment) : failed;
}

/* As the C library looks for programs, with what of it may be called between fork and exec. */
static int execute_named(const char *name, char *const arguments[], char *const environment[]) {
    if (is_path(name)) return execute_or_interpret(name, arguments, environment);
    if (*name == 0) return errno = ENOENT, -1;
    const char *folders = search_path();
    char path[path_room(folders, name)];
    bool is_denied = false;
    for (size_t length;; folders += length + 1) {
        length = length_before(folders, ':', ':');
        if (length <= LONGEST_FOLDER) {
            join(path, folders, length, name);
            execute_or_interpret(path, arguments, environment);
            int why = errno;
            is_denied = is_denied || why == EACCES;
            bool goes_on = why == EACCES || why == ENOENT || why == ESTALE || why == ENOTDIR || why == ENODEV || why == ETIMEDOUT;
            if (!goes_on) return -1;
        }
        if (folders[length] == 0) break;
    }
    if (is_denied) errno = EACCES;
    return -1;
}

SHOWN int execvpe(const char *name, char *const arguments[], char *const environment[]) {
    if (next.execvpe == NULL) return execute_named(name, arguments, environment);
    GIVEN_ENVIRONMENT(environment, may_enter_named(name, STAYS));
    return next.execvpe(name, arguments, given);
}

SHOWN int execvp(const char *name, char *const arguments[]) {
    if (next.execvp == NULL) return execvpe(name, arguments, environ);
    GIVEN_ENVIRONMENT(environ, may_enter_named(name, STAYS));
    return given == environ ? next.execvp(name, arguments) : execvpe(name, arguments, given);
}

SHOWN int fexecve(int file, char *const arguments[], char *const environment[]) {
    if (file < 0) return errno = EINVAL, -1;
    GIVEN_ENVIRONMENT(environment, may_enter_open(file));
    if (next.fexecve != NULL) return next.fexecve(file, arguments, given);
    return (int)plain_call(SYS_execveat, file, (long)"", (long)arguments, (long)given, AT_EMPTY_PATH, 0);
}

SHOWN int execveat(int folder, const char *path, char *const arguments[], char *const environment[], int flags) {
    GIVEN_ENVIRONMENT(environment, may_enter_at(folder, path, flags));
    if (next.execveat != NULL) return next.execveat(folder, path, arguments, given, flags);
    return (int)plain_call(SYS_execveat, folder, (long)path, (long)arguments, (long)given, flags, 0);
}

/* Both by their numbers, past the functions above: nobody else sees those calls. */
static __attribute__((noinline, cold)) long call_execve(const char *path, char *const *arguments, char *const *environment) {
    GIVEN_ENVIRONMENT(environment, may_enter(path));
    return plain_call(SYS_execve, (long)path, (long)arguments, (long)given, 0, 0, 0);
}

static __attribute__((noinline, cold)) long call_execveat(int folder, const char *path, char *const *arguments,
                                                          char *const *environment, int flags) {
    GIVEN_ENVIRONMENT(environment, may_enter_at(folder, path, flags));
    return plain_call(SYS_execveat, folder, (long)path, (long)arguments, (long)given, flags, 0);
}

/* Some actions lead to another folder. Which ones do only the C library can tell. */
static _Atomic bool actions_move;

static enum moving moving_by(const posix_spawn_file_actions_t *actions) {
    return actions != NULL && atomic_load(&actions_move) ? MAY_MOVE : STAYS;
}

SHOWN int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t *actions, const char *path) {
    atomic_store(&actions_move, true);
    if (!KNOWN(posix_spawn_file_actions_addchdir_np)) return ENOSYS;
    return next.posix_spawn_file_actions_addchdir_np(actions, path);
}

SHOWN int posix_spawn_file_actions_addfchdir_np(posix_spawn_file_actions_t *actions, int folder) {
    atomic_store(&actions_move, true);
    if (!KNOWN(posix_spawn_file_actions_addfchdir_np)) return ENOSYS;
    return next.posix_spawn_file_actions_addfchdir_np(actions, folder);
}

SHOWN int posix_spawn(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions,
                      const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) {
    GIVEN_ENVIRONMENT(environment, may_enter_from(path, moving_by(actions)));
    if (!KNOWN(posix_spawn)) return ENOSYS;
    return next.posix_spawn(child, path, actions, attributes, arguments, given);
}

SHOWN int posix_spawnp(pid_t *child, const char *name, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) {
    GIVEN_ENVIRONMENT(environment, may_enter_named(name, moving_by(actions)));
    if (!KNOWN(posix_spawnp)) return ENOSYS;
    return next.posix_spawnp(child, name, actions, attributes, arguments, given);
}

/* The arguments of a call that lists them, with the null pointer behind them. */
#define LISTED_ARGUMENTS(first)                                             \
    va_list list;                                                           \
    size_t listed = 1;                                                      \
    va_start(list, first);                                                  \
    while (va_arg(list, char *) != NULL) listed++;                          \
    va_end(list);                                                           \
    char *arguments[listed + 1];                                            \
    va_start(list, first);                                                  \
    arguments[0] = (char *)first;                                           \
    for (size_t index = 1; index <= listed; index++) arguments[index] = va_arg(list, char *)

SHOWN int execl(const char *path, const char *first, ...) {
    LISTED_ARGUMENTS(first);
    va_end(list);
    return execv(path, arguments);
}

SHOWN int execlp(const char *name, const char *first, ...) {
    LISTED_ARGUMENTS(first);
    va_end(list);
    return execvp(name, arguments);
}

SHOWN int execle(const char *path, const char *first, ...) {
    LISTED_ARGUMENTS(first);
    char *const *environment = va_arg(list, char *const *);
    va_end(list);
    return execve(path, arguments, environment);
}
