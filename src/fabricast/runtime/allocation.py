"""How memory is taken from the system."""

from __future__ import annotations

import ctypes

__all__ = ["keep_freed_memory"]

#: Options of the C library of Linux: how much free memory stays here, and from which size on memory never does.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
#: The second is the largest that it takes.
_KEPT_BYTES, _LARGE_BYTES = 256 << 20, 32 << 20


def keep_freed_memory() -> None:
    """Let this process keep memory that it frees, for work that asks for the same again and again.

    The system clears every page that it gives out anew, which takes a tenth of such work. Where the C library cannot be
    asked, nothing changes.

    Examples
    --------
    >>> keep_freed_memory()
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_TRIM_THRESHOLD, _KEPT_BYTES)
        set_option(_MMAP_THRESHOLD, _LARGE_BYTES)
