"""Augmentation: against loops over pixels, and laws that hold for every kind."""

import pytest
import torch
from torch import Tensor

import gradsnap as gs
from gradsnap.data import (
    Augmentation,
    Augmentations,
    ProjectiveJitter,
    RandomCrop,
    RandomFlip,
)
from gradsnap.data.augment import warp

KINDS: dict[str, Augmentation] = {
    "jitter": ProjectiveJitter(0.1),
    "flip": RandomFlip(),
    "crop": RandomCrop(2),
    "all": Augmentations((RandomCrop(2), RandomFlip(), ProjectiveJitter(0.1))),
}


@pytest.fixture(params=list(KINDS))
def augment(request) -> Augmentation:
    return KINDS[request.param]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int = 6, height: int = 9, width: int = 7) -> Tensor:
    shape = (count, 3, height, width)
    return torch.randint(256, shape, dtype=torch.uint8, generator=generator(1))


def test_shape_stays_and_bytes_become_floating_of_the_same_scale(augment) -> None:
    result = augment(images(), generator())
    assert result.shape == images().shape
    assert result.dtype == torch.float32
    assert 0 <= result.min() < result.max() <= 255.001
    torch.testing.assert_close(augment(images().float(), generator()), result)
    assert augment(images().double(), generator()).dtype == torch.float64


def test_the_generator_decides_and_the_global_one_does_not(augment) -> None:
    before = torch.get_rng_state()
    first = augment(images(), generator())
    assert torch.equal(first, augment(images(), generator()))
    assert not torch.equal(first, augment(images(), generator(1)))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_input_is_untouched(augment) -> None:
    ours = images().float()
    augment(ours, generator())
    assert torch.equal(ours, images().float())


def test_constant_images_stay_constant_inside(augment) -> None:
    result = augment(torch.full((4, 1, 16, 16), 7.0), generator())
    torch.testing.assert_close(result[:, :, 5:-5, 5:-5], torch.full((4, 1, 6, 6), 7.0))


def test_all_work_is_done_on_the_device_of_the_images(augment) -> None:
    assert augment(images().to("meta"), generator()).device.type == "meta"


def test_images_of_another_shape_are_refused(augment) -> None:
    with pytest.raises(gs.InputError, match=r"\(n, c, h, w\), got \(9, 7\)"):
        augment(images()[0, 0], generator())


def test_nothing_changes_at_zero() -> None:
    ours = images().float()
    for augment in (ProjectiveJitter(0.0), RandomFlip(0.0), RandomCrop(0)):
        torch.testing.assert_close(
            augment(images(), generator()), ours, atol=1e-3, rtol=0
        )
    assert torch.equal(RandomFlip(1.0)(images(), generator()), ours.flip(3))


def test_a_crop_is_a_shift_of_the_padded_image() -> None:
    ours = images(20).float()
    padded = torch.nn.functional.pad(ours, [2] * 4)
    for whole, crop in zip(padded, RandomCrop(2)(ours, generator()), strict=True):
        shifts = [whole[:, y : y + 9, x : x + 7] for y in range(5) for x in range(5)]
        assert any(torch.equal(crop, shift) for shift in shifts)


def loop_warped(image: Tensor, matrix: Tensor) -> Tensor:
    """A warp as the formula says it, pixel by pixel, in bilinear interpolation."""
    _, height, width = image.shape
    result = torch.zeros_like(image)
    for row in range(height):
        for column in range(width):
            point = torch.tensor(
                [(2 * column + 1) / width - 1, (2 * row + 1) / height - 1, 1.0],
                dtype=torch.float64,
            )
            x, y, scale = (matrix @ point).tolist()
            across = min(max((x / scale + 1) * width / 2 - 0.5, 0), width - 1)
            down = min(max((y / scale + 1) * height / 2 - 0.5, 0), height - 1)
            left, top = min(int(across), width - 2), min(int(down), height - 2)
            a, b = across - left, down - top
            result[:, row, column] = (
                (1 - a) * (1 - b) * image[:, top, left]
                + a * (1 - b) * image[:, top, left + 1]
                + (1 - a) * b * image[:, top + 1, left]
                + a * b * image[:, top + 1, left + 1]
            )
    return result


def test_a_warp_equals_the_loop() -> None:
    ours = images(3).double()
    noise = torch.rand(3, 3, 3, generator=generator(2), dtype=torch.float64) - 0.5
    matrices = torch.eye(3, dtype=torch.float64) + 0.4 * noise
    expected = torch.stack(
        [loop_warped(*pair) for pair in zip(ours, matrices, strict=True)]
    )
    torch.testing.assert_close(warp(ours, matrices), expected)


def test_values_that_cannot_be_are_refused() -> None:
    with pytest.raises(gs.InputError, match=r"strength must lie in \[0, 0.3\], got 1"):
        ProjectiveJitter(1)
    with pytest.raises(gs.InputError, match=r"probability .* got 2"):
        RandomFlip(2)
    with pytest.raises(gs.InputError, match=r"padding .* got -1"):
        RandomCrop(-1)
