"""Any module as a network: yours, of an import path, of timm or of torchvision."""

import importlib
import re
from collections.abc import Sequence
from types import ModuleType

import torch
from torch import Tensor, nn

from gradsnap.errors import InputError
from gradsnap.networks.embedding_layers import with_feat
from gradsnap.networks.network import Network, embedding_layer, seeded
from gradsnap.networks.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocess
from gradsnap.registry import as_tuple, options_of

LIBRARIES = ("timm", "torchvision")


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
        return _blocks(self.module)


def import_network(
    path: str,
    /,
    seed: int = 0,
    *,
    dim: int = 192,
    side: int = 224,
    mean: Sequence[float] = IMAGENET_MEAN,
    std: Sequence[float] = IMAGENET_STD,
    feat: str = "linear",
    **options: object,
) -> Network:
    """What ``package.module:function`` returns, as a network.

    This imports the module and calls the function: give it only paths that the user
    named, never one that was read from a file.

    Args:
        path: of a function or class that gives a module of vectors (n, anything).
        seed: of the fresh weights; the global random state is left as it was.
        dim: length of the embedding.
        side: pixels of a side of its images.
        mean: of each channel of its images; as many as they have channels.
        std: of each channel.
        feat: the last layer, a key of ``EMBEDDING_LAYERS``.
        options: passed on to the function, lists as tuples.
    """
    module_name, _, function_name = path.partition(":")
    function = getattr(_import(module_name, path), function_name, None)
    if not callable(function):
        raise InputError(
            f"cannot build the network {path!r}: {module_name} has no function "
            f"{function_name!r}"
        )
    with seeded(seed):
        try:
            built = function(**{key: as_tuple(one) for key, one in options.items()})
        except TypeError as error:
            raise InputError(f"cannot build the network {path!r}: {error}") from error
        if not isinstance(built, nn.Module):
            raise InputError(
                f"{path!r} must return an nn.Module, got {type(built).__name__}"
            )
        own = Embedder(built, dim, Preprocess(tuple(mean), tuple(std), side))
        return with_feat(own, feat)


def library_network(
    name: str, dim: int = 192, side: int = 224, weights: str | None = "DEFAULT"
) -> Embedder:
    """``timm/resnet18`` or ``torchvision/resnet18``, without its classifier.

    Args:
        name: the library and the library's own name of the network.
        dim: length of the embedding.
        side: pixels of a side of its images.
        weights: those the library offers, or ``None`` for a fresh network, for which
            nothing is downloaded.
    """
    library, _, own_name = name.partition("/")
    # Names such as hf-hub:owner/model make timm fetch what they name.
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", own_name):
        raise InputError(
            f"cannot build the network {name!r}: the name in {library} must be of "
            f"letters, digits, '.', '_' and '-', got {own_name!r}"
        )
    is_timm = library == "timm"
    imported = _import("timm" if is_timm else "torchvision.models", name)
    build = _from_timm if is_timm else _from_torchvision
    try:
        module = build(imported, own_name, weights)
    except (ValueError, KeyError, RuntimeError) as error:
        raise InputError(f"cannot build the network {name!r}: {error}") from error
    return Embedder(module, dim, Preprocess(IMAGENET_MEAN, IMAGENET_STD, side))


def _from_timm(timm: ModuleType, name: str, weights: str | None) -> nn.Module:
    module: nn.Module = timm.create_model(
        name, pretrained=weights is not None, num_classes=0
    )
    return module


def _from_torchvision(models: ModuleType, name: str, weights: str | None) -> nn.Module:
    builder = models.get_model_builder(name)
    # Such a network downloads weights for its backbone even if it shall have none.
    if "weights_backbone" in options_of(builder):
        raise ValueError("it finds boxes or masks and gives no vectors of images")
    return without_classifier(builder(weights=weights))


def without_classifier(module: nn.Module) -> nn.Module:
    """The module with its last linear layer replaced by the identity."""
    linear = [
        name for name, part in module.named_modules() if isinstance(part, nn.Linear)
    ]
    if linear:
        parent, _, last = linear[-1].rpartition(".")
        setattr(module.get_submodule(parent), last, nn.Identity())
    return module


def _import(module: str, wanted: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except (ImportError, RuntimeError, OSError, ValueError) as error:
        first_line = str(error).partition("\n")[0]
        raise InputError(
            f"the network {wanted!r} needs the module {module!r}, which does not "
            f"import here ({first_line}); install it, or choose a network of gradsnap"
        ) from error


def _blocks(module: nn.Module) -> list[nn.Module]:
    parts: list[nn.Module] = []
    children = [one for one in module.children() if any(True for _ in one.parameters())]
    for child in children:
        opens = len(children) == 1 or type(child) in (nn.Sequential, nn.ModuleList)
        inner = _blocks(child) if opens else []
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
