/* Our own entry in LD_PRELOAD, taken out where the loader would stumble over it. */

extern char **environ;

static const char PRELOAD[] = "LD_PRELOAD=", OWN_NAME[] = "/memwall-heap.so";

static bool is_own_entry(const char *entry, size_t length) {
    size_t name = sizeof OWN_NAME - 1;
    return length > name && strncmp(entry + length - name, OWN_NAME, name) == 0;
}

static bool can_be_loaded(const char *entry, size_t length) {
    char path[4096];
    if (length >= sizeof path) return false;
    memcpy(path, entry, length);
    path[length] = 0;
    return access(path, R_OK) == 0;
}

/* Writes `value` without our entry to `to`, which may be the same. Gives the length of what is left. */
static size_t without_own_entry(char *to, const char *value) {
    size_t written = 0;
    while (*value != 0) {
        size_t length = strcspn(value, ": ");
        const char *after = value + length;
        if (!is_own_entry(value, length)) {
            if (written > 0) to[written++] = ':';
            memmove(to + written, value, length);
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
        if (strncmp(*variable, PRELOAD, sizeof PRELOAD - 1) != 0) continue;
        char *value = *variable + sizeof PRELOAD - 1;
        for (const char *entry = value; *entry != 0;) {
            size_t length = strcspn(entry, ": ");
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
