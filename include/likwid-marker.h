/* For programs whose regions are marked for LIKWID: put this folder in front of LIKWID's, and `memwall run` shows the same
 * regions. Nothing else changes, and nothing has to be linked. As with LIKWID's own header, the marks are there only where
 * LIKWID_PERFMON is defined.
 *
 * What has no meaning here does nothing: groups of events are not switched, and a region's counters read as none.
 */
#ifndef LIKWID_MARKER_H
#define LIKWID_MARKER_H

#ifdef LIKWID_PERFMON
#include "memwall.h"

#define LIKWID_MARKER_INIT ((void)0)
#define LIKWID_MARKER_THREADINIT ((void)0)
#define LIKWID_MARKER_SWITCH ((void)0)
#define LIKWID_MARKER_REGISTER(tag) ((void)(tag))
#define LIKWID_MARKER_START(tag) memwall_begin(tag)
#define LIKWID_MARKER_STOP(tag) memwall_end(tag)
#define LIKWID_MARKER_RESET(tag) ((void)(tag))
#define LIKWID_MARKER_CLOSE ((void)0)
#define LIKWID_MARKER_WRITE_FILE(file) ((void)(file))
/* Programs that print what they read print that there is nothing. */
#define LIKWID_MARKER_GET(tag, events_of, values, seconds, count) \
    ((void)(tag), (void)(values), *(events_of) = 0, *(seconds) = 0, *(count) = 0)

#else

#define LIKWID_MARKER_INIT
#define LIKWID_MARKER_THREADINIT
#define LIKWID_MARKER_SWITCH
#define LIKWID_MARKER_REGISTER(tag)
#define LIKWID_MARKER_START(tag)
#define LIKWID_MARKER_STOP(tag)
#define LIKWID_MARKER_RESET(tag)
#define LIKWID_MARKER_CLOSE
#define LIKWID_MARKER_WRITE_FILE(file)
#define LIKWID_MARKER_GET(tag, events_of, values, seconds, count)

#endif
#endif
