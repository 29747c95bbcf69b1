/* Programs that must not have us: a sanitizer's runtime insists on being the first library, and ends the program if it is
 * not. Which one comes next is known when a process executes it, so that its file is looked at there, and our entry taken
 * out of the environment that it is given. The same where the library cannot be reached any more.
 *
 * Between fork (or vfork) and exec: only system calls and the stack.
 */
#include <elf.h>
#include <spawn.h>

static const char *const FIRST_OF_ALL[] = {"libasan.", "libtsan.", "liblsan.", "libhwasan.", "libclang_rt."};

static bool read_at(int file, void *to, size_t bytes, uint64_t at) {
    return pread(file, to, bytes, (off_t)at) == (ssize_t)bytes;
}

/* Whether the name of a library, at this place of the file, is a sanitizer's. */
static bool is_sanitizer(int file, uint64_t at) {
    char name[16] = {0};
    if (pread(file, name, sizeof name - 1, (off_t)at) <= 0) return false;
    for (size_t index = 0; index < sizeof FIRST_OF_ALL / sizeof FIRST_OF_ALL[0]; index++)
        if (strncmp(name, FIRST_OF_ALL[index], strlen(FIRST_OF_ALL[index])) == 0) return true;
    return false;
}

/* Where in the file an address lies; 0 if nowhere. */
static uint64_t offset_of(const ElfW(Phdr) *parts, int count, uint64_t address) {
    for (int index = 0; index < count; index++) {
        const ElfW(Phdr) *part = &parts[index];
        if (part->p_type == PT_LOAD && address >= part->p_vaddr && address - part->p_vaddr < part->p_filesz)
            return address - part->p_vaddr + part->p_offset;
    }
    return 0;
}

static bool needs_sanitizer(int file) {
    enum { MOST_PARTS = 32, MOST_ENTRIES = 128 };
    ElfW(Ehdr) head;
    ElfW(Phdr) parts[MOST_PARTS];
    ElfW(Dyn) entries[MOST_ENTRIES];
    if (!read_at(file, &head, sizeof head, 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return false;
    if (head.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)) return false;
    int count = head.e_phnum < MOST_PARTS ? head.e_phnum : MOST_PARTS;
    if (head.e_phentsize != sizeof parts[0] || !read_at(file, parts, (size_t)count * sizeof parts[0], head.e_phoff))
        return false;
    for (int index = 0; index < count; index++) {
        if (parts[index].p_type != PT_DYNAMIC) continue;
        size_t bytes = parts[index].p_filesz < sizeof entries ? parts[index].p_filesz : sizeof entries;
        if (!read_at(file, entries, bytes, parts[index].p_offset)) return false;
        uint64_t names = 0;
        size_t last = bytes / sizeof entries[0];
        for (size_t entry = 0; entry < last; entry++)
            if (entries[entry].d_tag == DT_STRTAB) names = offset_of(parts, count, entries[entry].d_un.d_ptr);
        for (size_t entry = 0; names != 0 && entry < last && entries[entry].d_tag != DT_NULL; entry++)
            if (entries[entry].d_tag == DT_NEEDED && is_sanitizer(file, names + entries[entry].d_un.d_val)) return true;
    }
    return false;
}

/* Whether a program can be executed with us in its environment. One that cannot be read is left to itself. */
static bool may_enter(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0) return true;
    bool needs = needs_sanitizer(file);
    close(file);
    return !needs;
}

/* The same for a name that is looked for as shells do. */
static bool may_enter_named(const char *name) {
    const char *folders = strchr(name, '/') == NULL ? getenv("PATH") : NULL;
    if (folders == NULL) return may_enter(name);
    char path[4096];
    while (*folders != 0) {
        size_t length = strcspn(folders, ":");
        if (length > 0 && length + strlen(name) + 2 <= sizeof path) {
            memcpy(path, folders, length);
            path[length] = '/';
            strcpy(path + length + 1, name);
            if (access(path, X_OK) == 0) return may_enter(path);
        }
        folders += length + (folders[length] != 0);
    }
    return true;
}

/* The place of LD_PRELOAD with us in it; -1 if it is not there. `reachable` says whether the library still lies there. */
static long own_place(char *const *environment, bool *reachable, size_t *count) {
    long place = -1;
    for (*count = 0; environment != NULL && environment[*count] != NULL; ++*count) {
        const char *variable = environment[*count];
        if (place >= 0 || strncmp(variable, PRELOAD, sizeof PRELOAD - 1) != 0) continue;
        for (const char *entry = variable + sizeof PRELOAD - 1; *entry != 0;) {
            size_t length = strcspn(entry, ": ");
            if (is_own_entry(entry, length)) place = (long)*count, *reachable = can_be_loaded(entry, length);
            entry += length + (entry[length] != 0);
        }
    }
    return place;
}

/* Declares `given`: the environment that a program gets, ours or one on the stack without us. */
#define GIVEN_ENVIRONMENT(environment, is_fit)                                                         \
    int error_before = errno;                                                                          \
    bool reachable = true;                                                                             \
    size_t variables = 0;                                                                              \
    long place = own_place(environment, &reachable, &variables);                                       \
    bool takes_out = place >= 0 && (!reachable || !(is_fit));                                          \
    char *shorter[takes_out ? variables + 1 : 1];                                                      \
    char preload[takes_out ? strlen(environment[place]) + 1 : 1];                                      \
    char *const *given = takes_out ? taken_out(shorter, preload, environment, place, variables) : environment; \
    errno = error_before

static char *const *taken_out(char **shorter, char *preload, char *const *environment, long place, size_t variables) {
    memcpy(shorter, environment, (variables + 1) * sizeof *shorter);
    memcpy(preload, PRELOAD, sizeof PRELOAD - 1);
    if (without_own_entry(preload + sizeof PRELOAD - 1, environment[place] + sizeof PRELOAD - 1) > 0) {
        shorter[place] = preload;
    } else {
        memmove(shorter + place, shorter + place + 1, (variables - (size_t)place) * sizeof *shorter);
    }
    return shorter;
}

SHOWN int execve(const char *path, char *const arguments[], char *const environment[]) {
    GIVEN_ENVIRONMENT(environment, may_enter(path));
    return (int)syscall(SYS_execve, path, arguments, given);
}

SHOWN int execv(const char *path, char *const arguments[]) { return execve(path, arguments, environ); }

SHOWN int execvpe(const char *name, char *const arguments[], char *const environment[]) {
    GIVEN_ENVIRONMENT(environment, may_enter_named(name));
    if (next.execvpe == NULL) return errno = ENOSYS, -1;
    return next.execvpe(name, arguments, given);
}

SHOWN int execvp(const char *name, char *const arguments[]) { return execvpe(name, arguments, environ); }

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
    return execve(path, arguments, environ);
}

SHOWN int execlp(const char *name, const char *first, ...) {
    LISTED_ARGUMENTS(first);
    va_end(list);
    return execvpe(name, arguments, environ);
}

SHOWN int execle(const char *path, const char *first, ...) {
    LISTED_ARGUMENTS(first);
    char *const *environment = va_arg(list, char *const *);
    va_end(list);
    return execve(path, arguments, environment);
}
