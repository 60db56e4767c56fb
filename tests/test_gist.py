"""GIST: its laws, and a slow twin written with plain sums over pixels."""

import cmath
import math

import numpy as np
import pytest
import torch

from gradsnap.errors import InputError
from gradsnap.networks import Gist, gist
from tests.conftest import gaussian


def some_images(count: int = 3, side: int = 32, channels: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    size = (count, channels, side, side)
    return torch.randint(256, size, dtype=torch.uint8, generator=generator)


def test_shape_and_range() -> None:
    found = Gist()(some_images())
    assert found.shape == (3, 512)
    assert found.dtype == torch.float32
    assert (found > 0).all()
    assert Gist(orientations=(6, 4), grid=2)(some_images()).shape == (3, 40)
    assert Gist()(some_images(0)).shape == (0, 512)


def test_blocks_and_types_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    images = some_images(5)
    once = Gist()(images)
    monkeypatch.setattr(gist, "BLOCK_ENTRIES", 1)
    torch.testing.assert_close(Gist()(images), once)
    torch.testing.assert_close(Gist()(images.float() / 255), once, rtol=1e-3, atol=1e-4)


def test_contrast_and_brightness_change_nothing() -> None:
    images = some_images().float() / 255
    torch.testing.assert_close(
        Gist()(0.4 * images + 0.3), Gist()(images), rtol=1e-3, atol=1e-3
    )


def test_stripes_answer_to_their_orientation() -> None:
    place = torch.arange(32)
    stripes = (127 * (1 + (2 * math.pi * 0.3 * place).sin())).expand(1, 1, 32, 32)
    upright = Gist()(stripes).view(4, 8, 16).sum(dim=2)  # (scales, orientations)
    lying = Gist()(stripes.mT).view(4, 8, 16).sum(dim=2)
    assert upright[0].argmax() == 0
    assert lying[0].argmax() == 4


def test_a_flat_image_has_no_energy() -> None:
    assert Gist()(torch.full((1, 3, 32, 32), 90, dtype=torch.uint8)).max() < 1e-4


def test_filters_equal_their_formula() -> None:
    size, filters = 12, gist._transfer_functions((4, 2), 12)
    for at, (scale, count, turn) in enumerate(
        [(0, 4, 0), (0, 4, 1), (0, 4, 2), (0, 4, 3), (1, 2, 0), (1, 2, 1)]
    ):
        for row in range(size):
            for column in range(size):
                x = column if column < size // 2 else column - size
                y = row if row < size // 2 else row - size
                off = math.atan2(y, x) + math.pi * turn / count
                off = cmath.phase(cmath.exp(1j * off))
                ring = math.hypot(x, y) / size / (0.3 / 1.85**scale) - 1
                bandwidth = 16 * count**2 / 32**2
                value = math.exp(-3.5 * ring**2 - 2 * math.pi * bandwidth * off**2)
                if abs(abs(off) - math.pi) > 1e-6:  # both signs of π are one angle
                    assert filters[at, row, column] == pytest.approx(value, abs=1e-6)


def test_margins_mirror_the_edge() -> None:
    image = gaussian(1, 9).view(1, 3, 3)
    padded = gist._mirror(image, 5, 1)
    wanted = np.pad(image[0].numpy(), ((5, 6), (5, 6)), mode="symmetric")
    assert torch.equal(padded[0], torch.from_numpy(wanted))


def test_other_sizes_are_resized() -> None:
    assert Gist(side=16)(some_images(2, 40, channels=1)).shape == (2, 512)


def test_refusals() -> None:
    with pytest.raises(InputError, match="grid=4"):
        Gist(side=3)
    with pytest.raises(InputError, match="Gist takes images"):
        Gist()(torch.zeros(3, 32, 32))
