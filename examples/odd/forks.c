// Forks children one after another; each computes for a moment and exits with a code that its parent checks.
#include <sys/wait.h>
#include <unistd.h>
#include "../options.h"

static NOINLINE unsigned child_work(unsigned value, long steps) {
    for (long i = 0; i < steps; i++) {
        value *= 2654435761u;
        KEEP(value);
    }
    return value;
}

int main(int argc, char **argv) {
    long children = 1000, steps = 100000;
    const struct option options[] = {
        {"children", COUNT, &children, "how many, one after another"},
        {"steps", COUNT, &steps, "multiplications in each"},
    };
    PARSE_OPTIONS(argc, argv, "forks many children in sequence", options);
    long wrong = 0;
    for (long i = 0; i < children; i++) {
        pid_t child = fork();
        if (child < 0) {
            perror("fork");
            return 1;
        }
        if (child == 0)
            _exit((int)(child_work((unsigned)i, steps) & 127));
        int status;
        unsigned expected = child_work((unsigned)i, steps) & 127;
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || (unsigned)WEXITSTATUS(status) != expected)
            wrong++;
    }
    printf("forks: %ld children, %ld came back wrong\n", children, wrong);
    return wrong != 0;
}
