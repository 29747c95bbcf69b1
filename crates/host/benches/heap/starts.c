/* `starts ROUNDS PROGRAM VARIABLE LIBRARY...` starts a program in turns, alone and with each library preloaded, and prints a line for
 * each round: the processor time of every start, in microseconds. VARIABLE goes into the environment with a library. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern char **environ;

enum { MOST = 16 };

static double microseconds(const struct timeval *time) { return (double)time->tv_sec * 1e6 + (double)time->tv_usec; }

/* Of a process of `program`; negative if it could not be started. */
static double start(const char *program, char **environment) {
    char *arguments[] = {(char *)program, NULL};
    pid_t child;
    struct rusage usage;
    if (posix_spawn(&child, program, NULL, NULL, arguments, environment) != 0 || wait4(child, NULL, 0, &usage) != child) return -1;
    return microseconds(&usage.ru_utime) + microseconds(&usage.ru_stime);
}

int main(int count, char **words) {
    int ways = count - 3; /* the first is alone */
    if (ways < 1 || ways > MOST) return 2;
    size_t variables = 0;
    while (environ[variables] != NULL) variables++;
    char **environments[MOST];
    for (int way = 0; way < ways; way++) {
        char **environment = environments[way] = calloc(variables + 3, sizeof *environment);
        if (environment == NULL) return 1;
        memcpy(environment, environ, variables * sizeof *environment);
        if (way == 0) continue;
        if (asprintf(&environment[variables], "LD_PRELOAD=%s", words[3 + way]) < 0) return 1;
        environment[variables + 1] = words[3];
    }
    for (int round = 0; round < atoi(words[1]); round++) {
        double times[MOST];
        for (int turn = 0; turn < ways; turn++) {
            int way = round % 2 == 0 ? turn : ways - 1 - turn;
            times[way] = start(words[2], environments[way]);
            if (times[way] < 0) return 1;
        }
        for (int way = 0; way < ways; way++) printf("%.0f%c", times[way], way + 1 < ways ? ' ' : '\n');
    }
    return 0;
}
