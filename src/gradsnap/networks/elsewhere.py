"""Networks that live elsewhere: an import path, or a name of timm or torchvision."""

import importlib
from types import ModuleType

from torch import nn

from gradsnap.errors import InputError
from gradsnap.networks.embedder import Embedder
from gradsnap.networks.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocess

LIBRARIES = ("timm", "torchvision")


def from_import_path(
    path: str,
    dim: int = 192,
    side: int = 224,
    mean: tuple[float, ...] = IMAGENET_MEAN,
    std: tuple[float, ...] = IMAGENET_STD,
    **options: object,
) -> Embedder:
    """What ``package.module:function`` returns, as a network.

    Args:
        path: a function or class that gives a module of vectors (n, anything).
        dim: length of the embedding.
        side: pixels of a side of its images.
        mean: of each channel of its images; as many as they have channels.
        std: of each channel.
        options: passed on to the function.
    """
    module_name, _, function_name = path.partition(":")
    module = _imported(module_name, path)
    function = getattr(module, function_name, None)
    if not callable(function):
        raise InputError(
            f"cannot build the network {path!r}: {module_name} has no function "
            f"{function_name!r}"
        )
    try:
        built = function(**options)
    except TypeError as error:
        raise InputError(f"cannot build the network {path!r}: {error}") from error
    if not isinstance(built, nn.Module):
        raise InputError(
            f"{path!r} must return an nn.Module, got {type(built).__name__}"
        )
    return Embedder(built, dim, Preprocess(tuple(mean), tuple(std), side))


def from_library(
    name: str, dim: int = 192, side: int = 224, weights: str | None = "DEFAULT"
) -> Embedder:
    """``timm/resnet18`` or ``torchvision/resnet18``, without its classifier.

    Args:
        name: the library and the library's own name of the network.
        dim: length of the embedding.
        side: pixels of a side of its images.
        weights: those the library offers, or ``None`` for a fresh network.
    """
    library, _, own_name = name.partition("/")
    imported = _imported(library if library == "timm" else "torchvision.models", name)
    try:
        if library == "timm":
            pretrained = weights is not None
            built = imported.create_model(
                own_name, pretrained=pretrained, num_classes=0
            )
        else:
            built = without_classifier(imported.get_model(own_name, weights=weights))
    except (ValueError, KeyError, RuntimeError) as error:
        raise InputError(f"cannot build the network {name!r}: {error}") from error
    return Embedder(built, dim, Preprocess(IMAGENET_MEAN, IMAGENET_STD, side))


def without_classifier(module: nn.Module) -> nn.Module:
    """The module with its last linear layer replaced by the identity."""
    linear = [
        name for name, part in module.named_modules() if isinstance(part, nn.Linear)
    ]
    if linear:
        parent, _, last = linear[-1].rpartition(".")
        setattr(module.get_submodule(parent), last, nn.Identity())
    return module


def _imported(module: str, wanted: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except (ImportError, RuntimeError, OSError, ValueError) as error:
        first_line = str(error).partition("\n")[0]
        raise InputError(
            f"the network {wanted!r} needs the module {module!r}, which does not "
            f"import here ({first_line}); install it, or choose a network of gradsnap"
        ) from error
