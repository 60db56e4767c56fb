"""Memory that is kept for the next large tensor."""

import subprocess
import sys

import pytest

COUNT_FAULTS = """
import ctypes, resource, sys
from gradsnap.memory import keep_freed_memory
if sys.argv[1] == "keep" and not keep_freed_memory():
    sys.exit("cannot be told")
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
for turn in range(6):
    if turn == 1:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    place = ctypes.c_void_p(library.malloc(2**26))
    library.memset(place, 1, 2**26)
    library.free(place)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(choice: str) -> int:
    """Pages asked of the kernel for five tensors after the first."""
    command = [sys.executable, "-c", COUNT_FAULTS, choice]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's settings")
def test_freed_memory_is_used_again() -> None:
    assert faults("keep") < 100
    assert faults("give back") > 100


TAKE_TURNS = """
import ctypes, threading
from pathlib import Path
from gradsnap.memory import keep_freed_memory
keep_freed_memory()
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
turn, gate = threading.Lock(), threading.Barrier(8)
def work():
    gate.wait()  # all are alive, so that each would have a heap of its own
    with turn:
        place = ctypes.c_void_p(library.malloc(2**25))
        library.memset(place, 1, 2**25)
        library.free(place)
    gate.wait()
threads = [threading.Thread(target=work) for _ in range(8)]
[one.start() for one in threads], [one.join() for one in threads]
lines = Path("/proc/self/status").read_text().splitlines()
print(next(line.split()[1] for line in lines if line.startswith("RssAnon")))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's settings")
def test_threads_that_take_turns_share_what_is_kept() -> None:
    command = [sys.executable, "-c", TAKE_TURNS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) / 2**10 < 4 * 32  # MiB; eight heaps would keep 256
