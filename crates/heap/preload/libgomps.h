/* Which runtime of gcc's OpenMP a caller means. There may be several in a process, each private to those who brought it: extensions
 * of Python come with their own. A region that went to another one's would find neither its threads nor its barriers there.
 *
 * What the caller's other calls are bound to is the answer. Where none is bound yet, they will be found where all names are: first
 * in what is open to everybody, then in what the caller brought.
 */

enum libgomp_function {
    PARALLEL,
    PARALLEL_SECTIONS,
    PARALLEL_REDUCTIONS,
    PARALLEL_LOOP_STATIC,
    PARALLEL_LOOP_DYNAMIC,
    PARALLEL_LOOP_GUIDED,
    PARALLEL_LOOP_NONMONOTONIC_DYNAMIC,
    PARALLEL_LOOP_NONMONOTONIC_GUIDED,
    PARALLEL_LOOP_RUNTIME,
    PARALLEL_LOOP_NONMONOTONIC_RUNTIME,
    PARALLEL_LOOP_MAYBE_NONMONOTONIC_RUNTIME,
    LIBGOMP_FUNCTIONS,
};

static const char *const libgomp_names[LIBGOMP_FUNCTIONS] = {
    [PARALLEL] = "GOMP_parallel",
    [PARALLEL_SECTIONS] = "GOMP_parallel_sections",
    [PARALLEL_REDUCTIONS] = "GOMP_parallel_reductions",
    [PARALLEL_LOOP_STATIC] = "GOMP_parallel_loop_static",
    [PARALLEL_LOOP_DYNAMIC] = "GOMP_parallel_loop_dynamic",
    [PARALLEL_LOOP_GUIDED] = "GOMP_parallel_loop_guided",
    [PARALLEL_LOOP_NONMONOTONIC_DYNAMIC] = "GOMP_parallel_loop_nonmonotonic_dynamic",
    [PARALLEL_LOOP_NONMONOTONIC_GUIDED] = "GOMP_parallel_loop_nonmonotonic_guided",
    [PARALLEL_LOOP_RUNTIME] = "GOMP_parallel_loop_runtime",
    [PARALLEL_LOOP_NONMONOTONIC_RUNTIME] = "GOMP_parallel_loop_nonmonotonic_runtime",
    [PARALLEL_LOOP_MAYBE_NONMONOTONIC_RUNTIME] = "GOMP_parallel_loop_maybe_nonmonotonic_runtime",
};

static bool is_own_code(const void *code) {
    extern const char __ehdr_start[] __attribute__((visibility("hidden"))), _end[] __attribute__((visibility("hidden")));
    return (const char *)code >= __ehdr_start && (const char *)code < _end;
}

/* ---- what is loaded where ---- */

struct loaded {
    uintptr_t holds; /* an address in it: what is asked for */
    uintptr_t low, high, bias;
    const ElfW(Dyn) *dynamic;
    const char *name; /* empty: the program itself */
};

static int is_loaded_at(struct dl_phdr_info *info, size_t bytes, void *given) {
    (void)bytes;
    struct loaded *wanted = given, found = {.low = UINTPTR_MAX, .bias = info->dlpi_addr, .name = info->dlpi_name};
    bool holds = false;
    for (int index = 0; index < info->dlpi_phnum; index++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[index];
        uintptr_t begin = info->dlpi_addr + part->p_vaddr, end = begin + part->p_memsz;
        if (part->p_type == PT_DYNAMIC) found.dynamic = (const ElfW(Dyn) *)begin;
        if (part->p_type != PT_LOAD) continue;
        if (begin < found.low) found.low = begin;
        if (end > found.high) found.high = end;
        holds |= wanted->holds >= begin && wanted->holds < end;
    }
    if (!holds) return 0;
    found.holds = wanted->holds;
    *wanted = found;
    return 1;
}

static bool find_loaded(struct loaded *wanted, uintptr_t holds) {
    wanted->holds = holds;
    return dl_iterate_phdr(is_loaded_at, wanted) == 1;
}

/* ---- what a caller's calls are bound to ---- */

