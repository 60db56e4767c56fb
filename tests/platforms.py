"""What a platform may lack: tests that need it are skipped, with the reason."""

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterator

import pytest

needs_fork = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="this platform cannot fork a process"
)
needs_signals = pytest.mark.skipif(
    not hasattr(signal, "SIGKILL"), reason="this platform has no SIGKILL"
)
needs_permissions = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0,
    reason="folders are not protected: no such permissions here, or run as root",
)

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)

needs_browser = pytest.mark.skipif(
    BROWSER is None, reason=f"none of {', '.join(BROWSERS)} is installed"
)


def peak_memory() -> int:
    """The most memory this process has used so far, in KiB."""
    resource = pytest.importorskip("resource", reason="memory use cannot be asked for")
    peak = int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peak // 1024 if sys.platform == "darwin" else peak


@contextlib.contextmanager
def small_files_only(most: int) -> Iterator[None]:
    """No file may grow beyond ``most`` bytes: writing fails as on a full disk.

    Any file of this process: keep it short, or pytest's own output fails too.
    """
    resource = pytest.importorskip("resource", reason="files cannot be kept small")
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
        signal.signal(signal.SIGXFSZ, handler)
