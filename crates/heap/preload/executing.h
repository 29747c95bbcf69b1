/* Programs that are executed, and those that must not have us: a sanitizer's runtime insists on being the first library, and ends the program if it is
 * not. Which one comes next is known when a process executes it, so that its file is looked at there, and our entry taken
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

/* Whether the name of a library, at this place of the file, is a sanitizer's. */
static bool is_sanitizer(int file, uint64_t at) {
    char name[16] = {0};
    if (CALL4(SYS_pread64, file, name, sizeof name - 1, at) <= 0) return false;
    for (size_t index = 0; index < sizeof FIRST_OF_ALL / sizeof FIRST_OF_ALL[0]; index++)
        if (begins_with(name, FIRST_OF_ALL[index])) return true;
    return false;
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

/* Whether one of the libraries that are asked for is a sanitizer. */
static bool asks_for_sanitizer(int file, const ElfW(Ehdr) *head, uint64_t at, uint64_t bytes) {
    struct table entries;
    const ElfW(Dyn) *entry;
    uint64_t names = 0;
    begin_table(&entries, file, at, bytes, sizeof *entry);
    while (names == 0 && (entry = next_entry(&entries)) != NULL)
        if (entry->d_tag == DT_STRTAB) names = offset_of(file, head, entry->d_un.d_ptr);
    begin_table(&entries, file, at, bytes, sizeof *entry);
    while (names != 0 && (entry = next_entry(&entries)) != NULL && entry->d_tag != DT_NULL)
        if (entry->d_tag == DT_NEEDED && is_sanitizer(file, names + entry->d_un.d_val)) return true;
    return false;
}

static bool needs_sanitizer(int file) {
    ElfW(Ehdr) head;
    if (!read_at(file, &head, sizeof head, 0) || !begins_with((const char *)head.e_ident, ELFMAG)) return false;
    if (head.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)) return false;
    if (head.e_phentsize != sizeof(ElfW(Phdr))) return false;
    uint64_t at = 0, bytes = 0;
    {
        struct table parts;
        begin_table(&parts, file, head.e_phoff, (uint64_t)head.e_phnum * sizeof(ElfW(Phdr)), sizeof(ElfW(Phdr)));
        for (const ElfW(Phdr) *part; (part = next_entry(&parts)) != NULL;)
            if (part->p_type == PT_DYNAMIC) at = part->p_offset, bytes = part->p_filesz;
    }
    return asks_for_sanitizer(file, &head, at, bytes);
}

/* Whether a program can be executed with us in its environment. One that cannot be read is left to itself. */
static bool may_enter(const char *path) {
    int file = (int)CALL4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    if (file < 0) return true;
    bool needs = needs_sanitizer(file);
    CALL2(SYS_close, file, 0);
    return !needs;
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

/* The same for a name that is looked for as shells do. */
static bool may_enter_named(const char *name) {
    if (name[length_before(name, '/', '/')] != 0) return may_enter(name);
    const char *folders = search_path();
    char path[path_room(folders, name)];
    for (size_t length;; folders += length + 1) {
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
    if (name[length_before(name, '/', '/')] != 0) return execute_or_interpret(name, arguments, environment);
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
    GIVEN_ENVIRONMENT(environment, may_enter_named(name));
    return next.execvpe(name, arguments, given);
}

SHOWN int execvp(const char *name, char *const arguments[]) {
    if (next.execvp == NULL) return execvpe(name, arguments, environ);
    GIVEN_ENVIRONMENT(environ, may_enter_named(name));
    return given == environ ? next.execvp(name, arguments) : execvpe(name, arguments, given);
}

SHOWN int fexecve(int file, char *const arguments[], char *const environment[]) {
    if (file < 0) return errno = EINVAL, -1;
    GIVEN_ENVIRONMENT(environment, !needs_sanitizer(file));
    if (next.fexecve != NULL) return next.fexecve(file, arguments, given);
    return (int)plain_call(SYS_execveat, file, (long)"", (long)arguments, (long)given, AT_EMPTY_PATH, 0);
}

SHOWN int posix_spawn(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions,
                      const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) {
    GIVEN_ENVIRONMENT(environment, may_enter(path));
    if (!KNOWN(posix_spawn)) return ENOSYS;
    return next.posix_spawn(child, path, actions, attributes, arguments, given);
}

SHOWN int posix_spawnp(pid_t *child, const char *name, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) {
    GIVEN_ENVIRONMENT(environment, may_enter_named(name));
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