#ifdef __x86_64__
enum { SLOT_OF_CALL = R_X86_64_JUMP_SLOT, SLOT_OF_ADDRESS = R_X86_64_GLOB_DAT };
#elif defined __aarch64__
enum { SLOT_OF_CALL = R_AARCH64_JUMP_SLOT, SLOT_OF_ADDRESS = R_AARCH64_GLOB_DAT };
#else
enum { SLOT_OF_CALL = -1, SLOT_OF_ADDRESS = -1 };
#endif

struct bindings {
    const ElfW(Sym) *symbols;
    const char *names;
    const ElfW(Rela) *calls, *others;
    size_t call_bytes, other_bytes;
};

static struct bindings bindings_of(const struct loaded *caller) {
    struct bindings found = {0};
    for (const ElfW(Dyn) *entry = caller->dynamic; entry != NULL && entry->d_tag != DT_NULL; entry++) {
        /* The loader may have made addresses of these, or not. */
        uintptr_t value = entry->d_un.d_val, address = value < caller->bias ? value + caller->bias : value;
        if (entry->d_tag == DT_SYMTAB) found.symbols = (const ElfW(Sym) *)address;
        if (entry->d_tag == DT_STRTAB) found.names = (const char *)address;
        if (entry->d_tag == DT_JMPREL) found.calls = (const ElfW(Rela) *)address;
        if (entry->d_tag == DT_PLTRELSZ) found.call_bytes = value;
        if (entry->d_tag == DT_RELA) found.others = (const ElfW(Rela) *)address;
        if (entry->d_tag == DT_RELASZ) found.other_bytes = value;
    }
    return found;
}

/* Where a function of the runtime was found for this caller, one that nobody stands before; 0 where none was yet. */
static uintptr_t bound_among(const struct loaded *caller, const struct bindings *bindings, const ElfW(Rela) *slots, size_t bytes,
                             const char *prefix) {
    if (slots == NULL || bindings->symbols == NULL || bindings->names == NULL) return 0;
    for (const ElfW(Rela) *slot = slots; slot < slots + bytes / sizeof *slots; slot++) {
        int kind = (int)ELF64_R_TYPE(slot->r_info);
        if (kind != SLOT_OF_CALL && kind != SLOT_OF_ADDRESS) continue;
        const ElfW(Sym) *symbol = &bindings->symbols[ELF64_R_SYM(slot->r_info)];
        if (!begins_with(bindings->names + symbol->st_name, prefix)) continue;
        uintptr_t bound = *(const volatile uintptr_t *)(caller->bias + slot->r_offset);
        /* Before its first call a slot leads back into the caller, who may also have the runtime in itself. */
        bool is_callers = bound >= caller->low && bound < caller->high;
        bool has_it = symbol->st_shndx != SHN_UNDEF && bound == caller->bias + symbol->st_value;
        if (bound != 0 && (!is_callers || has_it) && !is_own_code((const void *)bound)) return bound;
    }
    return 0;
}

static uintptr_t bound_to(const struct loaded *caller) {
    /* Who stands before us, and hands on to us, must not be asked again. */
    void *first = dlsym(RTLD_DEFAULT, libgomp_names[PARALLEL]);
    if (caller->dynamic == NULL || (first != NULL && !is_own_code(first))) return 0;
    struct bindings bindings = bindings_of(caller);
    static const char *const prefixes[] = {"GOMP_", "omp_"};
    uintptr_t found = 0;
    for (size_t index = 0; found == 0 && index < sizeof prefixes / sizeof *prefixes; index++) {
        found = bound_among(caller, &bindings, bindings.calls, bindings.call_bytes, prefixes[index]);
        if (found == 0) found = bound_among(caller, &bindings, bindings.others, bindings.other_bytes, prefixes[index]);
    }
    return found;
}

/* ---- its functions ---- */

typedef void any_function(void);

static int (*close_again)(void *);

/* A handle of what is loaded anyhow. */
static void *handle_of(const struct loaded *library) {
    return close_again == NULL || library->name == NULL || *library->name == 0 ? NULL
                                                                             : dlopen(library->name, RTLD_LAZY | RTLD_NOLOAD);
}

static any_function *found_in(void *handle, const char *name) {
    void *found = handle == NULL ? NULL : dlsym(handle, name);
    return found == NULL || is_own_code(found) ? NULL : (any_function *)found;
}

