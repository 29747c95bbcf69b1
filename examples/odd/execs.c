// Works, then becomes another program: the command after `--`, or itself with --last.
#include <unistd.h>
#include "work.h"

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 0.5};
    bool last = false;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"last", FLAG, &last, "become nothing else"},
    };
    int own = 1;
    while (own < argc && strcmp(argv[own], "--") != 0)
        own++;
    parse_options(own, argv, "works, then becomes the COMMAND after --", options, sizeof options / sizeof *options);
    printf("execs: ended on line %ld\n", work(&pace));
    fflush(stdout);
    if (last)
        return 0;
    char *itself[] = {"execs", "--last", "--rounds", "10", NULL};
    if (own + 1 < argc)
        execvp(argv[own + 1], argv + own + 1);
    else
        execv("/proc/self/exe", itself);
    perror(own + 1 < argc ? argv[own + 1] : argv[0]);
    return 127;
}
