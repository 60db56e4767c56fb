"""All triplets of a batch counted at once: a sum of hinges as a sum over distances."""

from typing import NamedTuple

import torch
from torch import Tensor


class Hinges(NamedTuple):
    """Σ max(0, margin + d_ap − d_an) for each row a, as a linear form of distances.

    The sum is ``(weights * distances).sum(1) + margin * violated``: a hinge is linear
    where it is violated, so each distance counts as often as it takes part in one.
    """

    weights: Tensor
    """How often each distance counts, (n, n): > 0 for a p, < 0 for an n."""
    violated: Tensor
    """How many triplets of each row are violated, (n,)."""


@torch.no_grad()
def hinges(distances: Tensor, near: Tensor, far: Tensor, margin: float) -> Hinges:
    """Counts the violated triplets in O(n² log n) time and O(n²) memory.

    Args:
        distances: (n, n), row a holding the distances of a.
        near: which columns may be p, (n, n), bool.
        far: which columns may be n, (n, n), bool.
        margin: by how much an n should be farther than a p.
    """
    reach = distances + margin
    far_sorted = distances.masked_fill(~far, torch.inf).sort(dim=1).values
    reach_sorted = reach.masked_fill(~near, -torch.inf).sort(dim=1).values
    pulled = torch.searchsorted(far_sorted, reach)  # n's nearer than p's reach
    settled = torch.searchsorted(reach_sorted, distances.contiguous(), right=True)
    pulled = pulled * near
    pushed = (distances.shape[1] - settled) * far  # p's that reach beyond n
    return Hinges((pulled - pushed).to(distances.dtype), pulled.sum(dim=1))
