"""What a triplet is, and the two ways of choosing them."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from gradsnap.errors import InputError
from gradsnap.losses.relations import Target


class Triplets(NamedTuple):
    """Anchor and positive share a label, the negative is less like the anchor.

    Taken as the third argument of ``TripletLoss``, or of any loss of
    pytorch-metric-learning as its ``indices_tuple``.
    """

    anchor: Tensor
    """Rows of the anchors, (t,), int64."""
    positive: Tensor
    """Rows of the positives, (t,), int64."""
    negative: Tensor
    """Rows of the negatives, (t,), int64."""

    def to(self, device: torch.device) -> "Triplets":
        """The same triplets on a device."""
        return Triplets(*(part.to(device) for part in self))

    def compact(self) -> tuple[Tensor, "Triplets"]:
        """The rows that take part, each once, (m,), and the triplets among those.

        A batch of just these rows is embedded once, however often a row is used.

        Example:
            >>> drawn = Triplets(*torch.tensor([[7, 7], [3, 5], [9, 3]]))
            >>> rows, triplets = drawn.compact()
            >>> rows
            tensor([3, 5, 7, 9])
            >>> triplets.anchor
            tensor([2, 2])
        """
        rows, places = torch.stack(self).unique(return_inverse=True)  # (m,), (3, t)
        return rows, Triplets(*places)


class Selector(Protocol):
    """Chooses triplets inside a batch, by the distances of its embeddings."""

    def select(self, embeddings: Tensor, labels: Target) -> Triplets:
        """Rows of the batch, of embeddings (n, dim) and their labels or relations."""


class Sampler(Protocol):
    """Draws triplets from a whole data set, before anything is embedded."""

    def draw(self, count: int) -> Triplets:
        """``count`` triplets of rows of the data set."""

    def state_dict(self) -> dict[str, Tensor]:
        """All that the next draw depends on, to resume from."""

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Takes up where the sampler that gave ``state`` stood."""


def draw_until(count: int, draw: Callable[[int], Tensor], rows: int) -> Triplets:
    """Repeats ``draw``, which gives at most as many triplets (3, t) as it is asked for.

    Raises:
        InputError: a hundred passes over the rows gave no triplet.
    """
    if count < 0:
        raise InputError(f"count must be zero or more, got {count}")
    parts, tried = [torch.empty(3, 0, dtype=torch.int64)], 0
    while count > 0:
        if tried > 100 * rows:
            raise InputError(
                f"no triplet was found in {tried} tries: the anchors that have a "
                f"positive have no negative; use other labels or another relevance"
            )
        parts.append(draw(count))
        found = parts[-1].shape[1]
        tried = 0 if found else tried + count
        count -= found
    return Triplets(*torch.cat(parts, dim=1))
