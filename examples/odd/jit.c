// Writes a pointer chase as machine code into memory of its own and runs it there, in no file's text.
#include <sys/mman.h>
#include <unistd.h>
#include "../chain.h"
#include "../options.h"

typedef struct line *chase_function(struct line *at, size_t steps);

enum { LINES = 1 << 16 };

// next: mov rdi, [rdi]; dec rsi; jnz next; mov rax, rdi; ret
static const unsigned char chase_code[] = {0x48, 0x8b, 0x3f, 0x48, 0xff, 0xce, 0x75, 0xf8, 0x48, 0x89, 0xf8, 0xc3};

static NOINLINE struct line *allocate_lines(void) {
    struct line *lines = or_die(lines_of(LINES * sizeof *lines), LINES * sizeof *lines);
    link_chain(lines, LINES);
    return lines;
}

static void *compile(void) {
    void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code != MAP_FAILED)
        memcpy(code, chase_code, sizeof chase_code);
    if (code == MAP_FAILED || mprotect(code, 4096, PROT_READ | PROT_EXEC) != 0) {
        perror("jit: no memory to execute");
        exit(1);
    }
    return code;
}

// The file by which a JIT compiler tells profilers what it compiled.
static void write_map(const void *code) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    if (map == NULL) {
        perror(path);
        exit(1);
    }
    fprintf(map, "%lx %zx jitted_chase\n", (unsigned long)code, sizeof chase_code);
    fclose(map);
}

int main(int argc, char **argv) {
    struct pace pace = {.seconds = 2};
    bool map = false;
    const struct option options[] = {
        PACE_OPTIONS(pace),
        {"map", FLAG, &map, "write /tmp/perf-PID.map, which names the code"},
    };
    PARSE_OPTIONS(argc, argv, "runs code that it wrote itself; waits on loads", options);
#ifndef __x86_64__
    fprintf(stderr, "jit: knows x86-64 only\n");
    return 1;
#endif
    void *code = compile();
    if (map)
        write_map(code);
    chase_function *chase = (chase_function *)code;
    struct line *lines = allocate_lines(), *end = lines;
    while (another_round(&pace))
        end = chase(lines, LINES - 1);
    printf("jit: ended on line %td\n", end - lines);
    print_pace("jit", &pace, LINES - 1, "load");
    free(lines);
}
