"""FastHash: bits found by graph cuts, then told by boosted trees.

Trees are grown by scikit-learn, and kept and run as tensors, on any device.
"""

from typing import NamedTuple, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.coders.hashers.hasher import Hasher, Seeded
from gradsnap.coders.similarity import many_hot
from gradsnap.errors import InputError
from gradsnap.progress import track

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

DEEPEST = 8
LEARNING_RATE = 0.1


class Trees(NamedTuple):
    """T complete trees of one depth D, in the order of a heap.

    A vector starts at node 0 and goes from node i to 2i + 1, or to 2i + 2 if its
    feature exceeds the threshold; leaves hold what is added up.
    """

    features: Tensor
    """int64 (T, 2^D − 1)."""
    thresholds: Tensor
    """float32 (T, 2^D − 1)."""
    values: Tensor
    """float32 (T, 2^D)."""
    bias: Tensor
    """Scalar, added to the sum."""

    def score(self, x: Tensor) -> Tensor:
        """Sums of the leaves reached by x (n, dim), (n,); positive means bit 1."""
        count, inner = self.features.shape
        tree = torch.arange(count, device=x.device)
        node = torch.zeros(len(x), count, dtype=torch.int64, device=x.device)
        flat, limits = self.features.flatten(), self.thresholds.flatten()
        for _ in range(inner.bit_length()):
            at = node + tree * inner
            further = x.gather(1, flat[at]) > limits[at]
            node = 2 * node + 1 + further
        leaves = self.values.flatten()[node - inner + tree * (inner + 1)]
        return leaves.sum(dim=1) + self.bias

    @classmethod
    def grow(cls, x: Floats, bits: Bools, trees: int, depth: int, seed: int) -> "Trees":
        """Trees boosted to tell bits (n,) of rows (n, dim), by scikit-learn."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        model = HistGradientBoostingClassifier(
            learning_rate=LEARNING_RATE,
            max_iter=trees,
            max_depth=depth,
            max_leaf_nodes=2**depth,
            early_stopping=False,
            random_state=seed,
        ).fit(x, bits)
        made = [_fill_tree(grown[0].nodes, depth) for grown in model._predictors]
        features, thresholds, values = (
            np.stack(part) for part in zip(*made, strict=True)
        )
        return cls(
            torch.from_numpy(features),
            torch.from_numpy(_round_down(thresholds)),
            torch.from_numpy(values.astype(np.float32)),
            torch.tensor(float(np.ravel(model._baseline_prediction)[0])),
        )


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

    unbounded = frozenset({"thresholds"})  # of nodes that send all one way

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
            told = self._grow(bit, rows, _both_sides(signs))
            distances += told[pairs.left] != told[pairs.right]
            signs = generator.permutation(np.where(told, 1, -1))

    def _grow(self, bit: int, rows: Floats, wanted: Bools) -> Bools:
        """Grows the trees of one bit; what they tell of the training rows, (n,)."""
        grown = Trees.grow(rows, wanted, self.trees, self.depth, self.seed + bit)
        self.features[bit].copy_(grown.features)
        self.thresholds[bit].copy_(grown.thresholds)
        self.values[bit].copy_(grown.values)
        self.biases[bit].copy_(grown.bias)
        parts = torch.from_numpy(rows).split(8192)
        told: Bools = torch.cat([grown.score(p) > 0 for p in parts]).numpy()
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


def _weights(distances: Ints, similar: Bools, bit: int) -> Ints:
    """Loss of an equal bit less that of an unequal one, for each pair (p,).

    Distances count the bits before; the margin is half of all bits, this one too.
    Doubled, so that it is a whole number.
    """
    margin = bit + 1  # twice (bit + 1) / 2
    apart = 2 * distances
    alike = apart**2 - (apart + 2) ** 2
    gap, nearer = np.maximum(margin - apart, 0), np.maximum(margin - apart - 2, 0)
    return np.where(similar, alike, gap**2 - nearer**2)


def _both_sides(signs: Ints) -> Bools:
    """The bit as booleans; where all rows agree the first is made to differ."""
    wanted: Bools = signs > 0
    if wanted.all() or not wanted.any():
        wanted[0] = ~wanted[0]
    return wanted


def _fill_tree(
    nodes: NDArray[np.void], depth: int
) -> tuple[Ints, NDArray[np.float64], NDArray[np.float64]]:
    """Features, thresholds and leaf values of one tree, filled up to full depth."""
    inner = 2**depth - 1
    features = np.zeros(inner, dtype=np.int64)
    thresholds = np.full(inner, np.inf)
    values = np.zeros(inner + 1)
    places = [(0, 0)]  # where in the heap, and which of the grown nodes
    while places:
        place, at = places.pop()
        node = nodes[at]
        if place >= inner:
            values[place - inner] = node["value"]
        elif node["is_leaf"]:
            places += [(2 * place + 1, at), (2 * place + 2, at)]
        else:
            features[place] = node["feature_idx"]
            thresholds[place] = node["num_threshold"]
            places += [(2 * place + 1, node["left"]), (2 * place + 2, node["right"])]
    return features, thresholds, values


def _round_down(thresholds: NDArray[np.float64]) -> Floats:
    """The next float32 below, so that every float32 stays on its side."""
    near = thresholds.astype(np.float32)
    lower = np.nextafter(near, np.float32(-np.inf))
    rounded: Floats = np.where(near > thresholds, lower, near)
    return rounded
