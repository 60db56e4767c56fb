"""The outputs of a frozen trunk, computed once and kept on disk."""

import dataclasses
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from gradsnap.data import Dataset, StoredItems
from gradsnap.data.fingerprint import absorb, items_digest
from gradsnap.errors import FileFormatError
from gradsnap.inference.embedding import embedded_batches
from gradsnap.networks import Network
from gradsnap.npy import write_rows


class Trunk(nn.Module):
    """All of a network but its last layer, as a network of its own."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.preprocess = network.preprocess

    def forward(self, ready: Tensor) -> Tensor:
        """The trunk's outputs (n, trunk_dim) of preprocessed items (n, …)."""
        return self.network.trunk(ready)


def trunk_file(dataset: Dataset, network: Network, folder: Path) -> Path:
    """Where the outputs lie: a name for these items under this trunk."""
    return folder / f"trunk-{trunk_fingerprint(dataset, network)}.npy"


def write_trunk_outputs(
    dataset: Dataset, network: Network, path: Path, workers: int, engine: str
) -> None:
    """Writes the trunk's outputs (n, trunk_dim) of all items, unless they are there.

    Args:
        dataset: images or vectors.
        network: its trunk does not change any more.
        path: as ``trunk_file`` names it.
        workers: processes that read and decode.
        engine: as of ``gradsnap.embed``.
    """
    if path.is_file():
        return
    every = torch.arange(len(dataset))
    parts = embedded_batches(Trunk(network), dataset, every, None, workers, engine)
    write_rows(path, (part.cpu().numpy() for part in parts), len(dataset))


def with_trunk_outputs(dataset: Dataset, path: Path) -> Dataset:
    """The data set with the trunk's outputs for items, mapped into memory."""
    try:
        values = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path} is damaged: {error}; remove it") from error
    return dataclasses.replace(dataset, items=StoredItems(torch.from_numpy(values)))


def trunk_fingerprint(dataset: Dataset, network: Network) -> str:
    """16 digits for these items under this trunk."""
    digest = items_digest(dataset)
    own = {id(value) for value in network.feat.state_dict(keep_vars=True).values()}
    for name, value in network.state_dict(keep_vars=True).items():
        if id(value) not in own:
            digest.update(name.encode())
            absorb(digest, value)
    digest.update(repr(network.preprocess).encode())
    return digest.hexdigest()[:16]
