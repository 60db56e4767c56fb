"""Peak memory of one backward of the layer, in a fresh process."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.report import Bar, Row, compared, noted, say
from benchmarks.timing import use_one_thread
from benchmarks.vectors import Setting
from gradsnap.coders.quantizers import QUANTIZERS
from gradsnap.layers.snapping import GradientSnapping

ROWS, NEIGHBORS, DIM, CODEBOOKS = 1024, 150, 1024, 8
KINDS = ("pq", "opq", "rvq")
BAR = Bar("≤", 0.1)
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def run(setting: Setting) -> Iterator[Row]:
    """Beside what a tensor of rows x candidates x dim would take."""
    naive = ROWS * NEIGHBORS * DIM * 4 / 2**20
    size = f"{ROWS} rows, T = {NEIGHBORS}, {DIM}-d, {CODEBOOKS} x {setting.words}"
    for kind in KINDS:
        say(f"memory: {kind}, in a process of its own …")
        grown = _in_a_process(kind, setting.words)
        row = compared(f"{kind.upper()}: {size}", grown, naive, "MiB", BAR)
        yield noted(row, "growth of the resident set / rows x T x dim floats")


def _in_a_process(kind: str, words: int) -> float:
    """Of the second of two: the first compiles kernels, which takes memory too."""
    command = [sys.executable, "-m", "benchmarks.memory", kind, str(words)]
    for _ in range(2):
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(done.stdout))


def growth(kind: str, words: int) -> float:
    """MiB by which the resident set grows at most during one backward."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, DIM, generator=generator)
    quantizer = QUANTIZERS[kind](DIM, CODEBOOKS, words)
    words_drawn = torch.randn(quantizer.codebooks.shape, generator=generator)
    quantizer.codebooks.copy_(words_drawn)
    quantizer.fitted.fill_(True)
    layer = GradientSnapping(quantizer, NEIGHBORS)
    gradient = torch.randn(x.shape, generator=generator)
    y = x.requires_grad_()
    layer(y[:2]).backward(gradient[:2])  # compiles and loads what is needed
    y.grad = None
    forget_the_peak()
    before = resident("VmRSS")
    layer(y).backward(gradient)
    return resident("VmHWM") - before


def forget_the_peak() -> None:
    """Without this right the peak so far counts too: the figure can only be larger."""
    try:
        CLEAR.write_text("5")
    except OSError:
        say("memory: cannot reset the peak, the figure is an upper bound")


def resident(field: str) -> float:
    """A field of the process's status in MiB, such as VmRSS or its peak VmHWM."""
    lines = STATUS.read_text().splitlines()
    value = next(line for line in lines if line.startswith(field))
    return int(value.split()[1]) / 1024  # the file counts KiB


if __name__ == "__main__":
    use_one_thread()
    print(json.dumps(growth(sys.argv[1], int(sys.argv[2]))))
