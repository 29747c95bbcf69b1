// Works, then dies of a segmentation fault.
#include "work.h"

static NOINLINE void write_nowhere(volatile int *nowhere) { *nowhere = 1; }

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 0.5};
    const struct option options[] = {PACE_OPTIONS(pace)};
    PARSE_OPTIONS(argc, argv, "works, then dies of SIGSEGV", options);
    printf("crashes: ended on line %ld\n", work(&pace));
    fflush(stdout);
    volatile int *nowhere = NULL;
    KEEP(nowhere);
    write_nowhere(nowhere);
}
