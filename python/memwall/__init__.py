"""Regions of a Python program, for memwall.

    import memwall

    with memwall.region("fit"):
        model.fit(data)

Under ``memwall run`` and ``memwall record`` the region is written down; otherwise it costs two calls that do nothing.
"""

import contextlib
import ctypes

__all__ = ["is_watching", "region", "skip_first"]


def _mark(name, *more):
    """A function of the library that memwall puts into the program; None where it did not."""
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_char_p, *more]
    function.restype = None
    return function


_begin = _mark("memwall_region_begin")
_end = _mark("memwall_region_end")
_skip = _mark("memwall_region_skip_first", ctypes.c_uint)


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
