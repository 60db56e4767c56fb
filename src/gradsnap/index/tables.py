"""Look-up tables as a scan reads them."""

from typing import Any

from torch import Tensor

from gradsnap.index.items import Items


def float_tables(items: Items, queries: Any) -> Tensor:
    """Tables (q, M, K) in float32 whose sums are distances: constants are in them."""
    entries, offsets = items.coder.tables(queries)
    entries = entries.float().cpu()
    shift = (offsets + (items.constant or 0)).float().cpu()
    if bool(shift.any()):
        entries = entries.clone()
        entries[:, 0] += shift[:, None]
    whole: Tensor = entries.contiguous()
    return whole
