"""Losses and miners of pytorch-metric-learning behind the snapping layer, unchanged."""

import pytest
import torch
from torch import Tensor

import gradsnap as gs
from gradsnap.triplets import BatchAll
from tests.conftest import clustered

losses = pytest.importorskip(
    "pytorch_metric_learning.losses", reason="the extra metric-learning"
)
miners = pytest.importorskip("pytorch_metric_learning.miners")
distances = pytest.importorskip("pytorch_metric_learning.distances")

DIM, ROWS, CLASSES = 8, 32, 4
LABELS = torch.arange(ROWS) % CLASSES


@pytest.fixture(scope="module")
def quantizer() -> gs.ProductQuantizer:
    quantizer = gs.ProductQuantizer(DIM, num_codebooks=2, codebook_size=16)
    return quantizer.fit(clustered(ROWS))


# Pair losses get no triplet miner: they would turn its triplets into all pairs of
# pairs, which takes many gigabytes even for this batch.
CASES = [
    (losses.TripletMarginLoss(margin=1.0), None),
    (losses.TripletMarginLoss(margin=1.0), miners.TripletMarginMiner(1.0)),
    (losses.TripletMarginLoss(margin=1.0), miners.BatchHardMiner()),
    (losses.ContrastiveLoss(), None),
    (losses.ContrastiveLoss(), miners.PairMarginMiner()),
    (losses.MultiSimilarityLoss(), miners.MultiSimilarityMiner()),
    (losses.NTXentLoss(), None),
    (losses.CircleLoss(), None),
    (losses.ProxyAnchorLoss(CLASSES, DIM), None),
    (losses.ArcFaceLoss(CLASSES, DIM), None),
]


@pytest.mark.parametrize(("loss", "miner"), CASES, ids=lambda part: type(part).__name__)
def test_gradients_arrive_snapped(loss, miner, quantizer) -> None:
    snap = gs.GradientSnapping(quantizer, neighbors=20)
    embeddings = clustered(ROWS, seed=3).requires_grad_()

    def value(rows: Tensor) -> Tensor:
        found: Tensor = loss(
            rows, LABELS, None if miner is None else miner(rows, LABELS)
        )
        return found

    plain = value(embeddings)
    (gradient,) = torch.autograd.grad(plain, embeddings)
    snapped = value(snap(embeddings))
    torch.testing.assert_close(snapped, plain)
    (found,) = torch.autograd.grad(snapped, embeddings)
    torch.testing.assert_close(found, snap.snap(gradient, embeddings))
    assert found.abs().sum() > 0


def test_our_triplets_are_their_indices() -> None:
    embeddings = clustered(ROWS, seed=3)
    triplets = BatchAll().select(embeddings, LABELS)
    distance = distances.LpDistance(normalize_embeddings=False)
    theirs = losses.TripletMarginLoss(margin=1.0, distance=distance)
    torch.testing.assert_close(
        theirs(embeddings, LABELS, tuple(triplets)),
        gs.TripletLoss(1.0)(embeddings, LABELS),
    )


def test_their_triplets_are_our_third_argument() -> None:
    embeddings = clustered(ROWS, seed=3)
    distance = distances.LpDistance(normalize_embeddings=False)
    mined = miners.TripletMarginMiner(1.0, "semihard", distance=distance)(
        embeddings, LABELS
    )
    assert gs.TripletLoss(1.0)(embeddings, LABELS, mined) > 0


PAIR_LOSSES = [
    losses.ContrastiveLoss(),
    losses.MultiSimilarityLoss(),
    losses.NTXentLoss(),
    losses.SupConLoss(),
    losses.TripletMarginLoss(margin=1.0),
]


@pytest.mark.parametrize("loss", PAIR_LOSSES, ids=lambda part: type(part).__name__)
def test_items_are_codes_as_reference_embeddings(loss, quantizer) -> None:
    codes = gs.CodeSnapping(quantizer, neighbors=20)
    embeddings = clustered(ROWS, seed=3).requires_grad_()
    said = quantizer(embeddings).requires_grad_()

    found = loss(embeddings, LABELS, ref_emb=codes(embeddings), ref_labels=LABELS)
    apart = loss(embeddings, LABELS, ref_emb=said, ref_labels=LABELS)
    torch.testing.assert_close(found, apart)
    (gradient,) = torch.autograd.grad(found, embeddings)
    of_queries, of_items = torch.autograd.grad(apart, [embeddings, said])
    expected = of_queries + codes.snap(of_items, embeddings)
    torch.testing.assert_close(gradient, expected)


def test_an_item_is_not_compared_with_its_own_code(quantizer) -> None:
    embeddings = clustered(ROWS, seed=3)
    criterion = losses.ContrastiveLoss(pos_margin=0.0, neg_margin=0.0)
    said = quantizer(embeddings)
    found = criterion(embeddings, LABELS, ref_emb=said, ref_labels=LABELS)
    unit = torch.nn.functional.normalize
    apart = torch.cdist(unit(embeddings), unit(said))
    alike = (LABELS[:, None] == LABELS) & ~torch.eye(ROWS, dtype=torch.bool)
    torch.testing.assert_close(found, apart[alike].mean(), rtol=1e-4, atol=1e-5)
