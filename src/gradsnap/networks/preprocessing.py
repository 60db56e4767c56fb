"""From images as they are loaded to what a network takes."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradsnap.errors import InputError

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class Preprocess(nn.Module):
    """Resizes images to a square and normalizes their channels.

    Not part of the network's forward, so that augmentation can stand between:
    ``network(network.preprocess(images))``.

    Args:
        mean: of each channel, for pixels from 0 to 1.
        std: of each channel.
        side: pixels of a side; images of another size are resized without cropping.

    Example:
        >>> preprocess = Preprocess((0.5,), (0.25,), side=4)
        >>> preprocess(torch.full((1, 1, 8, 8), 255, dtype=torch.uint8)).unique()
        tensor([2.])
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self, mean: tuple[float, ...], std: tuple[float, ...], side: int
    ) -> None:
        super().__init__()
        if side < 1 or len(mean) != len(std) or not all(one > 0 for one in std):
            raise InputError(
                f"expected a side of at least 1 and a positive std for each mean, "
                f"got side={side}, mean={mean}, std={std}"
            )
        self.side = side
        shape = (len(mean), 1, 1)
        self.register_buffer("mean", torch.tensor(mean).view(shape), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(shape), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Images (n, channels, side, side) of (n, channels, height, width).

        Args:
            images: bytes from 0 to 255, or floats from 0 to 1.
        """
        channels = len(self.mean)
        if images.ndim != 4 or images.shape[1] != channels:
            raise InputError(
                f"expected images of shape (n, {channels}, height, width), "
                f"got {tuple(images.shape)}"
            )
        if not images.is_floating_point():
            images = images.float() / 255
        size = (self.side, self.side)
        if images.shape[2:] != size:
            images = functional.interpolate(
                images, size, mode="bilinear", antialias=True
            )
        return (images - self.mean) / self.std

    def extra_repr(self) -> str:
        """Shown in ``print(network)``."""
        mean, std = self.mean.flatten().tolist(), self.std.flatten().tolist()
        return f"side={self.side}, mean={mean}, std={std}"


def check_side(side: int, least: int, network: str) -> None:
    """Refuses a side smaller than the layers of a network can take."""
    if side < least:
        raise InputError(f"{network} takes a side of at least {least}, got {side}")


def check_images(images: Tensor, least: int, network: str) -> None:
    """Refuses what are no images (n, channels, height, width) large enough."""
    if images.ndim != 4 or min(images.shape[2:]) < least:
        raise InputError(
            f"{network} takes images (n, channels, height, width) of at least {least} "
            f"pixels a side, got {tuple(images.shape)}"
        )
