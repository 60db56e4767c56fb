"""Snapping through the codes: forward, backward, and the codebooks it leaves."""

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

import gradsnap as gs
from gradsnap.coders.quantizers import QUANTIZERS, product
from gradsnap.coders.quantizers.kmeans import best_kmeans, kmeans
from gradsnap.evaluation import RankingRules
from gradsnap.layers import CODE_LAYERS, LAYERS, build_layer, gives_items
from gradsnap.methods import Method
from gradsnap.methods.regularizers import NoRegularizer
from gradsnap.training import run_training
from gradsnap.training.refits import Refits
from gradsnap.training.scoring import Labelled, score
from tests.conftest import clustered, gaussian
from tests.reference_snapping import all_codewords, nearest, snapped_row
from tests.test_snapping import backward, fitted, rows
from tests.training_runs import clusters, config_for


@pytest.mark.parametrize("kind", QUANTIZERS)
def test_forward_is_what_the_codes_say(kind: str) -> None:
    quantizer, y = fitted(kind), rows(20, 1)
    torch.testing.assert_close(gs.CodeSnapping(quantizer)(y), quantizer(y))


@pytest.mark.parametrize("kind", QUANTIZERS)
def test_backward_equals_the_layer_and_the_formula(kind: str) -> None:
    quantizer, y, g = fitted(kind), rows(9, 1), rows(9, 2)
    count = quantizer.codebook_size**quantizer.num_codebooks
    layer = gs.CodeSnapping(quantizer, count, gs.SnappingRule(0.3))
    found = backward(layer, y, g)
    plain = gs.GradientSnapping(quantizer, count, gs.SnappingRule(0.3))
    assert torch.equal(found, backward(plain, y, g))
    if kind in ("pq", "opq"):  # candidates of the others are a beam's
        words = all_codewords(quantizer).tolist()
        expected = [
            snapped_row(row, slope, nearest(row, words, count), 0.3)
            for row, slope in zip(y.tolist(), g.tolist(), strict=True)
        ]
        torch.testing.assert_close(found, torch.tensor(expected, dtype=y.dtype))


@pytest.mark.parametrize("kind", QUANTIZERS)
def test_never_climbs(kind: str) -> None:
    quantizer, y, g = fitted(kind), rows(60, 3), rows(60, 4)
    step = backward(gs.CodeSnapping(quantizer), y, g)
    assert ((g * step).sum(dim=1) >= -1e-9).all()


def test_with_every_row_a_codeword_it_is_the_plain_layer() -> None:
    y = gaussian(16, 4)
    quantizer = gs.ProductQuantizer(4, 1, 16).fit(y)
    labels = torch.arange(16) % 4
    loss = gs.losses.SupervisedContrastiveLoss()
    torch.testing.assert_close(gs.CodeSnapping(quantizer)(y), y)
    through = loss(y, labels, items=gs.CodeSnapping(quantizer)(y))
    torch.testing.assert_close(through, loss(y, labels))


def test_queries_keep_their_gradient() -> None:
    """What reaches the items is snapped; what reaches the queries is left alone."""
    quantizer, labels = fitted().float(), torch.arange(24) % 3
    y = rows(24, 5).float().requires_grad_()
    layer, loss = gs.CodeSnapping(quantizer), gs.TripletLoss()
    loss(y, labels, items=layer(y)).backward()
    queries = y.detach().clone().requires_grad_()
    items = quantizer(y.detach()).requires_grad_()
    loss(queries, labels, items=items).backward()
    assert queries.grad is not None
    assert items.grad is not None
    expected = queries.grad + layer.snap(items.grad, y.detach())
    torch.testing.assert_close(y.grad, expected)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_that_give_items(name: str) -> None:
    assert gives_items(build_layer(name, fitted())) == (name in CODE_LAYERS)


def test_autocast_and_compile() -> None:
    quantizer, y, g = fitted().float(), rows(20, 1).float(), rows(20, 2).float()
    layer = gs.CodeSnapping(quantizer)
    expected = backward(layer, y, g)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(backward(layer, y, g), expected)
    copied = copy.deepcopy(layer)
    torch.testing.assert_close(backward(copied, y, g), expected)


