/* For programs whose regions are marked for LIKWID: put this folder in front of LIKWID's, and `memwall run` shows the same
 * regions. Nothing else changes, and nothing has to be linked. As with LIKWID's own header, the marks are there only where
 * LIKWID_PERFMON is defined.
 *
 * What has no meaning here does nothing: groups of events are not switched, a region's counters read as none, and marks for GPUs are
 * empty, as they are in LIKWID without them.
 */
#ifndef LIKWID_MARKER_H
#define LIKWID_MARKER_H

#ifdef LIKWID_PERFMON
#include "likwid.h"

#define LIKWID_MARKER_INIT likwid_markerInit()
#define LIKWID_MARKER_THREADINIT likwid_markerThreadInit()
#define LIKWID_MARKER_SWITCH likwid_markerNextGroup()
#define LIKWID_MARKER_REGISTER(tag) likwid_markerRegisterRegion(tag)
#define LIKWID_MARKER_START(tag) likwid_markerStartRegion(tag)
#define LIKWID_MARKER_STOP(tag) likwid_markerStopRegion(tag)
#define LIKWID_MARKER_RESET(tag) likwid_markerResetRegion(tag)
#define LIKWID_MARKER_CLOSE likwid_markerClose()
#define LIKWID_MARKER_WRITE_FILE(file) likwid_markerWriteFile(file)
#define LIKWID_MARKER_GET(tag, events, values, seconds, visits) likwid_markerGetRegion(tag, events, values, seconds, visits)

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
#define LIKWID_MARKER_GET(tag, events, values, seconds, visits)

#endif

#define NVMON_MARKER_INIT
#define NVMON_MARKER_THREADINIT
#define NVMON_MARKER_SWITCH
#define NVMON_MARKER_REGISTER(tag)
#define NVMON_MARKER_START(tag)
#define NVMON_MARKER_STOP(tag)
#define NVMON_MARKER_RESET(tag)
#define NVMON_MARKER_CLOSE
#define NVMON_MARKER_WRITE_FILE(file)
#define NVMON_MARKER_GET(...)

#define ROCMON_MARKER_INIT
#define ROCMON_MARKER_THREADINIT
#define ROCMON_MARKER_SWITCH
#define ROCMON_MARKER_REGISTER(tag)
#define ROCMON_MARKER_START(tag)
#define ROCMON_MARKER_STOP(tag)
#define ROCMON_MARKER_RESET(tag)
#define ROCMON_MARKER_CLOSE
#define ROCMON_MARKER_WRITE_FILE(file)
#define ROCMON_MARKER_GET(...)

#endif
