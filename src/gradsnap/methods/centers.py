"""Hash centres: one hash for each class, chosen before training and far apart.

Rows of a Hadamard matrix differ in half of their bits, and a row and its negative in
all. Sylvester's doubling and Paley's construction give such matrices of orders 1, 2, 4,
8, 12, 16, 20, 24, 32, 40, 48, 64 and many more. Other lengths, and classes beyond
twice the length, get hashes that are drawn and kept if they are far from the others.
"""

import torch
from torch import Tensor

from gradsnap.errors import InputError

DRAWS = 256
"""Hashes that are drawn for each further centre; the farthest is kept."""


def hash_centers(num_classes: int, bits: int, seed: int = 0) -> Tensor:
    """Centres of −1 and 1, float (num_classes, bits).

    Args:
        num_classes: how many; more than 2^bits cannot all differ.
        bits: length of a hash.
        seed: of the hashes that are drawn.

    Example:
        >>> hash_centers(num_classes=3, bits=2)
        tensor([[ 1.,  1.],
                [ 1., -1.],
                [-1., -1.]])
    """
    if num_classes < 1 or bits < 1:
        raise InputError(
            f"expected at least 1 class and 1 bit, got {num_classes} and {bits}"
        )
    matrix = hadamard(bits)
    rows = torch.empty(0, bits) if matrix is None else torch.cat([matrix, -matrix])
    chosen = list(rows[:num_classes])
    generator = torch.Generator().manual_seed(seed)
    while len(chosen) < num_classes:
        drawn = 2.0 * torch.randint(2, (DRAWS, bits), generator=generator) - 1
        chosen.append(_farthest(drawn, chosen))
    return torch.stack(chosen)


def _farthest(drawn: Tensor, chosen: list[Tensor]) -> Tensor:
    """The row of drawn (d, bits) that is most unlike the most like of those chosen."""
    if not chosen:
        return drawn[0]
    likeness = (drawn @ torch.stack(chosen).T).amax(dim=1)  # (d,)
    return drawn[likeness.argmin()]


def hadamard(order: int) -> Tensor | None:
    """H of −1 and 1 with HHᵀ = order·I, (order, order); None where none is known here.

    Example:
        >>> torch.equal(hadamard(12) @ hadamard(12).T, 12 * torch.eye(12))
        True
    """
    if order == 1:
        return torch.ones(1, 1)
    half = hadamard(order // 2) if order % 2 == 0 else None
    if half is not None:
        return torch.cat([torch.cat([half, half], 1), torch.cat([half, -half], 1)])
    if order % 4 == 0 and _is_prime(order - 1):
        return _paley(order - 1)
    return None


def _paley(prime: int) -> Tensor:
    """Paley's first construction, for a prime of the form 4k + 3."""
    residues = {number * number % prime for number in range(1, prime)}
    signs = torch.tensor([1.0 if n in residues else -1.0 for n in range(prime)])
    signs[0] = 0
    place = torch.arange(prime)
    skew = torch.zeros(prime + 1, prime + 1)
    skew[0, 1:], skew[1:, 0] = 1, -1
    skew[1:, 1:] = signs[(place[:, None] - place) % prime]
    return skew + torch.eye(prime + 1)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % d for d in range(2, int(number**0.5) + 1))
