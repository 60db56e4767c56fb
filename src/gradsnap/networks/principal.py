"""A linear embedding layer that starts as the principal axes of what it gets."""

import torch
from torch import Tensor, nn

from gradsnap.errors import InputError


@torch.no_grad()
def start_principal(layer: nn.Linear, rows: Tensor) -> None:
    """Makes the layer y = s·Uᵀ(x − mean), U the first principal axes of rows (n, in).

    s is one number for all axes, so that distances keep their order, and such that a
    dimension of y has variance 1 on average: rates and temperatures then mean the same
    whatever unit the rows are in. The computation is in double precision.

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
    variances, axes = torch.linalg.eigh(centred.T @ centred / len(rows))
    axes = axes[:, -outputs:].flip(1)  # (in, out), largest variance first
    kept = float(variances[-outputs:].sum())
    if kept <= 0:
        raise InputError(f"all {len(rows)} training rows are the same vector")
    weight = (axes * (outputs / kept) ** 0.5).T
    layer.weight.copy_(weight)
    if layer.bias is not None:
        layer.bias.copy_(-(weight @ mean))
