"""Regions of a Python program, for memwall.

    import memwall

    with memwall.region("fit"):
        model.fit(data)

Under ``memwall run`` and ``memwall record`` the region is written down; otherwise it costs two calls that do nothing.
"""

import contextlib
import ctypes

__all__ = ["event_done", "is_watching", "region", "skip_first"]


def _mark(name, *types):
    """A function of the library that memwall puts into the program; None where it did not."""
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError):
        return None
    function.argtypes = types
    function.restype = None
    return function


_begin = _mark("memwall_region_begin", ctypes.c_char_p)
_end = _mark("memwall_region_end", ctypes.c_char_p)
_skip = _mark("memwall_region_skip_first", ctypes.c_char_p, ctypes.c_uint)
_done = _mark("memwall_region_event_done")


def is_watching():
    """Whether regions are written down."""
    return _begin is not None


@contextlib.contextmanager
def region(name):
    """A region of this thread: what runs within the block. Of names the first 32 bytes count."""
    if _begin is None:
        yield
        return
    encoded = name.encode()
    _begin(encoded)
    try:
        yield
    finally:
        _end(encoded)


def skip_first(name, visits):
    """The first visits of a region, on each thread, do not count. Say so before they begin."""
    if _skip is not None:
        _skip(name.encode(), visits)


def event_done():
    """The program has done with one of the events, steps or requests that it works on."""
    if _done is not None:
        _done()
