"""Embedding images on a CPU: EfficientNet-Lite0 through OpenVINO and in eager torch."""

from collections.abc import Iterator

import torch

from benchmarks.report import Bar, Row, faster, noted, skipped
from benchmarks.timing import best_interleaved
from benchmarks.vectors import Setting
from gradsnap.errors import InputError
from gradsnap.inference.engines import OpenVinoNetwork
from gradsnap.networks import build_network

SIDE = 128
IMAGES = 64


def run(setting: Setting) -> Iterator[Row]:
    """One batch of images as a data set would hand them over, preprocessed."""
    try:
        network = build_network("efficientnet-lite0", dim=64, side=SIDE).eval()
        pixels = torch.rand(IMAGES, 3, SIDE, SIDE, generator=torch.Generator())
        images = network.preprocess(pixels)
        fast = OpenVinoNetwork(network, images[:2])
    except InputError as error:
        yield skipped("OpenVINO", error)
        return
    with torch.no_grad():
        apart = float((network(images) - fast(images)).abs().max())
        calls = {"fast": lambda: fast(images), "eager": lambda: network(images)}
        times = best_interleaved(calls, setting.repeats(5))
    ours, theirs = times["fast"], times["eager"]
    row = faster(f"{IMAGES} images of {SIDE} px", ours, theirs, Bar("≥", 4.0))
    rates = f"{IMAGES / ours:.0f} against {IMAGES / theirs:.0f} images a second"
    yield noted(row, rates)
    yield Row("largest difference of outputs", ours=apart, bar=Bar("≤", 1e-4))
