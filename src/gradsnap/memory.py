"""Memory that large tensors leave is kept for the next ones."""

import ctypes
import sys

MMAP_THRESHOLD, TRIM_THRESHOLD, ARENA_MAX = -3, -1, -8
"""Numbers of glibc's settings, as in ``malloc.h``."""

KEPT = 2**30
"""Bytes of a tensor whose memory is kept when it is freed, and of free memory."""

ARENAS = 2
"""Heaps that threads share. By default a thread finds eight a core, and each would keep
the most it ever held: memory of a long job then climbs as its threads take turns."""


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
    settings = {MMAP_THRESHOLD: KEPT, TRIM_THRESHOLD: KEPT, ARENA_MAX: ARENAS}
    return all([library.mallopt(name, value) for name, value in settings.items()])
