"""The shim: compiled once, loaded before everything else, armed in a forked child."""

import ctypes
import enum
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
NAME = "storm-shim.so"


class Mode(enum.IntEnum):
    """What happens at the chosen call."""

    COUNT = 0
    KILL = 1
    """The process ends before the call."""
    TEAR = 2
    """Half of a write is done, then the process ends."""
    FAIL = 3
    """This one call fails."""
    FULL = 4
    """From this call on, whatever takes space fails."""


def loaded() -> bool:
    """Whether this process runs under the shim."""
    return NAME in os.environ.get("LD_PRELOAD", "")


def reload_under_shim() -> str | None:
    """Starts this program again under the shim; why not, where it cannot be."""
    return None if loaded() else _reload()


def _reload() -> str:  # noqa: RET503, the last call does not come back
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not sys.platform.startswith("linux") or compiler is None:
        return "no shim: it needs Linux and a C compiler"
    folder = tempfile.mkdtemp(prefix="storm-shim-")
    library = os.path.join(folder, NAME)
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", library, str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"no shim: {done.stderr.strip()[:200]}"
    os.environ["LD_PRELOAD"] = library
    os.execv(sys.executable, [sys.executable, "-m", "storm", *sys.argv[1:]])


def arm(folder: Path, at: int, mode: Mode, error: int = 0, record: int = -1) -> None:
    """Watches what this process writes below a folder from now on."""
    library = ctypes.CDLL(None)
    library.storm_arm(os.fsencode(folder), ctypes.c_long(at), int(mode), error, record)


def disarm() -> int:
    """Ends the watch; how many calls there were."""
    library = ctypes.CDLL(None)
    library.storm_calls.restype = ctypes.c_long
    calls = int(library.storm_calls())
    library.storm_arm(b"", ctypes.c_long(0), 0, 0, -1)
    return calls
