"""Pictures made square: by Pillow, by kernels, and by a loop over the formula."""

import sys

import numpy as np
import pytest
from PIL import Image

from gradsnap.compiled import installed
from gradsnap.data import resizing

SHAPES = [
    (300, 225, 224),
    (225, 300, 224),  # columns first
    (224, 224, 224),
    (224, 50, 224),
    (50, 224, 224),
    (40, 30, 96),
    (96, 97, 96),
    (20, 13, 7),
    (13, 20, 7),
    (14, 21, 7),  # just not columns first
    (1, 1, 5),
    (1, 90, 3),
    (90, 1, 3),
]


def picture(width: int, height: int, mode: str = "RGB") -> Image.Image:
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    generator = np.random.default_rng(width * 1000 + height)
    return Image.fromarray(generator.integers(0, 256, shape, dtype=np.uint8), mode)


@pytest.fixture(params=["pillow", "kernels"])
def way(request, monkeypatch):
    if request.param == "pillow":
        monkeypatch.delitem(sys.modules, resizing.KERNELS, raising=False)
    elif not installed():
        pytest.skip("numba is not installed")
    else:
        resizing.prepare(resizing.MANY)
    return request.param


def resized_ref(pixels: np.ndarray, side: int, axis: int) -> np.ndarray:
    """One axis of pixels (h, w, 3), a pixel at a time."""
    lines = np.moveaxis(pixels, axis, 0).astype(float)
    scale = len(lines) / side
    reach, out = max(scale, 1.0), []
    for place in range(side):
        centre = (place + 0.5) * scale
        weights = [max(1 - abs(i + 0.5 - centre) / reach, 0) for i in range(len(lines))]
        out.append(np.tensordot(weights, lines, 1) / sum(weights))
    return np.moveaxis(np.array(out), 0, axis)


@pytest.mark.parametrize(("width", "height", "side"), SHAPES)
def test_is_what_pillow_gives(way, width, height, side):
    image = picture(width, height)
    expected = np.array(image.resize((side, side), Image.Resampling.BILINEAR))
    found = resizing.resized(image, side)
    assert found.shape == (side, side, 3)
    assert found.flags.writeable
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("width", "height", "side"), SHAPES)
def test_is_the_formula_to_rounding(way, width, height, side):
    pixels = np.asarray(picture(width, height))
    expected = resized_ref(resized_ref(pixels, side, 0), side, 1)
    found = resizing.resized(picture(width, height), side).astype(float)
    # half a grey level for each of the two axes
    assert np.abs(found - expected).max() <= 1.001


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_one_colour_stays(way, mode):
    image = Image.new(mode, (37, 90), "white")
    assert (resizing.resized(image, 16) == 255).all()


def test_grey_has_no_third_axis(way):
    assert resizing.resized(picture(30, 20, "L"), 8).shape == (8, 8)


def test_few_pictures_do_not_ask_for_kernels(monkeypatch):
    monkeypatch.delitem(sys.modules, resizing.KERNELS, raising=False)
    resizing.prepare(resizing.MANY - 1)
    assert resizing.KERNELS not in sys.modules
