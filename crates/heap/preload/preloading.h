/* Our own entry in LD_PRELOAD, taken out where the loader would stumble over it.
 *
 * Much of it runs between fork and exec, for which programs may have made a stack of a page: little of it is used, and no function
 * of the C library called, which the loader would look up first and take half a page for.
 */

extern char **environ;

static const char PRELOAD[] = "LD_PRELOAD=", OWN_NAME[] = "/memwall-heap.so";

static size_t length_of(const char *text) {
    size_t length = 0;
    while (text[length] != 0) length++;
    return length;
}

/* Up to the next of these signs, or the end. */
static size_t length_before(const char *text, char sign, char other) {
    size_t length = 0;
    while (text[length] != 0 && text[length] != sign && text[length] != other) length++;
    return length;
}

static bool begins_with(const char *text, const char *begin) {
    while (*begin != 0 && *text == *begin) text++, begin++;
    return *begin == 0;
}

/* Forwards, so that it may also move what overlaps further down. */
static void copy(char *to, const char *from, size_t bytes) {
    for (size_t index = 0; index < bytes; index++) to[index] = from[index];
}

/* The value of a variable of the environment. Its name ends with the sign behind it. */
static const char *value_of(const char *name) {
    for (char **each = environ; each != NULL && *each != NULL; each++)
        if (begins_with(*each, name)) return *each + length_of(name);
    return NULL;
}

static bool may_access(const char *path, int how) {
#ifdef SYS_access
    return CALL2(SYS_access, path, how) == 0;
#else
    return CALL3(SYS_faccessat, AT_FDCWD, path, how) == 0;
#endif
}

static size_t entry_length(const char *entry) { return length_before(entry, ':', ' '); }

static bool is_own_entry(const char *entry, size_t length) {
    size_t name = sizeof OWN_NAME - 1;
    return length > name && begins_with(entry + length - name, OWN_NAME);
}

static bool can_be_loaded(const char *entry, size_t length) {
    enum { LONGEST = 4096 };
    if (length >= LONGEST || is_filtered()) return false;
    char path[length + 1];
    copy(path, entry, length);
    path[length] = 0;
    return may_access(path, R_OK);
}

/* Writes `value` without our entry to `to`, which may be the same. Gives the length of what is left. */
static size_t without_own_entry(char *to, const char *value) {
    size_t written = 0;
    while (*value != 0) {
        size_t length = entry_length(value);
        const char *after = value + length;
        if (!is_own_entry(value, length)) {
            if (written > 0) to[written++] = ':';
            copy(to + written, value, length);
            written += length;
        }
        value = *after == 0 ? after : after + 1;
    }
    to[written] = 0;
    return written;
}

/* After the root of all paths has changed. What this process executes from now on would complain on its stderr. */
static void leave_environment(void) {
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++) {
        if (!begins_with(*variable, PRELOAD)) continue;
        char *value = *variable + sizeof PRELOAD - 1;
        for (const char *entry = value; *entry != 0;) {
            size_t length = entry_length(entry);
            if (is_own_entry(entry, length)) {
                if (can_be_loaded(entry, length)) return;
                break;
            }
            entry += length + (entry[length] != 0);
        }
        if (without_own_entry(value, value) > 0) return;
        do {
            variable[0] = variable[1];
        } while (*variable++ != NULL);
        return;
    }
}
