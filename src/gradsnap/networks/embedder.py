"""Any module as a network: its output is the trunk, a linear layer makes embeddings."""

import torch
from torch import Tensor, nn

from gradsnap.errors import InputError
from gradsnap.networks.base import Network, embedding_layer
from gradsnap.networks.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocess


class Embedder(Network):
    """A module that turns images into vectors, then a linear layer ``feat``.

    Args:
        module: its output of shape (n, anything) is the trunk's; it runs once on a
            blank image, to see how many.
        dim: length of the embedding.
        preprocess: what its images need; ImageNet's mean and deviation and 224 pixels
            if not given.

    Example:
        >>> module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1))
        >>> network = Embedder(module.append(nn.Flatten()), dim=8)
        >>> tuple(network(torch.zeros(2, 3, 32, 32)).shape)
        (2, 8)
    """

    def __init__(
        self, module: nn.Module, dim: int = 192, preprocess: Preprocess | None = None
    ) -> None:
        super().__init__()
        own = preprocess or Preprocess(IMAGENET_MEAN, IMAGENET_STD, side=224)
        self.dim = dim
        self.preprocess = own
        self.module = module
        self.feat = embedding_layer(_width(module, own), dim)

    def trunk(self, images: Tensor) -> Tensor:
        """The module's own output, (n, trunk_dim)."""
        output: Tensor = self.module(images)
        return output

    def blocks(self) -> list[nn.Module]:
        """The module's children that have parameters; containers are opened."""
        return _opened(self.module)


def _opened(module: nn.Module) -> list[nn.Module]:
    parts: list[nn.Module] = []
    children = [one for one in module.children() if any(True for _ in one.parameters())]
    for child in children:
        opens = len(children) == 1 or type(child) in (nn.Sequential, nn.ModuleList)
        inner = _opened(child) if opens else []
        parts += inner or [child]
    return parts


@torch.no_grad()
def _width(module: nn.Module, preprocess: Preprocess) -> int:
    shape = (1, len(preprocess.mean), preprocess.side, preprocess.side)
    parameter = next(module.parameters(), torch.empty(0))
    was_training, name = module.training, type(module).__name__
    try:
        output = module.eval()(torch.zeros(shape).to(parameter))
    except (RuntimeError, ValueError) as error:
        raise InputError(f"{name} takes no images {shape}: {error}") from error
    module.train(was_training)
    if not isinstance(output, Tensor) or output.ndim != 2:
        got = tuple(output.shape) if isinstance(output, Tensor) else type(output)
        raise InputError(
            f"{name} must give vectors (n, dim) of images, got {got} of {shape}"
        )
    return output.shape[1]
