"""What all hashers share: checks, packing, blocks of rows, saving."""

import logging
import os
from abc import ABC, abstractmethod
from typing import Any, Self

import torch
from torch import Tensor, nn

from gradsnap.coders.hashers.packing import packed_bits
from gradsnap.coders.quantizers.checks import checked_rows
from gradsnap.errors import InputError, NotFittedError
from gradsnap.losses.pairs import check_labels

logger = logging.getLogger(__name__)

ENCODE_ROWS = 8192
"""Rows whose bits are found at once."""


class Hasher(nn.Module, ABC):
    """Maps vectors to hashes of ``bits`` bits, compared by Hamming distance.

    The base owns checks, packing and saving; a child owns how bits are found. State is
    in buffers, complete from birth. Nothing draws from the global random generator.

    Args:
        dim: length of a vector.
        bits: length of a hash.
        seed: of everything random in ``fit``.
    """

    supervised = False
    """Whether ``fit`` needs labels."""

    fitted: Tensor

    def __init__(self, dim: int, bits: int, *, seed: int = 0) -> None:
        super().__init__()
        if dim < 1 or bits < 1:
            raise InputError(f"dim and bits must be at least 1, got {dim} and {bits}")
        self.dim, self.bits, self.seed = dim, bits, seed
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool))

    @abstractmethod
    def _fit(self, x: Tensor, labels: Tensor) -> None:
        """Finds the hash functions from x (n, dim) and fills the buffers in place.

        Labels (n,) or (n, L) are empty where the method is not supervised.
        """

    @abstractmethod
    def _signs(self, x: Tensor) -> Tensor:
        """Bits of x (n, dim): bool (n, bits)."""

    @torch.no_grad()
    def fit(self, x: Tensor, labels: Tensor | None = None) -> Self:
        """Learns the hash functions, forgetting any earlier ones.

        Args:
            x: floating (n, dim).
            labels: int64 (n,), or multi-hot bool (n, L); needed by supervised methods
                and not looked at by the others.
        """
        x = checked_rows(x, self.dim, torch.float32)
        if len(x) < 2:
            raise InputError(f"fit needs at least two rows; got {len(x)}")
        self._fit(x, self._checked_labels(x, labels))
        self.fitted.fill_(True)
        return self

    @torch.no_grad()
    def encode(self, x: Tensor) -> Tensor:
        """Hashes of x (n, dim), packed: uint8 (n, ⌈bits / 8⌉)."""
        if not self.fitted:
            raise NotFittedError(
                f"this {type(self).__name__} has no hash functions yet: "
                "call fit(embeddings), or load one that was saved"
            )
        x = checked_rows(x, self.dim, torch.float32)
        return torch.cat([packed_bits(self._signs(p)) for p in x.split(ENCODE_ROWS)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the hasher to a safetensors file; see ``load_hasher``."""
        from gradsnap.coders.hashers.storage import save_hasher

        save_hasher(self, path)

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain values."""
        return {"dim": self.dim, "bits": self.bits, "seed": self.seed}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Takes the buffers of a saved hasher of the same config."""
        self.load_state_dict(state)

    def extra_repr(self) -> str:
        """Shown in ``print(hasher)``."""
        return ", ".join(f"{name}={value}" for name, value in self.config().items())

    def _generator(self) -> torch.Generator:
        """A fresh generator on the CPU, so that every device draws the same."""
        return torch.Generator().manual_seed(self.seed)

    def _checked_labels(self, x: Tensor, labels: Tensor | None) -> Tensor:
        if not self.supervised:
            return torch.empty(0, device=x.device)
        name = type(self).__name__
        if labels is None:
            raise InputError(f"{name} is supervised: fit needs labels (n,) or (n, L)")
        check_labels(labels, len(x), "rows")
        if len(labels.unique(dim=0)) < 2:
            raise InputError(f"{name} needs at least two classes, got one")
        return labels.to(x.device)


def check_bits_fit(name: str, bits: int, dim: int) -> None:
    """Refuses more bits than there are directions."""
    if bits > dim:
        raise InputError(f"{name} gives at most one bit a dimension: {bits} > {dim}")