def test_the_mixture_is_added() -> None:
    quantizer, labels = fitted().float(), torch.arange(24) % 3
    y, loss = rows(24, 6).float(), gs.TripletLoss()
    method = Method(
        loss, NoRegularizer(), gs.CodeSnapping(quantizer), quantizer, mixture=0.5
    )
    passed = method.through_layer(y)
    found = method.similarity_loss(y, passed, labels, None)
    expected = loss(y, labels, items=quantizer(y)) + 0.5 * loss(y, labels)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("loss", gs.losses.LOSSES)
def test_every_loss_trains_through_codes(loss, tmp_path: Path) -> None:
    source = clusters(tmp_path / "v.npz")
    words = [f"loss.name={loss}", "layer.name=codes", "loss.mixture=0.3"]
    model = run_training(config_for(source, *words), tmp_path / "m")
    assert model is not None
    assert model.card["figures"]["code_map"] > 0.3


def labelled(part: str) -> Labelled:
    x = clustered(200, seed=len(part))
    return Labelled(x, (x[:, 0] > 0).long())


def fit_to(coder: gs.Coder, part: str) -> gs.Coder:
    return coder.fit(labelled(part).rows)


def validation_map(coder: gs.Coder) -> float:
    rules = RankingRules(None, divisor="relevant", no_hit="zero")
    parts = labelled("validation"), labelled("validation_database")
    return score(coder, *parts, rules).codes.map


def test_the_validation_part_chooses_the_codebooks() -> None:
    """A coder that was taken apart is fitted anew, one that ranks well is kept."""
    good = gs.ProductQuantizer(8, 2, 4).fit(labelled("train").rows)
    spoiled = copy.deepcopy(good)
    spoiled.codebooks.mul_(0)
    assert Refits(spoiled, fit_to, validation_map).best(unseen=False)[0] != "none"
    learned = copy.deepcopy(good)  # two words a block, along what the labels say
    learned.codebooks.zero_()
    learned.codebooks[0, ::2, 0], learned.codebooks[0, 1::2, 0] = -3.0, 3.0
    refits = Refits(learned, fit_to, validation_map)
    assert refits.best(unseen=False)[0] == "none"
    assert refits.coder("none") is learned
    anew = refits.coder("train")
    assert isinstance(anew, gs.ProductQuantizer)
    assert not torch.equal(anew.codebooks, learned.codebooks)


def test_a_refit_never_destroys_what_validation_saw(tmp_path: Path) -> None:
    source = clusters(tmp_path / "v.npz", rows=200)
    words = ["coder.bits=4", "coder.codebook_size=4", "layer.name=codes"]
    words += ["run.steps=60", "optimizer.rate=0.01", "loss.name=supcon"]
    model = run_training(config_for(source, *words), tmp_path / "m")
    assert model is not None
    assert model.card["coder_fitted_to"] in ("none", "train", "database")
    seen, given = model.card["validation_code_map"], model.card["figures"]["code_map"]
    assert given > seen - 0.1


def test_the_best_of_several_fits() -> None:
    x = clustered(300, dim=4, clusters=9)[None]

    def error(centroids: torch.Tensor) -> float:
        return float(torch.cdist(x[0], centroids[0]).amin(dim=1).square().sum())

    single = [
        error(kmeans(x, 4, generator=torch.Generator().manual_seed(seed))[0])
        for seed in range(6)
    ]
    generator = torch.Generator().manual_seed(0)
    found, counts = best_kmeans(x, 4, generator=generator, fits=12)
    assert error(found) <= sorted(single)[1] + 1e-3
    assert counts.sum() == 300


def test_few_words_are_the_best_of_several_fits(monkeypatch) -> None:
    x = clustered(300, dim=8, clusters=9)
    errors = []
    for fits in (1, 12):
        monkeypatch.setattr(product, "FITS", fits)
        errors.append(gs.ProductQuantizer(8, 2, 4).fit(x).error(x))
    assert errors[1] <= errors[0]


def test_identity_of_a_network_is_enough() -> None:
    layer = gs.CodeSnapping(fitted().float())
    network = nn.Linear(fitted().dim, fitted().dim)
    y = network(rows(12, 0).float())
    layer(y).square().sum().backward()
    assert network.weight.grad is not None
    assert network.weight.grad.isfinite().all()
