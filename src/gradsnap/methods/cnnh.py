"""CNNH and CNNH*: hashes from the similarity first, then a network that learns them."""

import torch
from torch import Tensor

from gradsnap.coders.hashers.hasher import signs_of
from gradsnap.errors import InputError
from gradsnap.losses.classification import ClassificationLoss
from gradsnap.losses.pairs import shared_labels
from gradsnap.losses.rows import RowLoss
from gradsnap.methods.method import Recipe
from gradsnap.methods.regularizers import check_strength
from gradsnap.progress import track

PASSES = 5
"""Over all entries of H, at most."""

MOST_SETS = 512
"""Different sets of labels that get a hash of their own, the most frequent ones."""


class HashRegressionLoss(RowLoss):
    """mean (tanh output − target)²: a network learns hashes that are given.

    Xia et al., "Supervised hashing for image retrieval via image representation
    learning", AAAI 2014. First step: ``similarity_hashes`` of the training labels,
    once, before anything is trained. Second step: the network learns them as targets.
    The paper was not at hand; checked against swuxyj/DeepHash-pytorch, which has the
    same mean of squares, of outputs without tanh, and ten passes for our five.

    Items with the same labels are alike in S, and so have one hash together: S is kept
    as a row for each different set of labels, instead of n × n. A batch's labels find
    their target as the set that agrees with them in most labels.

    Args:
        labels: of the training part, (n,) or (n, L).
        bits: length of a hash.
        seed: of the first H, and of the order of its entries.
    """

    sets: Tensor
    targets: Tensor

    def __init__(self, labels: Tensor | None, bits: int, seed: int = 0) -> None:
        super().__init__()
        if labels is None:
            raise InputError("CNNH needs the labels of the training part; got none")
        sets, counts = _frequent_sets(labels)
        several = labels.ndim == 2
        wanted = 2.0 * (shared_labels(sets if several else sets[:, 0]) > 0) - 1
        self.register_buffer("sets", sets)  # (U, L), or the classes (U, 1)
        self.register_buffer("targets", similarity_hashes(wanted, counts, bits, seed))

    def loss_of_rows(self, rows: Tensor, labels: Tensor) -> Tensor:
        """The mean over rows (n, bits) and their bits."""
        off = rows - self.targets_of(labels).to(rows)
        return off.square().sum() / max(off.numel(), 1)

    def targets_of(self, labels: Tensor) -> Tensor:
        """The hash of each row, −1 and 1 (n, bits), of labels (n,) or (n, L)."""
        if labels.ndim == 1:
            agree = (labels[:, None] == self.sets.T).float()  # (n, U)
        else:
            own, sets = labels.float(), self.sets.float()
            agree = own @ sets.T + (1 - own) @ (1 - sets).T
        return self.targets[agree.argmax(dim=1)]

    def extra_repr(self) -> str:
        """Shown in ``print(loss)``."""
        sets, bits = self.targets.shape
        return f"bits={bits}, sets={sets}"


class ClassifiedRegressionLoss(HashRegressionLoss):
    """The same, with a classifier of the outputs beside it.

    Args:
        labels: of the training part, (n,) or (n, L).
        bits: length of a hash.
        num_classes: how many classes or labels there are.
        classification: weight of its cross entropy.
        seed: of the first step and of the classifier.
    """

    def __init__(
        self,
        labels: Tensor | None,
        bits: int,
        num_classes: int,
        classification: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__(labels, bits, seed)
        check_strength(classification)
        self.classification = classification
        self.classes = ClassificationLoss(num_classes, bits, seed)

    def loss_of_rows(self, rows: Tensor, labels: Tensor) -> Tensor:
        """Both terms, of rows (n, bits)."""
        told = self.classes.loss_of_rows(rows, labels)
        return super().loss_of_rows(rows, labels) + self.classification * told


def similarity_hashes(
    wanted: Tensor, counts: Tensor, bits: int, seed: int = 0
) -> Tensor:
    """H of −1 and 1, (U, bits), with inner products near to S: min ‖S − HHᵀ/bits‖².

    Coordinate descent, as in the paper: H in [−1, 1], entry after entry in random
    order, each moved by its Newton step, clipped; the signs at the end. Step,
    derivatives and update are equations 6, 7 and 8, by the numbers of
    swuxyj/DeepHash-pytorch.

    Args:
        wanted: S of the different rows, −1 and 1 (U, U).
        counts: how many rows are alike, (U,); each weighs as a row of its own.
        bits: length of a hash.
        seed: of the first H and of the order.
    """
    generator = torch.Generator().manual_seed(seed)
    share = counts.double() / counts.sum()
    hashes = 2 * torch.rand(len(wanted), bits, generator=generator).double() - 1
    off = hashes @ hashes.T - bits * wanted.double()  # (U, U)
    orders = [
        torch.randperm(hashes.numel(), generator=generator) for _ in range(PASSES)
    ]
    for place in track(torch.cat(orders).tolist(), "finding hashes of the labels"):
        _descend(hashes, off, share, *divmod(place, bits))
    return signs_of(hashes).float()


def _descend(hashes: Tensor, off: Tensor, share: Tensor, row: int, bit: int) -> None:
    """Moves one entry of H, and what is off in HHᵀ − bits·S with it.

    With p the share of a row and d the move, the error is, but for a factor of p,

        Σ_{l ≠ row} 2 pₗ (offₗ + d hₗ)² + p (off + 2dh + d²)²

    The paper's rows are all different and p is tiny; where it is not, the last term can
    bend the error down, and the entry goes to the end of [−1, 1] that lies down-hill.
    """
    column, own = hashes[:, bit], hashes[row, bit]
    slope = (share * off[row]) @ column  # a fourth of the first derivative
    curve = (share * column) @ column + share[row] * (own.square() + off[row, row])
    step = -slope / curve if curve > 0 else -slope.sign() * 2
    move = step.clamp(-1 - own, 1 - own)
    off[row] += move * column
    off[:, row] += move * column
    off[row, row] += move.square()
    hashes[row, bit] += move


def _frequent_sets(labels: Tensor) -> tuple[Tensor, Tensor]:
    """The different classes (U, 1) or sets of labels (U, L), and their rows (U,)."""
    rows = labels[:, None] if labels.ndim == 1 else labels
    found, counts = rows.unique(dim=0, return_counts=True)
    most = counts.argsort(descending=True, stable=True)[:MOST_SETS]
    return found[most], counts[most]


CNNH = Recipe(
    summary="Xia et al. 2014: hashes from the similarity matrix, then learned",
    loss=HashRegressionLoss,
    layer="tanh",
    coder="sign",
)
"""Two steps; the paper's network ends in as many outputs as bits, and so does ours."""

CNNH_STAR = Recipe(
    summary="CNNH with a classifier beside the hashes (CNNH+), on a better network",
    loss=ClassifiedRegressionLoss,
    layer="tanh",
    coder="sign",
    tries=("loss.options.classification", (0.1, 0.03, 0.3)),
)
"""What the tables call CNNH* is Lai et al.'s CNNH on the network of NINH. Networks are
the same for all methods here, so that what remains of it is CNNH+, the variant of Xia
et al. that also tells the classes. Departure: theirs come from the trunk beside the
hash, ours from the hash outputs, which are what a loss is given.
"""
