"""From the shell: ``gradsnap --help``, and the first answer of ``gradsnap search``.

Seconds of one core that a process of its own takes, whatever else the machine does.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from PIL import Image

from benchmarks import databases
from benchmarks.report import Bar, Row, noted
from benchmarks.vectors import Setting
from gradsnap.index import ExhaustiveIndex
from gradsnap.inference.model import Model, NetworkSpec
from gradsnap.networks import build_network

SIDE, ITEMS = 224, 10_000

BARE = """
import sys, torch
from PIL import Image
Image.open(sys.argv[1]).convert("RGB").resize((224, 224))
"""


def run(setting: Setting) -> Iterator[Row]:
    """The best of several, taking turns."""
    with tempfile.TemporaryDirectory() as folder:
        index, photo = _written(Path(folder))
        commands = {
            "help": ["-m", "gradsnap", "--help"],
            "nothing": ["-c", ""],
            "bare": ["-c", BARE, photo],
            "search": ["-m", "gradsnap", "search", index, photo],
            "ids": ["-m", "gradsnap", "search", index, "--id", "7"],
        }
        best = _best(commands, setting.repeats(3))
    row = Row("seconds of gradsnap --help", ours=best["help"], bar=Bar("<", 0.5))
    yield noted(row, f"python alone {best['nothing']:.2f} s")
    yield _beside("first answer to a photo", best["search"], best["bare"])
    yield _beside("first answer to an id", best["ids"], best["bare"])


def _beside(what: str, ours: float, bare: float) -> Row:
    row = Row(what, ours, bare, "s", ours / bare, Bar("≤", 2.0))
    return noted(row, "over importing torch and decoding the photo")


def _written(folder: Path) -> tuple[str, str]:
    """An index of photos by EfficientNet-Lite0, and a photo to ask it with."""
    quantizer = databases.fitted(8, 256)
    network = build_network("efficientnet-lite0", dim=quantizer.dim, side=SIDE)
    options = {"dim": quantizer.dim, "side": SIDE}
    spec = NetworkSpec("efficientnet-lite0", options, side=SIDE, channels=3)
    Model(network, quantizer, spec).save(folder / "model")
    index = ExhaustiveIndex(quantizer)
    index.add_codes(databases.many_codes(quantizer, ITEMS))
    index.notes["model"] = str(folder / "model")
    index.save(folder / "index")
    shape = (225, 300, 3)
    pixels = torch.randint(256, shape, generator=torch.Generator().manual_seed(0))
    Image.fromarray(pixels.to(torch.uint8).numpy()).save(folder / "photo.jpg")
    return str(folder / "index"), str(folder / "photo.jpg")


def _best(commands: Mapping[str, list[str]], repeats: int) -> dict[str, float]:
    """The fewest seconds of a core each command takes, after one run to warm up."""
    best = dict.fromkeys(commands, float("inf"))
    for turn in range(repeats + 1):
        for name, command in commands.items():
            took = _seconds(command)
            if turn > 0:
                best[name] = min(best[name], took)
    return best


def _seconds(command: list[str]) -> float:
    before = os.times()
    subprocess.run([sys.executable, *command], capture_output=True, check=True)
    after = os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system
