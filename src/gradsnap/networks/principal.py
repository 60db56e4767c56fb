"""A linear embedding layer that starts as the principal axes of what it gets."""

import torch
from torch import Tensor, nn

from gradsnap.coders.rotations import eigenvectors, orient
from gradsnap.errors import InputError


@torch.no_grad()
def start_principal(
    layer: nn.Linear, rows: Tensor, variance: float | None = None
) -> None:
    """Makes the layer y = s·Uᵀ(x − mean), U the first principal axes of rows (n, in).

    s is one number for all axes, so that distances keep their order, and such that the
    dimensions of y have the given variance together: rates and temperatures then mean
    the same whatever unit the rows are in. The computation is in double precision.

    Args:
        layer: changed in place.
        rows: what it gets.
        variance: of y in all; 1 for each dimension if not given.

    Raises:
        InputError: fewer axes than the layer has outputs, or rows that are all the
            same.

    Example:
        >>> rows = torch.tensor([[0.0, 0.0], [2.0, 0.1], [4.0, 0.0]])
        >>> layer = nn.Linear(2, 1)
        >>> start_principal(layer, rows)
        >>> round(layer(rows).var(dim=0, correction=0).item(), 3)
        1.0
    """
    outputs, inputs = layer.weight.shape
    if outputs > inputs:
        raise InputError(
            f"network.dim is {outputs}, and vectors of {inputs} numbers have as many "
            f"principal axes: choose at most {inputs}"
        )
    mean = rows.double().mean(dim=0)
    centred = rows.double() - mean
    variances, axes = eigenvectors(centred.T @ centred / len(rows))
    axes = orient(axes[:, -outputs:].flip(1))  # (in, out), largest variance first
    kept = float(variances[-outputs:].sum())
    if kept <= 0:
        raise InputError(f"all {len(rows)} training rows are the same vector")
    wanted = outputs if variance is None else variance
    weight = (axes * (wanted / kept) ** 0.5).T
    layer.weight.copy_(weight)
    if layer.bias is not None:
        layer.bias.copy_(-(weight @ mean))
