// Works on, whatever polite signals come.
#include <signal.h>
#include "work.h"

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    const struct option options[] = {PACE_OPTIONS(pace)};
    PARSE_OPTIONS(argc, argv, "ignores SIGINT, SIGTERM and SIGHUP", options);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    fprintf(stderr, "ignores_signals: ignoring\n");
    printf("ignores_signals: ended on line %ld\n", work(&pace));
}
