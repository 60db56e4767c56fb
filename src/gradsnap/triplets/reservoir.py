"""Weighted reservoirs: of each class, the members whose keys are the largest."""

import torch
from torch import Tensor

from gradsnap.errors import InputError


class Reservoirs:
    """One bounded buffer for each class.

    Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006: if the
    key of a member is u^(1/weight), u uniform, the members with the largest keys are a
    sample drawn in proportion to the weights, without replacement.

    A member that passes by again gets a new key. The last key of every member is
    remembered, also of those outside the buffers: if one inside draws a small key, the
    best of the others takes its place, and the buffers stay exact over many passes.

    Args:
        sizes: how many members each class has, (classes,); members are numbered class
            after class.
        capacity: members a buffer holds at most.
    """

    def __init__(self, sizes: Tensor, capacity: int) -> None:
        self.sizes = sizes
        self.starts = sizes.cumsum(0) - sizes
        self.log_keys = torch.full((int(sizes.sum()),), -torch.inf, dtype=torch.float64)
        """Logarithm of the last key of each member, (m,); −∞ before it passes by."""
        self.slots = torch.full((len(sizes), capacity), -1)
        """The members held, (classes, capacity); −1 where a slot is free."""

    @property
    def filled(self) -> bool:
        """Whether any member ever passed by."""
        return bool((self.slots >= 0).any())

    def offer(self, classes: Tensor, members: Tensor, log_keys: Tensor) -> None:
        """Members (m,) of classes (m,) pass by, with the logarithms of their keys."""
        smallest = torch.finfo(log_keys.dtype).min  # weight 0: behind all that have any
        self.log_keys[members] = log_keys.clamp_min(smallest)
        self._fill(classes.unique())

    def _fill(self, classes: Tensor) -> None:
        """Puts the largest keys of these classes into their buffers."""
        capacity = self.slots.shape[1]
        for one in classes.tolist():
            start, size = int(self.starts[one]), int(self.sizes[one])
            keys = self.log_keys[start : start + size]
            largest, place = keys.topk(min(capacity, size))
            self.slots[one, : len(place)] = (start + place).where(
                largest.isfinite(), -1
            )

    def load_log_keys(self, log_keys: Tensor) -> None:
        """Takes over the ``log_keys`` (m,) of reservoirs of the same members."""
        if log_keys.shape != self.log_keys.shape:
            raise InputError(
                f"the state is of {len(log_keys)} members of classes, "
                f"this data set has {len(self.log_keys)}"
            )
        self.log_keys = log_keys.clone()
        self.slots.fill_(-1)
        self._fill(torch.arange(len(self.sizes)))
