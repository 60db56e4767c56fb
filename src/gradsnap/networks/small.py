"""A small convolutional network for small images."""

from torch import Tensor, nn

from gradsnap.errors import InputError
from gradsnap.networks.network import Network, embedding_layer
from gradsnap.networks.preprocessing import Preprocess, check_images, check_side

LEAST_SIDE = 8


class SmallConvNet(Network):
    """Five convolutions for images of 8 to 64 pixels: digits, MNIST, CIFAR.

    Args:
        dim: length of the embedding.
        channels: of the images: 1 for grey, 3 for colour.
        side: pixels of a side of preprocessed images, at least 8.
        width: channels of the first convolution; the others have twice and four times
            as many.

    Example:
        >>> import torch
        >>> network = SmallConvNet(dim=16, channels=1, side=8)
        >>> tuple(network(torch.zeros(5, 1, 8, 8)).shape)
        (5, 16)
    """

    def __init__(
        self, dim: int = 64, channels: int = 1, side: int = 28, width: int = 32
    ) -> None:
        super().__init__()
        if channels not in (1, 3):
            raise InputError(f"channels must be 1 or 3, got {channels}")
        check_side(side, LEAST_SIDE, "SmallConvNet")
        self.dim = dim
        self.preprocess = Preprocess((0.5,) * channels, (0.5,) * channels, side)
        self.features = nn.Sequential(
            nn.Sequential(_convolution(channels, width), nn.MaxPool2d(2)),
            _convolution(width, width),
            nn.Sequential(_convolution(width, 2 * width), nn.MaxPool2d(2)),
            _convolution(2 * width, 2 * width),
            _convolution(2 * width, 4 * width),
        )
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.feat = embedding_layer(4 * width * 4, dim)

    def trunk(self, images: Tensor) -> Tensor:
        """(n, 16 · width) of images (n, channels, height, width) from 8 pixels."""
        check_images(images, LEAST_SIDE, "SmallConvNet")
        output: Tensor = self.pool(self.features(images))
        return output

    def blocks(self) -> list[nn.Module]:
        """The five convolutions."""
        return list(self.features)


def _convolution(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(inplace=True),
    )
