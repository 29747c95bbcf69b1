// Deletes its own executable file, then works. Run a copy, or build again afterwards.
#include <unistd.h>
#include "work.h"

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 1};
    const struct option options[] = {PACE_OPTIONS(pace)};
    PARSE_OPTIONS(argc, argv, "deletes its own executable, then works", options);
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    if (unlink(path) != 0) {
        perror(path);
        return 1;
    }
    printf("deletes_itself: ended on line %ld\n", work(&pace));
}
