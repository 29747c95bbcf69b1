// Loads the library that lies beside it, works in it, unloads it, and does so again.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
#include "../chain.h"
#include "../options.h"

typedef struct line *hot_function(struct line *at, long steps);

enum { LINES = 1 << 16 };

static NOINLINE struct line *allocate_lines(void) {
    struct line *lines = or_die(lines_of(LINES * sizeof *lines), LINES * sizeof *lines);
    link_chain(lines, LINES);
    return lines;
}

static void library_beside(char path[4096]) {
    ssize_t length = readlink("/proc/self/exe", path, 4000);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    strcpy(slash ? slash + 1 : path, "libhot_library.so");
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    const struct option options[] = {PACE_OPTIONS(pace)};
    PARSE_OPTIONS(argc, argv, "loads a library, works in it and unloads it, once each round", options);
    char path[4096];
    library_beside(path);
    struct line *lines = allocate_lines(), *end = lines;
    while (another_round(&pace)) {
        void *library = dlopen(path, RTLD_NOW);
        hot_function *hot = library ? (hot_function *)dlsym(library, "hot_function") : NULL;
        if (hot == NULL) {
            fprintf(stderr, "dlopens: %s\n", dlerror());
            return 1;
        }
        end = hot(lines, 16L * LINES - 1);
        dlclose(library);
    }
    printf("dlopens: ended on line %td\n", end - lines);
    print_pace("dlopens", &pace, 16.0 * LINES - 1, "load");
    free(lines);
}
