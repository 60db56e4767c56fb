"""Signs of the embedding itself: the hash of networks that learn bits."""

from typing import Any

from torch import Tensor

from gradsnap.coders.hashers.hasher import Hasher
from gradsnap.errors import InputError


class SignHasher(Hasher):
    """Bit k of a vector is ``x[k] > 0``: a deep hashing network's own bits.

    There is nothing to learn, so that it is fitted from birth. The network learns to
    put its outputs away from zero.

    Args:
        dim: length of a vector.
        bits: length of a hash; as many as dimensions.
        seed: not used, there is nothing random.

    Example:
        >>> import torch
        >>> SignHasher(dim=3, bits=3).encode(torch.tensor([[0.5, -1.0, 2.0]]))
        tensor([[5]], dtype=torch.uint8)
    """

    def __init__(self, dim: int, bits: int, *, seed: int = 0) -> None:
        super().__init__(dim, bits, seed=seed)
        if bits != dim:
            raise InputError(
                f"signs give one bit a dimension: bits must be dim = {dim}, got {bits}"
            )
        self.fitted.fill_(True)

    @classmethod
    def dim_of_bits(cls, bits: int, **options: Any) -> int:
        """One dimension a bit."""
        return bits

    def _fit(self, x: Tensor, labels: Tensor) -> None:
        """Nothing to learn."""

    def _signs(self, x: Tensor) -> Tensor:
        return x > 0
