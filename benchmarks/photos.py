"""Photos to an index: EfficientNet-Lite0 at 224 px, beside the network's own rate.

Seconds of one core, all threads together: on that core alone the clock says the same.
The network's own rate is OpenVINO's on images that are decoded and prepared already.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from benchmarks.report import Bar, Row, faster, noted, skipped
from benchmarks.vectors import Setting
from gradsnap import ProductQuantizer
from gradsnap.data import Dataset, open_dataset
from gradsnap.errors import InputError
from gradsnap.index import ExhaustiveIndex
from gradsnap.inference.embedding import embed
from gradsnap.inference.engines import Engine, OpenVinoNetwork, engine_for
from gradsnap.memory import keep_freed_memory
from gradsnap.networks import Network, build_network

SIDE, DIM, AT_ONCE, ROUNDS = 224, 64, 32, 3
BAR = Bar("≥", 0.9)


@dataclass(frozen=True)
class Photos:
    """JPEGs of one size, made up on the spot."""

    what: str
    width: int
    height: int
    count: int


KINDS = (Photos("300 px", 300, 225, 320), Photos("12 megapixels", 4000, 3000, 16))


def run(setting: Setting) -> Iterator[Row]:
    """Both sizes; quantizer and index are part of ours."""
    network = build_network("efficientnet-lite0", dim=DIM, side=SIDE).eval()
    quantizer = ProductQuantizer(DIM, 8, 256)
    quantizer.fit(torch.randn(4096, DIM, generator=torch.Generator().manual_seed(0)))
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            size = max(8, kind.count // 16) if setting.quick else kind.count
            _write(kind, size, Path(folder))
            photos = open_dataset(folder, side=SIDE, channels=3)
            try:
                yield from _measured(kind.what, network, quantizer, photos, setting)
            except InputError as error:
                yield skipped(f"photos of {kind.what}", error)
    kept, given = _eager("keep"), _eager("give back")
    row = faster("eager torch, freed memory kept / given back", sum(kept), sum(given))
    kernel = f"{1e3 * kept[1]:.0f} and {1e3 * given[1]:.0f} ms of it in the kernel"
    yield noted(row, f"an image of a batch of {AT_ONCE}, {kernel}")


def _measured(
    what: str,
    network: Network,
    quantizer: ProductQuantizer,
    photos: Dataset,
    setting: Setting,
) -> Iterator[Row]:
    everything = torch.arange(len(photos))
    items = photos.items.batch(everything)
    with torch.no_grad():
        ready = network.preprocess(items).contiguous()
        bare = OpenVinoNetwork(network, ready[:4])
        engine = engine_for(network, len(photos), photos.item_shape, "openvino")
        engine(items[:AT_ONCE])
        calls = {
            "index": lambda: _indexed(network, quantizer, photos, engine),
            "network": lambda: [bare(part) for part in ready.split(AT_ONCE)],
            "decoding": lambda: photos.items.batch(everything),
        }
        best = _best_of_one_core(calls, setting.repeats(ROUNDS))
    rates = {name: len(photos) / seconds for name, seconds in best.items()}
    note = ", ".join(f"{name} {rate:.1f}" for name, rate in rates.items())
    ratio = rates["index"] / rates["network"]
    row = Row(
        f"photos of {what} to an index, over the network alone",
        rates["index"],
        rates["network"],
        "images a second",
        ratio,
        BAR,
    )
    yield noted(row, note)
    both = len(photos) / (best["network"] + best["decoding"])
    yield Row(
        f"photos of {what}, over decoding and network, each alone",
        rates["index"],
        both,
        "images a second",
        rates["index"] / both,
        BAR,
    )


def _indexed(
    network: Network, quantizer: ProductQuantizer, photos: Dataset, engine: Engine
) -> ExhaustiveIndex:
    rows = embed(network, photos, engine=engine)
    names = [photos.names[place] for place in range(len(photos))]
    made = ExhaustiveIndex(quantizer)
    made.add(rows, names)
    return made


def _eager(memory: str) -> tuple[float, float]:
    """Seconds an image takes in eager torch, outside the kernel and in it."""
    command = [sys.executable, "-m", "benchmarks.photos", memory]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    user, system = json.loads(done.stdout)
    return user, system


@torch.no_grad()
def eager(memory: str) -> tuple[float, float]:
    """As ``_eager``, in this process, which does nothing else."""
    if memory == "keep":
        keep_freed_memory()
    torch.set_num_threads(1)
    network = build_network("efficientnet-lite0", dim=DIM, side=SIDE).eval()
    images = torch.rand(AT_ONCE, 3, SIDE, SIDE, generator=torch.Generator())
    network(images)
    before = os.times()
    network(images)
    after = os.times()
    user, system = after.user - before.user, after.system - before.system
    return user / AT_ONCE, system / AT_ONCE


def _best_of_one_core(
    calls: Mapping[str, Callable[[], object]], repeats: int
) -> dict[str, float]:
    """The fewest seconds of a core that each call took, after one to warm up.

    Not of the clock: what else runs on the machine does not count, and a second core
    does not help.
    """
    best = dict.fromkeys(calls, float("inf"))
    for turn in range(repeats + 1):
        for name, call in calls.items():
            started = time.process_time()
            call()
            if turn > 0:
                best[name] = min(best[name], time.process_time() - started)
    return best


def _write(kind: Photos, count: int, folder: Path) -> None:
    """Blurred colours with the noise of a camera, as JPEGs of quality 90."""
    generator = torch.Generator().manual_seed(0)
    size = (kind.height, kind.width)
    for place in range(count):
        coarse = torch.rand(1, 3, 30, 40, generator=generator)
        smooth = functional.interpolate(coarse, size, mode="bicubic")[0]
        pixels = 255 * smooth + 5 * torch.randn(size, generator=generator)
        _image(pixels).save(folder / f"{place:04}.jpg", quality=90)


def _image(pixels: Tensor) -> Image.Image:
    """An image of pixels (3, height, width)."""
    bytes_ = pixels.clamp(0, 255).to(torch.uint8).permute(1, 2, 0).contiguous()
    return Image.fromarray(bytes_.numpy())


if __name__ == "__main__":
    print(json.dumps(eager(sys.argv[1])))
