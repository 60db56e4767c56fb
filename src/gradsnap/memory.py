"""Memory that large tensors leave is kept for the next ones."""

import ctypes
import sys

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
"""Numbers of glibc's settings, as in ``malloc.h``."""

KEPT = 2**30
"""Bytes of a tensor whose memory is kept when it is freed, and of free memory."""


def keep_freed_memory() -> bool:
    """Tells the C library to keep freed memory; says whether it could be told.

    Without it, glibc asks the kernel for each tensor over 32 MB, and gives it back when
    it is freed: a convolutional network then waits for cleared pages at every layer,
    two thirds of its time. Holds for the whole process and cannot be undone, so a
    program may call it and a library must not.
    """
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):  # another C library than glibc
        return False
    settings = (MMAP_THRESHOLD, TRIM_THRESHOLD)
    return all(library.mallopt(setting, KEPT) for setting in settings)
