"""The one way from items to embeddings: batches, evaluation mode, no gradients."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from gradsnap.arrays import Given, as_tensor
from gradsnap.data import Dataset, OrderedBatches, ReadAhead, StoredItems, loader
from gradsnap.errors import InputError
from gradsnap.inference.engines import Engine, device_of, engine_for
from gradsnap.progress import track
from gradsnap.strings import PackedStrings

BLOCK = 16_384
"""Rows of a stream that are held at once."""

AT_ONCE = 256
"""Items of a batch, if they are not large images on a CPU."""

VALUES_AT_ONCE = 5_000_000
"""Pixels, in all channels, of a batch on a CPU: 33 photos of 224 pixels. The network
starts sooner than on more, and its layers take less memory."""

SAMPLE_SEED = 0

Items = Dataset | DataLoader[Any] | Given
"""What can be embedded: a data set, a DataLoader, a tensor or a NumPy array."""


def embed(
    network: nn.Module,
    items: Items,
    indices: Given | None = None,
    *,
    batch_size: int | None = None,
    workers: int = 0,
    engine: str | Engine = "auto",
) -> Tensor:
    """Embeddings (n, dim) of the items of a data set, a DataLoader or a tensor.

    A gradsnap network's own ``preprocess`` comes first, so that images are given as
    they are loaded. The network is left in the mode it was in.

    Args:
        network: any module from a batch of items to embeddings (b, dim).
        items: a data set, or a tensor or NumPy array (n, …) of images or vectors; or
            a torch DataLoader, whose batches are items, or begin with items, in the
            order it gives them.
        indices: which items, int64 (n,); None is all of them, in order. A DataLoader
            chooses by itself and takes none.
        batch_size: items at once; 256 if not given, fewer for large images on a CPU.
        workers: processes that read and decode; 0 is a thread of this one.
        engine: "torch", "openvino", "openvino-bf16" (nearly twice as fast and less
            exact), or "auto", which takes OpenVINO for images on a CPU where it is
            installed and there are enough of them; or an engine that was made before.

    Returns:
        On the CPU, in float32.

    Example:
        >>> from gradsnap.networks import build_network
        >>> network = build_network("small", dim=16, side=8)
        >>> tuple(embed(network, torch.zeros(5, 1, 8, 8)).shape)
        (5, 16)
    """
    if isinstance(items, DataLoader):
        return _embed_batches(network, items, indices, engine)
    dataset = items if isinstance(items, Dataset) else _as_dataset(as_tensor(items))
    every = torch.arange(len(dataset))
    indices = every if indices is None else as_tensor(indices)
    rows: Tensor | None = None
    done = 0
    for part in embedded_batches(
        network, dataset, indices, batch_size, workers, engine
    ):
        if rows is None:
            rows = torch.empty(len(indices), *part.shape[1:])
        rows[done : done + len(part)] = part
        done += len(part)
    if rows is None:
        raise InputError(f"{dataset.name} gave no batches")
    return rows


def embedded_batches(
    network: nn.Module,
    dataset: Dataset,
    indices: Tensor,
    batch_size: int | None,
    workers: int,
    engine: str | Engine,
) -> Iterator[Tensor]:
    """Embeddings of one batch after the other, float32, on the network's device.

    The next batches are read and decoded meanwhile.
    """
    if len(indices) == 0:
        raise InputError("there is nothing to embed: no items were given")
    size = _fitting_size(network, dataset) if batch_size is None else batch_size
    batches = loader(dataset, OrderedBatches(indices, size), workers)
    reading = batches if workers else ReadAhead(batches)
    with torch.no_grad(), evaluating(network):
        run = None
        for batch, _ in track(reading, f"embedding {dataset.name}"):
            if run is None:
                run = engine_for(network, len(indices), batch.shape[1:], engine)
            yield run(batch)


def _embed_batches(
    network: nn.Module,
    batches: DataLoader[Any],
    indices: Given | None,
    engine: str | Engine,
) -> Tensor:
    """Embeddings (n, dim) of the batches of a loader, in its order."""
    if indices is not None:
        raise InputError("a DataLoader chooses its items: give it no indices as well")
    run, parts = None, []
    with torch.no_grad(), evaluating(network):
        for given in track(batches, "embedding"):
            items = as_tensor(given[0] if isinstance(given, list | tuple) else given)
            if not isinstance(items, Tensor):
                raise InputError(
                    "a batch must be a tensor, or a tuple that begins with one; the "
                    f"DataLoader gave {type(items).__name__}"
                )
            if run is None:
                count = len(items) * len(batches)
                run = engine_for(network, count, items.shape[1:], engine)
            parts.append(run(items).cpu())
    if not parts:
        raise InputError("there is nothing to embed: the DataLoader gave no batches")
    return torch.cat(parts)


def _fitting_size(network: nn.Module, dataset: Dataset) -> int:
    if not dataset.holds_images or device_of(network).type != "cpu":
        return AT_ONCE
    values = torch.Size(dataset.item_shape).numel()
    return max(1, min(AT_ONCE, VALUES_AT_ONCE // values))


@dataclass(eq=False)
class EmbeddingStream:
    """Blocks of embeddings (b, dim) of all items of a data set, in order.

    Memory does not grow with the data, and no item is decoded twice: what ``sample``
    has embedded is kept and used again.

    Args:
        dataset: images or vectors.
        network: makes embeddings; ``nn.Identity()`` takes vectors as they are.
        workers: processes that read and decode.
    """

    dataset: Dataset
    network: nn.Module
    workers: int = 0
    _known: tuple[Tensor, Tensor] | None = field(default=None, init=False)
    """Ascending indices (m,) of the sample, and its embeddings (m, dim)."""
    _engine: Engine | None = field(default=None, init=False)
    """Made once for all items."""

    def __len__(self) -> int:
        return len(self.dataset)

    def blocks(self, title: str, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Indices (b,) and embeddings (b, dim) of one block after the other.

        Args:
            title: of the progress bar.
            start: the first item; those before are left out.
        """
        count = len(self.dataset)
        starts = range(start, count, BLOCK)
        # A block of images takes minutes: the bar is then that of its batches.
        for first in starts if self.dataset.holds_images else track(starts, title):
            block = torch.arange(first, min(first + BLOCK, count))
            yield block, self._embed_new(block)

    def sample(self, most: int) -> tuple[Tensor, Tensor]:
        """Indices (m,) and embeddings (m, dim) of a seeded sample of the items.

        Drawn with repeats, which are dropped: no list of all items is ever held.
        """
        count = len(self.dataset)
        if self._known is not None and len(self._known[0]) >= min(most, count):
            return self._known
        if count <= most:
            chosen = torch.arange(count)
        else:
            generator = torch.Generator().manual_seed(SAMPLE_SEED)
            chosen = torch.randint(count, (most,), generator=generator).unique()
        self._known = chosen, self._embed(chosen)
        return self._known

    def remember(self, indices: Tensor, rows: Tensor) -> None:
        """Takes embeddings (m, dim) of ascending indices (m,) that were made before."""
        self._known = indices, rows

    def _embed_new(self, block: Tensor) -> Tensor:
        """Embeddings of consecutive items (b,), those of the sample from memory."""
        if self._known is None:
            return self._embed(block)
        indices, rows = self._known
        first = torch.searchsorted(indices, block[0])
        last = torch.searchsorted(indices, block[-1], right=True)
        found = torch.empty(len(block), rows.shape[1])
        fresh = torch.ones(len(block), dtype=torch.bool)
        fresh[indices[first:last] - block[0]] = False
        found[~fresh] = rows[first:last]
        if fresh.any():
            found[fresh] = self._embed(block[fresh])
        return found

    def _embed(self, indices: Tensor) -> Tensor:
        if self._engine is None:
            count, shape = len(self.dataset), self.dataset.item_shape
            self._engine = engine_for(self.network, count, shape)
        return embed(
            self.network,
            self.dataset,
            indices,
            workers=self.workers,
            engine=self._engine,
        )


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


__all__ = ["EmbeddingStream", "Items", "embed"]
