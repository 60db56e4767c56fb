"""What a target says of pairs, how near pairs are, and what their losses share."""

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from gradsnap.errors import InputError
from gradsnap.losses.relations import Relations, Target


def check_batch(
    embeddings: Tensor, labels: Target, items: Tensor | None = None
) -> None:
    """Refuses what is no batch of embeddings (n, dim) with labels or relations.

    Args:
        embeddings: also the queries where items are given.
        labels: of the rows, and of the items: (n,), (n, L), or relations (n, n).
        items: as many, (n, dim), or none.
    """
    if embeddings.ndim != 2 or not embeddings.is_floating_point():
        raise InputError(
            f"expected floating embeddings of shape (n, dim), "
            f"got {embeddings.dtype} of shape {tuple(embeddings.shape)}"
        )
    if isinstance(labels, Relations):
        check_relations(labels, len(embeddings))
    else:
        check_labels(labels, len(embeddings))
    if items is not None and (
        items.shape != embeddings.shape or not items.is_floating_point()
    ):
        raise InputError(
            f"expected a floating item for each embedding, of shape "
            f"{tuple(embeddings.shape)}, got {items.dtype} of {tuple(items.shape)}"
        )


def check_labels(labels: Tensor, rows: int, what: str = "embeddings") -> None:
    """Refuses labels that are neither integers (rows,) nor booleans (rows, L)."""
    if labels.shape[:1] != (rows,) or labels.ndim > 2:
        raise InputError(
            f"expected one label for each of {rows} {what}, or one row of them, "
            f"got labels of shape {tuple(labels.shape)}"
        )
    if labels.ndim == 2 and labels.dtype != torch.bool:
        raise InputError(
            f"several labels a row must be booleans (n, labels), got {labels.dtype} "
            f"(labels > 0 makes them)"
        )
    if labels.ndim == 1 and (labels.is_floating_point() or labels.is_complex()):
        raise InputError(
            f"one label a row must be an integer, got {labels.dtype} "
            f"(labels.long() makes it one)"
        )


def check_relations(relations: Relations, rows: int) -> None:
    """Refuses relations that are not booleans (rows, rows), with grades if any."""
    for mask in (relations.alike, relations.unlike):
        if mask.shape != (rows, rows) or mask.dtype != torch.bool:
            raise InputError(
                f"expected relations of {rows} embeddings as booleans ({rows}, {rows}),"
                f" got {mask.dtype} of shape {tuple(mask.shape)}"
            )
    grades = relations.grades
    if grades is not None and (
        grades.shape != (rows, rows) or not grades.is_floating_point()
    ):
        raise InputError(
            f"expected floating grades of shape ({rows}, {rows}), got {grades.dtype} "
            f"of shape {tuple(grades.shape)}"
        )


def shared_labels(labels: Tensor) -> Tensor:
    """How many labels each two rows share, (n, n), float; 0 or 1 for labels (n,)."""
    if labels.ndim == 1:
        return (labels[:, None] == labels).float()
    many_hot = labels.float()
    with torch.autocast(labels.device.type, enabled=False):
        return many_hot @ many_hot.T


def alike_and_unlike(labels: Target) -> tuple[Tensor, Tensor]:
    """Which rows are alike and which are not, both (n, n); no row is its own pair.

    Args:
        labels: integers (n,), one class a row, or booleans (n, L), several labels:
            rows are alike if they share one, and unlike if not. Or relations, which
            say it themselves, and may leave pairs unknown.
    """
    other = ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    if isinstance(labels, Relations):
        return labels.alike & other, labels.unlike & other
    same = shared_labels(labels) > 0
    return same & other, ~same & other


def relevance(labels: Target) -> Tensor:
    """How relevant each row is to each other, whole numbers in float (n, n).

    Labels: how many two rows share. Relations: 0 for unlike, 1 for alike, or
    log₂(1 + grade), at least 1, rounded. −1 where a pair is unknown or no pair.
    """
    if not isinstance(labels, Relations):
        return shared_labels(labels).fill_diagonal_(-1)
    alike, unlike = alike_and_unlike(labels)
    grades = labels.grades if labels.grades is not None else alike.float()
    levels = grades.float().clamp_min(1).log1p().div(math.log(2)).round()
    return torch.where(alike, levels, -1.0).masked_fill(unlike, 0)


def attraction(labels: Target) -> Tensor:
    """How much each alike pair counts, (n, n), 0 elsewhere: its grade, or true."""
    alike, _ = alike_and_unlike(labels)
    if isinstance(labels, Relations) and labels.grades is not None:
        return labels.grades.where(alike, 0)
    return alike


