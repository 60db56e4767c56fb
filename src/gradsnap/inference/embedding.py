"""Embeddings of many items: in batches, in evaluation mode, without gradients."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from gradsnap.data import Dataset, OrderedBatches, StoredItems, loader
from gradsnap.errors import InputError
from gradsnap.progress import track
from gradsnap.strings import PackedStrings


def embed(
    network: nn.Module,
    items: Dataset | Tensor,
    indices: Tensor | None = None,
    *,
    batch_size: int = 256,
    workers: int = 0,
) -> Tensor:
    """Embeddings (n, dim) of a data set's items, or of a tensor of items.

    A gradsnap network's own ``preprocess`` comes first, so that images are given as
    they are loaded. The network is left in the mode it was in.

    Args:
        network: any module from a batch of items to embeddings (b, dim).
        items: a data set, or a tensor (n, …) of images or vectors.
        indices: which items, int64 (n,); None is all of them, in order.
        batch_size: items at once.
        workers: processes that read and decode.

    Returns:
        On the CPU, in float32.

    Example:
        >>> from gradsnap.networks import build_network
        >>> network = build_network("small", dim=16, side=8)
        >>> tuple(embed(network, torch.zeros(5, 1, 8, 8)).shape)
        (5, 16)
    """
    dataset = items if isinstance(items, Dataset) else _as_dataset(items)
    indices = torch.arange(len(dataset)) if indices is None else indices
    if len(indices) == 0:
        raise InputError("there is nothing to embed: no items were given")
    preprocess = getattr(network, "preprocess", nn.Identity())
    device = _device(network)
    rows: Tensor | None = None
    done = 0
    batches = loader(dataset, OrderedBatches(indices, batch_size), workers)
    with torch.no_grad(), evaluating(network):
        for batch, _ in track(batches, f"embedding {dataset.name}"):
            part = network(preprocess(batch.to(device))).float()
            if rows is None:
                rows = torch.empty(len(indices), *part.shape[1:])
            rows[done : done + len(part)] = part
            done += len(part)
    if rows is None:
        raise InputError(f"{dataset.name} gave no batches")
    return rows


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside, the modes of all parts as they were afterwards."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def _as_dataset(items: Tensor) -> Dataset:
    names = PackedStrings.of(str(place) for place in range(len(items)))
    return Dataset("tensor", StoredItems(items), names)


def _device(network: nn.Module) -> torch.device:
    tensor = next(network.parameters(), next(network.buffers(), None))
    return torch.device("cpu") if tensor is None else tensor.device
