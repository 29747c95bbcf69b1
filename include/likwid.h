/* For programs marked for LIKWID that include its <likwid.h>, or call the functions behind its marks themselves. See likwid-marker.h.
 *
 * Only what marks regions is here. Programs that ask LIKWID for more (topology, pinning, counters by perfmon_*) need LIKWID's own header
 * and library: leave this folder out there, and mark with memwall.h.
 */
#ifndef LIKWID_H
#define LIKWID_H

#include "memwall.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline void likwid_markerInit(void) {}
static inline void likwid_markerThreadInit(void) {}
static inline void likwid_markerNextGroup(void) {}
static inline void likwid_markerClose(void) {}

static inline int likwid_markerRegisterRegion(const char *name) { return (void)name, 0; }

static inline int likwid_markerStartRegion(const char *name) {
    memwall_begin(name);
    return 0;
}

static inline int likwid_markerStopRegion(const char *name) {
    memwall_end(name);
    return 0;
}

/* What was seen so far stays. */
static inline int likwid_markerResetRegion(const char *name) { return (void)name, 0; }

/* Nothing is written here: memwall has what there is. */
static inline int likwid_markerWriteFile(const char *file) { return (void)file, 0; }

/* Nothing can be read while the program runs: there are no events, and it was never there. */
static inline void likwid_markerGetRegion(const char *name, int *events, double *values, double *seconds, int *visits) {
    (void)name, (void)values;
    if (events) *events = 0;
    if (seconds) *seconds = 0;
    if (visits) *visits = 0;
}

#ifdef __cplusplus
}
#endif

#include "likwid-marker.h"

#endif
