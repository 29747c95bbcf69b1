// The arguments every example takes: --seconds or --rounds, and its own beside them.
//
// A round is the same work each time, so standard output does not depend on how many there were.
// What does depend on time goes to standard error.
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "opaque.h"

enum kind { FLAG, COUNT, SIZE, SECONDS };

struct option {
    const char *name; // without the dashes
    enum kind kind;
    void *value; // bool, long, size_t or double, as `kind` says; holds the default
    const char *help;
};

struct pace {
    double seconds;
    long rounds; // 0: as many as fit in `seconds`
    double began, began_cpu;
    long done;
};

#define PACE_OPTIONS(pace)                                                      \
    {"seconds", SECONDS, &(pace).seconds, "run for about this long"},           \
    {"rounds", COUNT, &(pace).rounds, "exactly so many rounds, however long they take"}

static inline double clock_seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline double monotonic_seconds(void) { return clock_seconds(CLOCK_MONOTONIC); }
static inline double cpu_seconds(void) { return clock_seconds(CLOCK_PROCESS_CPUTIME_ID); }

// True while another round is due; counts it.
static inline bool another_round(struct pace *pace) {
    if (pace->done == 0) {
        pace->began = monotonic_seconds();
        pace->began_cpu = cpu_seconds();
    }
    bool more = pace->rounds > 0 ? pace->done < pace->rounds
                                 : pace->done == 0 || monotonic_seconds() - pace->began < pace->seconds;
    pace->done += more;
    return more;
}

static inline void print_pace(const char *program, const struct pace *pace, double steps_per_round,
                              const char *step) {
    double seconds = monotonic_seconds() - pace->began;
    fprintf(stderr, "%s: %ld rounds in %.3f s (%.3f s of CPU time), %.3f ns per %s\n", program, pace->done, seconds,
            cpu_seconds() - pace->began_cpu, seconds * 1e9 / ((double)pace->done * steps_per_round), step);
}

INLINE void *or_die(void *memory, size_t bytes) {
    if (memory == NULL) {
        fprintf(stderr, "no memory for %zu bytes; try a smaller --size\n", bytes);
        exit(1);
    }
    return memory;
}

// Memory that begins on a line of its own.
INLINE void *lines_of(size_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }

static inline bool parse_size(const char *text, size_t *size) {
    static const struct { const char *level; size_t bytes; } typical[] = {
        {"L1", 16 << 10}, {"L2", 192 << 10}, {"L3", 4 << 20}, {"DRAM", 256 << 20}};
    for (size_t i = 0; i < sizeof typical / sizeof *typical; i++)
        if (strcmp(text, typical[i].level) == 0)
            return *size = typical[i].bytes, true;
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (shift)
        end++;
    *size = (size_t)number << shift;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && *size >> shift == number && number > 0;
}

static inline bool parse_value(const struct option *option, const char *text) {
    char *end;
    switch (option->kind) {
    case COUNT:
        *(long *)option->value = strtol(text, &end, 10);
        return end != text && *end == '\0' && *(long *)option->value >= 0;
    case SECONDS:
        *(double *)option->value = strtod(text, &end);
        return end != text && *end == '\0' && *(double *)option->value >= 0;
    case SIZE:
        return parse_size(text, option->value);
    default:
        return false;
    }
}

static inline void print_help(const char *program, const char *about, const struct option *options,
                              size_t count) {
    printf("%s: %s\n\n", program, about);
    for (size_t i = 0; i < count; i++) {
        const struct option *o = &options[i];
        static const char *const shown[] = {"", "N", "SIZE", "S"};
        printf("  --%-12s %-4s  %s", o->name, shown[o->kind], o->help);
        if (o->kind == COUNT)
            printf(" [%ld]", *(long *)o->value);
        if (o->kind == SECONDS)
            printf(" [%g]", *(double *)o->value);
        if (o->kind == SIZE)
            printf(" [%zuK]", *(size_t *)o->value >> 10);
        printf("\n");
    }
    printf("  --%-12s %-4s  this text\n\n", "help", "");
    printf("SIZE: bytes, or with K, M or G, or a typical L1, L2, L3 or DRAM\n");
}

static inline void parse_options(int argc, char **argv, const char *about, const struct option *options,
                                 size_t count) {
    for (int i = 1; i < argc; i++) {
        const struct option *found = NULL;
        const char *name = strncmp(argv[i], "--", 2) == 0 ? argv[i] + 2 : "";
        if (strcmp(name, "help") == 0) {
            print_help(argv[0], about, options, count);
            exit(0);
        }
        for (size_t o = 0; o < count; o++)
            if (strcmp(name, options[o].name) == 0)
                found = &options[o];
        if (found == NULL) {
            fprintf(stderr, "%s: unknown argument '%s'; --help lists those there are\n", argv[0], argv[i]);
            exit(2);
        }
        if (found->kind == FLAG) {
            *(bool *)found->value = true;
        } else if (++i == argc || !parse_value(found, argv[i])) {
            const char *given = i < argc ? argv[i] : "";
            fprintf(stderr, "%s: --%s needs a value, not '%s'; --help says which\n", argv[0], name, given);
            exit(2);
        }
    }
}

#define PARSE_OPTIONS(argc, argv, about, options) \
    parse_options(argc, argv, about, options, sizeof(options) / sizeof *(options))

#endif
