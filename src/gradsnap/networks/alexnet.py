"""AlexNet as the paper uses it: conv1 to conv5, fc6, fc7, and the embedding layer."""

import itertools
import os

from torch import Tensor, nn

from gradsnap.errors import FileFormatError
from gradsnap.networks.network import (
    Network,
    embedding_layer,
    load_fitting,
    read_weights,
)
from gradsnap.networks.preprocessing import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Preprocess,
    check_images,
    check_side,
)

LEAST_SIDE = 64


class AlexNet(Network):
    """AlexNet with an inner product layer ``feat`` on fc7 (the paper's network).

    ``features`` and ``classifier`` are laid out and named as in torchvision, so that
    its checkpoints' tensors fit. Its blocks are conv1 to conv5, then each of the head.

    Args:
        dim: length of the embedding; 192 in the paper.
        head: sizes of the layers between conv5 and ``feat``: fc6 and fc7 in the paper;
            ``(512,)`` trains faster where no weights for those two are at hand.
        side: pixels of a side of preprocessed images, at least 64.
    """

    def __init__(
        self, dim: int = 192, head: tuple[int, ...] = (4096, 4096), side: int = 224
    ) -> None:
        super().__init__()
        check_side(side, LEAST_SIDE, "AlexNet")
        self.dim = dim
        self.preprocess = Preprocess(IMAGENET_MEAN, IMAGENET_STD, side)
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(64, 192, kernel_size=5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(192, 384, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        sizes = (256 * 6 * 6, *head)
        self.classifier = nn.Sequential()
        for before, after in zip(sizes, head, strict=False):
            self.classifier.extend(
                [nn.Dropout(), nn.Linear(before, after), nn.ReLU(inplace=True)]
            )
        self.feat = embedding_layer(sizes[-1], dim)

    def trunk(self, images: Tensor) -> Tensor:
        """The head's output of images (n, 3, height, width), from 64 pixels a side."""
        check_images(images, LEAST_SIDE, "AlexNet")
        maps = self.avgpool(self.features(images))  # (n, 256, 6, 6)
        output: Tensor = self.classifier(maps.flatten(1))
        return output

    def blocks(self) -> list[nn.Module]:
        """conv1 to conv5, each with what follows it, then the layers of the head."""
        starts = (0, 3, 6, 8, 10, 13)
        pairs = itertools.pairwise(starts)
        convolutions = [self.features[start:end] for start, end in pairs]
        thirds = range(0, len(self.classifier), 3)
        return [*convolutions, *(self.classifier[i : i + 3] for i in thirds)]

    def load_torchvision_weights(self, path: str | os.PathLike[str]) -> tuple[str, ...]:
        """Loads a checkpoint of torchvision's AlexNet: whole, or its convolutions only.

        Args:
            path: a ``.pth`` or ``.safetensors`` file, or the URL of a ``.pth``; read
                without running code.

        Returns:
            Names of the layers that stayed fresh: ``feat`` always, the head's where the
            file has none of the same size.
        """
        weights = read_weights(path)
        needed = [f"features.{name}" for name in self.features.state_dict()]
        own = self.state_dict()
        for name in needed:
            if name not in weights or weights[name].shape != own[name].shape:
                raise FileFormatError(
                    f"{path} holds no AlexNet of torchvision: expected {name} of shape "
                    f"{tuple(own[name].shape)} in it, found {', '.join(weights)[:80]}…"
                )
        self.fresh = load_fitting(self, weights)
        return self.fresh


def alexnet(
    dim: int = 192,
    head: tuple[int, ...] = (4096, 4096),
    side: int = 224,
    weights: str | os.PathLike[str] | None = None,
) -> AlexNet:
    """An ``AlexNet``, with the weights of a file or URL if one is named."""
    network = AlexNet(dim, head, side)
    if weights is not None:
        network.load_torchvision_weights(weights)
    return network
