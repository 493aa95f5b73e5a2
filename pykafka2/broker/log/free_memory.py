"""Give memory that is free back to the system, which the C library does by itself only at the heap's end."""

from __future__ import annotations

import sys


def give_back_free_memory() -> None:
    """Where the C library can (glibc); elsewhere nothing happens.  Takes milliseconds."""
    if sys.platform != "linux":
        return
    import ctypes  # five milliseconds, which most processes never need

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
