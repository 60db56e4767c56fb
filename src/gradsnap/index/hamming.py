"""Ready hashes: packed bits, compared by Hamming distance, plain or weighted."""

from typing import Self

import torch
from torch import Tensor

from gradsnap.arrays import Given, as_tensor
from gradsnap.coders.coder import Coder
from gradsnap.coders.hashers import Hasher
from gradsnap.errors import FileFormatError, InputError
from gradsnap.index.exhaustive import ExhaustiveIndex
from gradsnap.index.index import Config
from gradsnap.index.queries import Queries
from gradsnap.index.rerank import Refiner

BIT_ORDER = "little"
"""The first bit of a hash is the lowest of its first byte."""


class ReadyHashes(Hasher):
    """A hasher that makes no bits: its codes come from elsewhere.

    Args:
        weights: of the bits, (bits,).
    """

    weights: Tensor

    def __init__(self, weights: Tensor) -> None:
        super().__init__(len(weights), len(weights))
        self.register_buffer("weights", weights.float())
        self.fitted.fill_(True)

    @property
    def bit_weights(self) -> Tensor:
        """What each bit that differs adds to a distance, (bits,)."""
        return self.weights

    @property
    def hamming_levels(self) -> int | None:
        """The largest distance, unless bits have weights."""
        return self.bits if bool((self.weights == 1).all()) else None

    def config(self) -> Config:
        """How many bits; it is never saved."""
        return {"bits": self.bits}

    def _fit(self, x: Tensor, labels: Tensor) -> None:
        """Nothing to learn."""

    def _signs(self, x: Tensor) -> Tensor:
        raise InputError("ready hashes are added as they are, and no vectors")


class HammingIndex(ExhaustiveIndex):
    """All hashes are compared with every query, by the number of bits that differ.

    For hashes that are ready, uint8 (n, bytes), as ``gradsnap.coders.packed_bits``
    packs them: the first bit is the lowest of the first byte. A hasher of ours goes
    into an ``ExhaustiveIndex``, which takes vectors.

    Args:
        bits: of a hash; unused bits of the last byte do not count.
        weights: of each bit, (bits,), at least 0, for weighted Hamming distance; 1 if
            not given.

    Example:
        >>> index = HammingIndex(16)
        >>> hashes = torch.tensor([[0, 0], [255, 0], [1, 0]], dtype=torch.uint8)
        >>> index.add(hashes).search(hashes[:1], k=3).ids
        tensor([[0, 2, 1]])
    """

    kind = "hamming"
    takes_vectors = False

    def __init__(self, bits: int, *, weights: Tensor | None = None) -> None:
        if bits < 1:
            raise InputError(f"bits must be at least 1, got {bits}")
        own = torch.ones(bits) if weights is None else torch.as_tensor(weights)
        if own.shape != (bits,) or not bool((own >= 0).all()):
            raise InputError(
                f"weights must be {bits} numbers of at least 0, got {own.tolist()}"
            )
        super().__init__(ReadyHashes(own))
        self.bits = bits
        self.weights = weights

    @classmethod
    def _sizes(cls, count: int, num_lists: int | None, residual: bool) -> Config:
        raise InputError(
            "an index of kind hamming takes hashes that are ready; with a coder choose "
            "kind exhaustive"
        )

    @classmethod
    def from_config(
        cls, coder: Coder | None, config: Config, refiner: Refiner | None
    ) -> Self:
        """The empty index of such a ``config``."""
        if config.get("bit_order") != BIT_ORDER:
            raise FileFormatError(
                "its hashes are packed highest bit first, as this gradsnap does no "
                "longer: read the uint8 rows of its .codes files, unpack them with "
                "numpy.unpackbits(rows, axis=1, bitorder='big'), and add "
                "gradsnap.coders.packed_bits of them to a new HammingIndex"
            )
        return cls(config["bits"])

    def config(self) -> Config:
        """How many bits, and in which order."""
        return {"bits": self.bits, "bit_order": BIT_ORDER}

    def state(self) -> dict[str, Tensor]:
        """The weights, where there are any."""
        return {} if self.weights is None else {"weights": self.weights.float()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Takes back what ``state`` gave."""
        self.__dict__.update(HammingIndex(self.bits, weights=state["weights"]).__dict__)

    def _checked(self, vectors: Given) -> Tensor:
        vectors = as_tensor(vectors)
        width = self.coder.num_codebooks
        if not isinstance(vectors, Tensor) or vectors.dtype != torch.uint8:
            kind = getattr(vectors, "dtype", type(vectors).__name__)
            raise InputError(f"expected packed bits, a tensor of uint8; got {kind}")
        if vectors.ndim != 2 or vectors.shape[1] != width:
            raise InputError(
                f"expected hashes of shape (n, {width}), got {tuple(vectors.shape)}"
            )
        return vectors.detach().cpu()

    def _queries(self, queries: Given) -> Queries:
        return Queries(self._checked(queries), coded=True)

    def _encode(self, vectors: Tensor) -> tuple[Tensor, Tensor | None]:
        return vectors, None
