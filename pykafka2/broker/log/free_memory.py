"""Returns free memory to the system; the C library alone does so only at the end of the heap."""

from __future__ import annotations

import sys


def release_free_memory() -> None:
    """Call glibc's malloc_trim; do nothing elsewhere. Takes milliseconds."""
    if sys.platform != "linux":
        return
    import ctypes  # five milliseconds, which most processes never need

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
