"""JPQ: queries and centroids learned jointly, by the ranking that codes give."""

import torch
from torch import Tensor

from gradsnap.methods.method import Recipe
from gradsnap.methods.pqn import AsymmetricTripletLoss


class RankingLoss(AsymmetricTripletLoss):
    """Mean of |1/r₊ − 1/r₋| · log(1 + exp(d₊ − d₋)), r the items' ranks for a query.

    Zhan et al., "Jointly optimizing query encoder and product quantization to improve
    retrieval performance", CIKM 2021: the pair-wise loss on the scores that the codes
    give, with the items that wrongly come first as negatives. The weights are those of
    LambdaRank for the reciprocal rank. Checked against the authors' code
    (jingtaozhan/JPQ): weights, means and what has a gradient are the same.

    Departures: d are squared distances, as search ranks here, in place of negative
    inner products; what is ranked are the items of the batch, where that code searches
    all documents for 200; and no rank is cut off, where it has 1/r = 0 beyond the tenth
    document or the 200th passage. See ``JPQ`` for the rest.

    Args:
        negatives: how many items that share no label each query is compared with.
    """

    def weigh(self, compared: Tensor, nearest: Tensor) -> Tensor:
        """|1/r₊ − 1/r₋| of items p and nearest (n, k): (n, n, k)."""
        own = torch.eye(len(compared), dtype=torch.bool, device=compared.device)
        order = compared.detach().masked_fill(own, torch.inf).argsort(dim=1)
        ranks = order.argsort(dim=1) + 1
        gains = 1 / ranks.to(compared.dtype)  # (n, n)
        return (gains[:, :, None] - gains.gather(1, nearest)[:, None]).abs()


JPQ = Recipe(
    summary="Zhan et al. 2021: queries and centroids by a ranking loss, codes given",
    loss=RankingLoss,
    layer="fixed-codes",
    coder="opq",
    settings={"coder": {"learn": "gradient"}, "layer": {"warmup": 0.5}},
    tries=("coder.rate", (1.0, 0.1, 3.0)),
)
"""Half the steps train floats; then items are codes, and no gradient moves a code.

The loss moves the query's embedding and the centroids of the items' codes, under the
rotation that OPQ was fitted with. Departure: the paper keeps a trained encoder for the
documents, whose codes never change, and trains a copy of it for the queries; a model
here has one network, so an item's code is what the present network gives it, and
changes when the queries' side has moved the network far enough.
"""