def inner_products(queries: Tensor, items: Tensor | None = None) -> Tensor:
    """⟨q, i⟩ of all queries and items (n, dim), as (n, n); never in half precision.

    Args:
        queries: one for each row of the result.
        items: one for each column; the queries themselves if not given.
    """
    others = queries if items is None else items
    with torch.autocast(queries.device.type, enabled=False):
        common = torch.promote_types(queries.dtype, others.dtype)
        wide = torch.promote_types(common, torch.float32)
        return queries.to(wide) @ others.to(wide).T


def cosines(queries: Tensor, items: Tensor | None = None) -> Tensor:
    """Cosine of all queries and items (n, dim), as (n, n); as ``inner_products``.

    It is 0, without gradient, for a zero row.
    """
    others = queries if items is None else items
    return inner_products(_directions(queries), _directions(others))


def distances(queries: Tensor, items: Tensor | None = None) -> Tensor:
    """‖q − i‖ of all queries and items (n, dim), as (n, n); as ``inner_products``.

    Computed from inner products, about the mean of the queries so that little cancels.
    Rows nearer than rounding can tell apart get distance 0 and no gradient, where the
    gradient of a square root would be anything up to infinite.
    """
    squared, equal = _squared(queries, items)
    return squared.masked_fill(equal, 1).sqrt().masked_fill(equal, 0)


def squared_distances(queries: Tensor, items: Tensor | None = None) -> Tensor:
    """‖q − i‖² of all queries and items (n, dim), as (n, n); as ``inner_products``."""
    squared, _ = _squared(queries, items)
    return squared.clamp_min(0)


def _squared(queries: Tensor, items: Tensor | None) -> tuple[Tensor, Tensor]:
    """Squared distances (n, n), and where they are too small to be told from zero."""
    mean = queries.detach().mean(dim=0)
    others = (queries if items is None else items) - mean
    queries = queries - mean
    products = inner_products(queries, others)
    lengths_sum = _squared_lengths(queries)[:, None] + _squared_lengths(others)
    squared = lengths_sum - 2 * products  # (n, n)
    return squared, squared <= 8 * torch.finfo(squared.dtype).eps * lengths_sum


def _directions(rows: Tensor) -> Tensor:
    lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)  # (n, 1)
    directions: Tensor = rows / lengths.masked_fill(lengths == 0, torch.inf)
    return directions


def _squared_lengths(rows: Tensor) -> Tensor:
    wide = rows.to(torch.promote_types(rows.dtype, torch.float32))
    lengths: Tensor = wide.square().sum(dim=1)  # (n,)
    return lengths


def mean_over_pairs(values: Tensor, known: Tensor) -> Tensor:
    """Mean of (n, n) where known, bool (n, n); zero, with a gradient, if nowhere."""
    return values.masked_fill(~known, 0).sum() / known.sum().clamp_min(1)


class PairLoss(nn.Module, ABC):
    """A loss of how near queries and items are; a child writes the formula.

    Every row of a batch is a query, and every other row an item it should find near or
    far. Where items are compared by their codes, they differ from the queries: give
    their reconstructions as ``items``.
    """

    def forward(
        self, embeddings: Tensor, labels: Target, *, items: Tensor | None = None
    ) -> Tensor:
        """The scalar loss.

        Args:
            embeddings: (n, dim), the queries.
            labels: integers (n,), or booleans (n, L) where rows have several labels, or
                ``Relations`` where it is pairs that are known.
            items: (n, dim), with the same labels; the embeddings if not given. A query
                is never compared with the item of its own row.
        """
        check_batch(embeddings, labels, items)
        return self.loss_of_pairs(self.compare(embeddings, items), labels)

    def compare(self, queries: Tensor, items: Tensor | None) -> Tensor:
        """How far apart queries and items are, or how alike, (n, n): distances."""
        return distances(queries, items)

    @abstractmethod
    def loss_of_pairs(self, compared: Tensor, labels: Target) -> Tensor:
        """The scalar of what ``compare`` found, (n, n); its diagonal must not count."""


class MarginLoss(PairLoss):
    """A loss with one option: by how much distances should differ.

    Args:
        margin: zero or more.
    """

    def __init__(self, margin: float = 1.0) -> None:
        super().__init__()
        if not 0 <= margin < float("inf"):
            raise InputError(f"margin must be zero or more and finite, got {margin}")
        self.margin = margin

    def extra_repr(self) -> str:
        """Shown in ``print(loss)``."""
        return f"margin={self.margin}"
