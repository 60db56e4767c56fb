"""NumPy arrays, accepted wherever tensors are."""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Given = Tensor | NDArray[Any]
"""What a user may give: a tensor, or a NumPy array of the same shape."""


def as_tensor(given: Given) -> Tensor:
    """The tensor itself, or one that shares the memory of a NumPy array.

    Anything else is handed back as it is, for the caller's own check to refuse.

    Example:
        >>> as_tensor(np.ones((2, 3), dtype=np.float32)).shape
        torch.Size([2, 3])
    """
    if not isinstance(given, np.ndarray):
        return given
    native = given.astype(given.dtype.newbyteorder("="), copy=False)
    if any(step < 0 for step in native.strides):
        native = native.copy()  # torch has no tensors that run backwards
    if native.flags.writeable:
        return torch.from_numpy(native)
    with warnings.catch_warnings():  # torch warns, but nothing here writes to it
        warnings.filterwarnings("ignore", message=".*not writable")
        return torch.from_numpy(native)
