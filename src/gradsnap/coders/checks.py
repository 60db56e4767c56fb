"""What a coder refuses, in sentences with the bad value and the good choices."""

import math

import numpy as np
import torch
from torch import Tensor

from gradsnap.arrays import Given, as_tensor
from gradsnap.errors import InputError


def check_sizes(num_codebooks: int, codebook_size: int, decay: float) -> None:
    """Refuses sizes no quantizer can have."""
    if num_codebooks < 1:
        raise InputError(f"num_codebooks must be at least 1, got {num_codebooks}")
    check_codebook_size(codebook_size)
    if not 0 <= decay < 1:
        raise InputError(f"decay must lie in [0, 1), got {decay}")


def check_codebook_size(size: int) -> None:
    """Refuses codebooks whose words are not numbered by whole bits."""
    power_of_two = size > 0 and size & (size - 1) == 0
    if not power_of_two or not 2 <= size <= 65536:
        raise InputError(
            f"codebook_size must be a power of two, 2 to 65536, got {size}"
        )


def checked_rows(x: Given, dim: int, dtype: torch.dtype) -> Tensor:
    """Finite floating rows (n, dim), detached, as ``dtype``."""
    x = as_tensor(x)
    if not isinstance(x, Tensor):
        raise InputError(
            f"expected a tensor or a NumPy array, got {type(x).__name__} "
            "(torch.as_tensor makes one)"
        )
    if x.ndim != 2 or x.shape[1] != dim:
        raise InputError(f"expected a tensor of shape (n, {dim}), got {tuple(x.shape)}")
    if not x.is_floating_point():
        raise InputError(f"expected a floating tensor, got {x.dtype}")
    x = x.detach().to(dtype)
    if not _can_be_squared(x):
        bad = int((~(_lengths(x) <= _longest(dtype))).sum())
        raise InputError(
            f"{bad} of {len(x)} rows hold NaN, infinity, or numbers too large for "
            f"their squares to fit {dtype}"
        )
    return x


def checked_codes(codes: Given, num_codebooks: int, codebook_size: int) -> Tensor:
    """Codes (n, num_codebooks) within the codebooks, as int64."""
    codes = as_tensor(codes)
    if not isinstance(codes, Tensor):
        raise InputError(f"expected a tensor of codes, got {type(codes).__name__}")
    if codes.ndim != 2 or codes.shape[1] != num_codebooks:
        raise InputError(
            f"expected codes of shape (n, {num_codebooks}), got {tuple(codes.shape)}"
        )
    if codes.is_floating_point() or codes.is_complex() or codes.dtype == torch.bool:
        raise InputError(f"expected integer codes, got {codes.dtype}")
    codes = codes.long()
    if codes.numel() and not 0 <= codes.min() <= codes.max() < codebook_size:
        raise InputError(
            f"codes must lie in 0..{codebook_size - 1}, "
            f"got {int(codes.min())}..{int(codes.max())}"
        )
    return codes


def check_count(k: int, every: int) -> None:
    """Refuses to look for no codeword, or for more than there are."""
    if not 1 <= k <= every:
        raise InputError(f"k must be 1 to {every} (all codewords there are), got {k}")


def _can_be_squared(x: Tensor) -> bool:
    """One pass, no copy, unless all rows together are too long."""
    longest = _longest(x.dtype)
    if x.device.type == "cpu" and x.dtype == torch.float32 and x.is_contiguous():
        flat = (
            x.detach().numpy().reshape(-1)
        )  # a third of the time of torch's, for few rows
        with np.errstate(over="ignore"):
            together = math.sqrt(float(flat.dot(flat)))
    else:
        together = float(torch.linalg.vector_norm(x))
    return together <= longest or bool((_lengths(x) <= longest).all())


def _lengths(x: Tensor) -> Tensor:
    """Lengths (n,) of rows, without an overflow on the way; NaN where one is in it."""
    lengths: Tensor = torch.linalg.vector_norm(x.double(), dim=1)
    return lengths


def _longest(dtype: torch.dtype) -> float:
    """Rows up to here have squared distances, and sums of a few, that fit the type."""
    spare = 1 if torch.finfo(dtype).bits < 32 else 8
    return math.sqrt(torch.finfo(dtype).max) / spare
