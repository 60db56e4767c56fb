"""Ids given by users: whole numbers or strings, checked."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.errors import InputError

Array = NDArray[Any]

GivenIds = Tensor | Array | Sequence[int] | Sequence[str]
"""What a user may pass as ids."""

Ids = Array | list[str]
"""Checked: int64 (n,), or strings."""


def checked_ids(ids: GivenIds) -> Ids:
    """Whole numbers of at least 0 as int64 (n,), or a list of strings."""
    if isinstance(ids, str):
        raise InputError(f"expected a sequence of ids, got the string {ids!r}")
    values = ids.detach().cpu().numpy() if isinstance(ids, Tensor) else np.asarray(ids)
    if values.ndim != 1:
        raise InputError(f"expected ids of shape (n,), got {values.shape}")
    if values.dtype.kind in "UT" or _all_strings(values):
        return [str(value) for value in values]
    if values.size and values.dtype.kind not in "iu":
        raise InputError(
            f"ids must be whole numbers or strings, got {values.dtype} such as "
            f"{values.flat[0]!r}"
        )
    if values.size and (values.min() < 0 or int(values.max()) >= 2**63 - 1):
        bad = values[(values < 0) | (values > 2**63 - 2)][0]
        raise InputError(f"ids must lie in 0..2**63 - 2 (-1 is padding), got {bad}")
    return values.astype(np.int64)


def new_ids(ids: GivenIds, count: int) -> Ids:
    """``checked_ids`` of ``count`` new items: as many, all different."""
    checked = checked_ids(ids)
    if len(checked) != count:
        raise InputError(f"{count} items need {count} ids, got {len(checked)}")
    if isinstance(checked, list):
        repeated = len(set(checked)) < count
    else:
        repeated = len(np.unique(checked)) < count
    if repeated:
        values, counts = np.unique(np.asarray(checked), return_counts=True)
        raise InputError(f"id {values[counts > 1][0].item()!r} is given twice")
    return checked


def narrow(ids: Array) -> Array:
    """Ids as uint32 where they fit, int64 where they do not."""
    fits = ids.size == 0 or int(ids.max()) < 2**32
    return ids.astype(np.uint32 if fits else np.int64)


def _all_strings(values: Array) -> bool:
    if values.dtype.kind != "O" or values.size == 0:
        return False
    return all(isinstance(value, str) for value in values)
