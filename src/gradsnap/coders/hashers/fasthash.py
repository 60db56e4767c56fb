"""FastHash: bits found by graph cuts, then told by boosted trees."""

from typing import Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.coders.hashers.hasher import Hasher, Seeded
from gradsnap.coders.hashers.similarity import many_hot
from gradsnap.coders.hashers.trees import Trees, grown_trees
from gradsnap.errors import InputError
from gradsnap.progress import track

Ints = NDArray[np.int64]

DEEPEST = 8


class BoostedTreeHasher(Hasher):
    """FastHash (Lin et al. 2014), "FashHash" in the paper's table.

    Bit after bit, in two steps. First the bit every training row should have: the one
    of least hinge loss, d² for a pair that is alike and max(margin − d, 0)² for one
    that is not, d their Hamming distance with the bits before; blocks of rows that are
    all alike are solved exactly, by a graph cut. Then trees are boosted to tell that
    bit, and the bits they tell are what the next bit builds on.

    Args:
        dim: length of a vector.
        bits: length of a hash.
        seed: of pairs, blocks and trees.
        trees: for each bit.
        depth: of a tree, 1 to 8.
        pairs: alike and unlike pairs drawn for each row, as many of each.
    """

    supervised = True

    features: Tensor
    thresholds: Tensor
    values: Tensor
    biases: Tensor

    def __init__(
        self,
        dim: int,
        bits: int,
        *,
        trees: int = 200,
        depth: int = 4,
        pairs: int = 50,
        **seeded: Unpack[Seeded],
    ) -> None:
        super().__init__(dim, bits, **seeded)
        if trees < 1 or pairs < 1 or not 1 <= depth <= DEEPEST:
            raise InputError(
                f"expected at least one tree and pair and a depth of 1 to {DEEPEST}; "
                f"got trees={trees}, pairs={pairs}, depth={depth}"
            )
        self.trees, self.depth, self.pairs = trees, depth, pairs
        inner = 2**depth - 1
        size = (bits, trees, inner)
        self.register_buffer("features", torch.zeros(size, dtype=torch.int64))
        self.register_buffer("thresholds", torch.zeros(size))
        self.register_buffer("values", torch.zeros(bits, trees, inner + 1))
        self.register_buffer("biases", torch.zeros(bits))

    def _fit(self, x: Tensor, labels: Tensor) -> None:
        # scipy's graphs take a while to import, and only fitting needs them
        from gradsnap.coders.hashers.graph_cuts import Pairs, best_bit

        rows = x.cpu().numpy()
        generator = np.random.default_rng(self.seed)
        multi_hot = many_hot(labels).bool().cpu().numpy()
        pairs = Pairs.draw(multi_hot, self.pairs, generator)
        distances = np.zeros(len(pairs.left), dtype=np.int64)
        signs = generator.choice(np.array([-1, 1]), len(rows))
        for bit in track(range(self.bits), "growing trees"):
            weights = _weights(distances, pairs.similar, bit)
            signs = best_bit(pairs, weights, signs)
            told = self._grow(bit, rows, _two_sided(signs))
            distances += told[pairs.left] != told[pairs.right]
            signs = generator.permutation(np.where(told, 1, -1))

    def _grow(
        self, bit: int, rows: NDArray[np.float32], wanted: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Grows the trees of one bit; what they tell of the training rows, (n,)."""
        grown = grown_trees(rows, wanted, self.trees, self.depth, self.seed + bit)
        self.features[bit].copy_(grown.features)
        self.thresholds[bit].copy_(grown.thresholds)
        self.values[bit].copy_(grown.values)
        self.biases[bit].copy_(grown.bias)
        parts = torch.from_numpy(rows).split(8192)
        told: NDArray[np.bool_] = torch.cat([grown.score(p) > 0 for p in parts]).numpy()
        return told

    def _signs(self, x: Tensor) -> Tensor:
        found = []
        for bit in range(self.bits):
            trees = Trees(
                self.features[bit],
                self.thresholds[bit],
                self.values[bit],
                self.biases[bit],
            )
            found.append(trees.score(x) > 0)
        return torch.stack(found, dim=1)


def _weights(distances: Ints, similar: NDArray[np.bool_], bit: int) -> Ints:
    """Loss of an equal bit less that of an unequal one, for each pair (p,).

    Distances count the bits before; the margin is half of all bits, this one too.
    Doubled, so that it is a whole number.
    """
    margin = bit + 1  # twice (bit + 1) / 2
    apart = 2 * distances
    alike = apart**2 - (apart + 2) ** 2
    gap, nearer = np.maximum(margin - apart, 0), np.maximum(margin - apart - 2, 0)
    return np.where(similar, alike, gap**2 - nearer**2)


def _two_sided(signs: Ints) -> NDArray[np.bool_]:
    """The bit as booleans; where all rows agree the first is made to differ."""
    wanted: NDArray[np.bool_] = signs > 0
    if wanted.all() or not wanted.any():
        wanted[0] = ~wanted[0]
    return wanted
