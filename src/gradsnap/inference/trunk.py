"""The outputs of a frozen trunk, computed once and kept on disk."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from gradsnap.data import Dataset, OrderedBatches, StoredItems, loader
from gradsnap.errors import FileFormatError, InputError
from gradsnap.files import make_folder, replacing
from gradsnap.inference.embedding import evaluating
from gradsnap.inference.engines import OpenVinoNetwork
from gradsnap.networks import Network
from gradsnap.progress import track
from gradsnap.training.processes import Processes

READ_AT_ONCE = 128


def with_trunk_outputs(
    dataset: Dataset,
    network: Network,
    folder: Path,
    processes: Processes,
    workers: int = 0,
    engine: str = "torch",
) -> Dataset:
    """The data set with each item replaced by the trunk's output (trunk_dim,).

    The outputs lie in one file, named after the items and the weights, and are mapped
    into memory: another run on the same trunk finds them.

    Args:
        dataset: images or vectors.
        network: its trunk does not change any more.
        folder: where the file lies.
        processes: the first writes, the others wait.
        workers: processes that read and decode.
        engine: a key of ``ENGINES``.
    """
    path = folder / f"trunk-{fingerprint(dataset, network)}.npy"
    if processes.first and not path.is_file():
        make_folder(folder)
        _write(dataset, ENGINES[engine](network), path, workers)
    processes.wait()
    try:
        values = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path} is damaged: {error}; remove it") from error
    return Dataset(
        name=dataset.name,
        items=StoredItems(torch.from_numpy(values)),
        names=dataset.names,
        labels=dataset.labels,
        classes=dataset.classes,
        held_out=dataset.held_out,
        skipped=dataset.skipped,
    )


def fingerprint(dataset: Dataset, network: Network) -> str:
    """16 digits for these items under this trunk: names, a sample, and the weights."""
    digest = hashlib.sha256(f"{dataset.name} {len(dataset)}".encode())
    sample = torch.linspace(0, len(dataset) - 1, min(len(dataset), 16)).long()
    items, _ = dataset.batch(sample)
    _absorb(digest, items)
    for place in sample.tolist():
        digest.update(dataset.names[place].encode("utf-8", "surrogateescape"))
    own = {id(value) for value in network.feat.state_dict(keep_vars=True).values()}
    for name, value in network.state_dict(keep_vars=True).items():
        if id(value) not in own:
            digest.update(name.encode())
            _absorb(digest, value.detach())
    digest.update(repr(network.preprocess).encode())
    return digest.hexdigest()[:16]


def _absorb(digest: "hashlib._Hash", values: Tensor) -> None:
    digest.update(values.cpu().contiguous().numpy().tobytes())


class Trunk(nn.Module):
    """All of a network but its last layer, from items as they are loaded."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, items: Tensor) -> Tensor:
        """The trunk's outputs (n, trunk_dim) of items (n, …)."""
        device = next(self.network.parameters()).device
        return self.network.trunk(self.network.preprocess(items.to(device)))


class FastTrunk(Trunk):
    """The same through OpenVINO, compiled when the first items come."""

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._compiled: OpenVinoNetwork | None = None

    def forward(self, items: Tensor) -> Tensor:
        """The trunk's outputs (n, trunk_dim) of items (n, …)."""
        ready = self.network.preprocess(items)
        if self._compiled is None:
            self._compiled = OpenVinoNetwork(_TrunkOnly(self.network), ready[:2])
        output: Tensor = self._compiled(ready)
        return output


ENGINES: dict[str, type[Trunk]] = {"torch": Trunk, "openvino": FastTrunk}
"""What can compute a trunk's outputs."""


class _TrunkOnly(nn.Module):
    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, ready: Tensor) -> Tensor:
        return self.network.trunk(ready)


def _write(dataset: Dataset, trunk: Trunk, path: Path, workers: int) -> None:
    batches = OrderedBatches(torch.arange(len(dataset)), READ_AT_ONCE)
    reader = track(loader(dataset, batches, workers), f"trunk of {dataset.name}")
    try:
        with replacing(path) as temporary, torch.no_grad(), evaluating(trunk):
            _write_rows((trunk(items) for items, _ in reader), len(dataset), temporary)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error


def _write_rows(parts: Iterator[Tensor], total: int, path: Path) -> None:
    """Rows (total, dim) in the format of ``.npy``, without holding all of them."""
    done = 0
    for part in parts:
        rows = part.float().cpu().numpy()
        if done == 0:
            shape = (total, rows.shape[1])
            mapped = np.lib.format.open_memmap(path, "w+", np.float32, shape)
        mapped[done : done + len(rows)] = rows
        done += len(rows)
    mapped.flush()