/* All of them at once: a thread that comes for another one later must not have to wait for the loader then. */
static void find_functions(const struct loaded *caller, any_function *found[LIBGOMP_FUNCTIONS]) {
    if (close_again == NULL) close_again = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
    struct loaded runtime;
    uintptr_t bound = bound_to(caller);
    void *of_runtime = bound != 0 && find_loaded(&runtime, bound) ? handle_of(&runtime) : NULL, *of_caller = handle_of(caller);
    for (int index = 0; index < LIBGOMP_FUNCTIONS; index++) {
        const char *name = libgomp_names[index];
        found[index] = found_in(of_runtime, name);
        if (found[index] == NULL) found[index] = found_in(RTLD_NEXT, name);
        if (found[index] == NULL) found[index] = found_in(of_caller, name);
    }
    if (of_runtime != NULL) close_again(of_runtime);
    if (of_caller != NULL) close_again(of_caller);
    dlerror(); /* what was not found is nobody's error */
}

/* ---- remembered by caller ---- */

enum { REMEMBERED = 32 };

struct remembered {
    _Atomic uint32_t version; /* odd while it is written */
    _Atomic uint32_t unloads; /* as they were then */
    _Atomic uintptr_t low, high;
    any_function *_Atomic functions[LIBGOMP_FUNCTIONS];
};

static struct remembered remembered[REMEMBERED];
static _Atomic uint32_t unloads, remembered_next;
static atomic_flag remembers = ATOMIC_FLAG_INIT;

/* Where something was unloaded, something else may be loaded. */
SHOWN int dlclose(void *handle) {
    static int (*_Atomic known)(void *);
    int (*next_dlclose)(void *) = atomic_load(&known);
    if (next_dlclose == NULL) {
        next_dlclose = (int (*)(void *))find("dlclose");
        if (next_dlclose == NULL) return -1;
        atomic_store(&known, next_dlclose);
    }
    atomic_fetch_add(&unloads, 1);
    return next_dlclose(handle);
}

static any_function *recall(uintptr_t code, enum libgomp_function which, uint32_t now) {
    for (struct remembered *each = remembered; each < remembered + REMEMBERED; each++) {
        uint32_t version = atomic_load_explicit(&each->version, memory_order_acquire);
        if (version == 0) return NULL;
        if (version & 1 || atomic_load_explicit(&each->unloads, memory_order_relaxed) != now) continue;
        uintptr_t low = atomic_load_explicit(&each->low, memory_order_relaxed);
        uintptr_t high = atomic_load_explicit(&each->high, memory_order_relaxed);
        any_function *found = atomic_load_explicit(&each->functions[which], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&each->version, memory_order_relaxed) != version) continue;
        if (code >= low && code < high) return found;
    }
    return NULL;
}

static void remember(const struct loaded *caller, any_function *const found[LIBGOMP_FUNCTIONS], uint32_t now) {
    if (atomic_flag_test_and_set(&remembers)) return; /* another thread does: the next call will be remembered */
    struct remembered *to = &remembered[atomic_fetch_add(&remembered_next, 1) % REMEMBERED];
    uint32_t version = atomic_load(&to->version);
    atomic_store(&to->version, version + 1);
    atomic_store(&to->unloads, now);
    atomic_store(&to->low, caller->low);
    atomic_store(&to->high, caller->high);
    for (int index = 0; index < LIBGOMP_FUNCTIONS; index++) atomic_store(&to->functions[index], found[index]);
    atomic_store(&to->version, version + 2);
    atomic_flag_clear(&remembers);
}

static __attribute__((noinline, cold)) any_function *look_up(uintptr_t code, enum libgomp_function which, uint32_t now) {
    bool was_inside = inside;
    int error = errno;
    inside = true;
    struct loaded caller = {0};
    bool is_known = find_loaded(&caller, code);
    any_function *found[LIBGOMP_FUNCTIONS];
    find_functions(&caller, found);
    if (is_known) remember(&caller, found, now);
    inside = was_inside;
    errno = error;
    return found[which];
}

/* The function that whoever wrote `work` calls. It is asked for by that and not by where the call returns to: a call that comes last
 * is a jump. */
static any_function *libgomps(enum libgomp_function which, void (*work)(void *)) {
    uint32_t now = atomic_load(&unloads);
    any_function *found = recall((uintptr_t)work, which, now);
    return found != NULL ? found : look_up((uintptr_t)work, which, now);
}
