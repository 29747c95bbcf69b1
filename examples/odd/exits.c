// Works, then exits with a code of its own.
#include "work.h"

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 0.5};
    long code = 37;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"code", COUNT, &code, "the exit code"},
    };
    PARSE_OPTIONS(argc, argv, "works, then exits with a code", options);
    printf("exits: ended on line %ld\n", work(&pace));
    return (int)code;
}
