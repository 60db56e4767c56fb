"""Augmentation of whole batches of images, on any device, from a given generator."""

import typing
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional

from gradsnap.errors import InputError


class Augmentation(typing.Protocol):
    """Images (n, c, h, w), uint8 or floating, to floating images of the same shape."""

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Draws from a CPU generator, so that all devices get the same images."""
        ...


@dataclass(frozen=True)
class ProjectiveJitter:
    """Small projective transformations, as the paper trains with.

    With the pixels' coordinates in −1 to 1, an image point (x, y) takes its value from
    the point (x', y'), where (x', y', 1) ~ H (x, y, 1) and H is the identity plus
    uniform noise: rotation, scale, shear, shift and perspective at once. What comes
    from outside repeats the border.

    Args:
        strength: largest change of an entry of H, 0 to 0.3; perspective, which moves
            the corners most, gets half of it.
    """

    strength: float = 0.05

    def __post_init__(self) -> None:
        if not 0 <= self.strength <= 0.3:
            raise InputError(f"strength must lie in [0, 0.3], got {self.strength}")

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Warped images (n, c, h, w)."""
        images = as_floating(images)
        noise = 2 * torch.rand(len(images), 3, 3, generator=generator) - 1
        scales = torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [0.5, 0.5, 0.0]])
        matrices = torch.eye(3) + self.strength * scales * noise  # (n, 3, 3)
        return warp(images, matrices.to(images))


@dataclass(frozen=True)
class RandomFlip:
    """Mirrors each image left to right, or not.

    Args:
        probability: of being mirrored.
    """

    probability: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise InputError(f"probability must lie in [0, 1], got {self.probability}")

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Images (n, c, h, w), some mirrored."""
        images = as_floating(images)
        mirrored = torch.rand(len(images), generator=generator) < self.probability
        chosen = mirrored.to(images.device)[:, None, None, None]
        return images.flip(3).where(chosen, images)


@dataclass(frozen=True)
class RandomCrop:
    """Shifts each image by whole pixels; what comes in from outside is zero.

    Args:
        padding: largest shift, in pixels, in each direction.
    """

    padding: int = 4

    def __post_init__(self) -> None:
        if self.padding < 0:
            raise InputError(f"padding must be zero or more, got {self.padding}")

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Crops (n, c, h, w) of the padded images."""
        images = as_floating(images)
        count, channels, height, width = images.shape
        padded = functional.pad(images, [self.padding] * 4)
        corners = torch.randint(
            2 * self.padding + 1, (2, count, 1), generator=generator
        )
        rows = (corners[0] + torch.arange(height)).to(images.device)  # (n, h)
        columns = (corners[1] + torch.arange(width)).to(images.device)  # (n, w)
        each = torch.arange(count, device=images.device)[:, None, None]
        crops = padded.movedim(1, 3)[each, rows[:, :, None], columns[:, None]]
        return crops.movedim(3, 1).reshape(count, channels, height, width)


@dataclass(frozen=True)
class Augmentations:
    """Several augmentations, one after the other.

    Example:
        >>> augment = Augmentations((RandomCrop(2), RandomFlip(), ProjectiveJitter()))
        >>> images = torch.zeros(4, 3, 8, 8, dtype=torch.uint8)
        >>> augment(images, torch.Generator().manual_seed(0)).shape
        torch.Size([4, 3, 8, 8])
    """

    steps: Sequence[Augmentation]

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Images (n, c, h, w) after all steps."""
        images = as_floating(images)
        for step in self.steps:
            images = step(images, generator)
        return images


def as_floating(images: Tensor) -> Tensor:
    """Images (n, c, h, w) as floating numbers of the same scale: 255 stays 255."""
    if images.ndim != 4:
        raise InputError(f"expected images (n, c, h, w), got {tuple(images.shape)}")
    return images if images.is_floating_point() else images.float()


def warp(images: Tensor, matrices: Tensor) -> Tensor:
    """Images (n, c, h, w) whose point (x, y) has the value at H (x, y, 1).

    Args:
        images: floating, (n, c, h, w).
        matrices: H of each image, in coordinates of −1 to 1, (n, 3, 3).
    """
    height, width = images.shape[2:]
    y = (2 * torch.arange(height).to(images) + 1) / height - 1  # (h,)
    x = (2 * torch.arange(width).to(images) + 1) / width - 1  # (w,)
    points = torch.stack(
        [x.expand(height, -1), y[:, None].expand(-1, width), x.new_ones(height, width)],
        dim=2,
    )  # (h, w, 3)
    mapped = points.view(1, -1, 3) @ matrices.mT  # (n, h · w, 3)
    grid = (mapped[..., :2] / mapped[..., 2:]).view(-1, height, width, 2)
    return functional.grid_sample(
        images, grid, padding_mode="border", align_corners=False
    )
