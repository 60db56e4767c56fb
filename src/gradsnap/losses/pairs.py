"""Distances and similarities between all rows of a batch, safe to differentiate."""

import torch
from torch import Tensor


def inner_products(embeddings: Tensor) -> Tensor:
    """⟨y, y′⟩ of all rows (n, dim), as (n, n); never in half precision."""
    with torch.autocast(embeddings.device.type, enabled=False):
        wide = torch.promote_types(embeddings.dtype, torch.float32)
        rows = embeddings.to(wide)
        return rows @ rows.T


def cosines(embeddings: Tensor) -> Tensor:
    """Cosine of all rows (n, dim), as (n, n); 0, without gradient, for a zero row."""
    lengths = torch.linalg.vector_norm(embeddings, dim=1, keepdim=True)  # (n, 1)
    return inner_products(embeddings / lengths.masked_fill(lengths == 0, torch.inf))


def distances(embeddings: Tensor) -> Tensor:
    """‖y − y′‖ of all rows (n, dim), as (n, n).

    Computed from inner products, about the mean of the rows so that little cancels.
    Rows nearer than rounding can tell apart get distance 0 and no gradient, where the
    gradient of a square root would be anything up to infinite.
    """
    products = inner_products(embeddings - embeddings.detach().mean(dim=0))
    squared_lengths = products.diagonal()
    lengths_sum = squared_lengths[:, None] + squared_lengths  # (n, n)
    squared = lengths_sum - 2 * products
    equal = squared <= 8 * torch.finfo(squared.dtype).eps * lengths_sum
    return squared.masked_fill(equal, 1).sqrt().masked_fill(equal, 0)


def mean_over_pairs(values: Tensor) -> Tensor:
    """Mean of (n, n) without its diagonal; zero, with a gradient, if n < 2."""
    own = torch.eye(len(values), dtype=torch.bool, device=values.device)
    pairs = len(values) * (len(values) - 1)
    return values.masked_fill(own, 0).sum() / max(pairs, 1)
