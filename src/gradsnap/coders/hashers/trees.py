"""Boosted trees as tensors: grown by scikit-learn, run on any device."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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


def grown_trees(
    x: NDArray[np.float32], bits: NDArray[np.bool_], trees: int, depth: int, seed: int
) -> Trees:
    """Trees boosted to tell bits (n,) of rows (n, dim), grown on histograms."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        learning_rate=LEARNING_RATE,
        max_iter=trees,
        max_depth=depth,
        max_leaf_nodes=2**depth,
        early_stopping=False,
        random_state=seed,
    ).fit(x, bits)
    made = [_complete(grown[0].nodes, depth) for grown in model._predictors]
    features, thresholds, values = (np.stack(part) for part in zip(*made, strict=True))
    return Trees(
        torch.from_numpy(features),
        torch.from_numpy(_rounded_down(thresholds)),
        torch.from_numpy(values.astype(np.float32)),
        torch.tensor(float(np.ravel(model._baseline_prediction)[0])),
    )


def _complete(
    nodes: NDArray[Any], depth: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
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


def _rounded_down(thresholds: NDArray[np.float64]) -> NDArray[np.float32]:
    """The next float32 below, so that every float32 stays on its side."""
    near = thresholds.astype(np.float32)
    lower = np.nextafter(near, np.float32(-np.inf))
    rounded: NDArray[np.float32] = np.where(near > thresholds, lower, near)
    return rounded
