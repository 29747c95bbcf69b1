/* Processes and nothing else: `forks fork N` forks N times a child that ends, `forks exec PROGRAM N` starts a program N times. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int count, char **words) {
    if (count == 3 && strcmp(words[1], "fork") == 0) {
        for (int left = atoi(words[2]); left > 0; left--) {
            pid_t child = fork();
            if (child == 0) _exit(0);
            if (child < 0 || waitpid(child, NULL, 0) != child) return 1;
        }
        return 0;
    }
    if (count == 4 && strcmp(words[1], "exec") == 0) {
        char *arguments[] = {words[2], NULL};
        for (int left = atoi(words[3]); left > 0; left--) {
            pid_t child;
            if (posix_spawn(&child, words[2], NULL, NULL, arguments, environ) != 0 || waitpid(child, NULL, 0) != child) return 1;
        }
        return 0;
    }
    return 2;
}
