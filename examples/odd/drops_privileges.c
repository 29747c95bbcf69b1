// Becomes the user nobody, when it is root, and works on.
#define _GNU_SOURCE
#include <grp.h>
#include <unistd.h>
#include "work.h"

enum { NOBODY = 65534 };

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 1};
    const struct option options[] = {PACE_OPTIONS(pace)};
    PARSE_OPTIONS(argc, argv, "gives up being root, then works", options);
    if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) {
        perror("drops_privileges: setuid");
        return 1;
    }
    printf("drops_privileges: user %d, ended on line %ld\n", (int)geteuid(), work(&pace));
}
