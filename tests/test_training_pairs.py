"""Whole runs from tables of pairs and triplets, as a user types them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from gradsnap.data import open_dataset
from gradsnap.errors import InputError
from gradsnap.inference.model import Model
from gradsnap.training import run_training, to_toml
from gradsnap.training.by_pairs import ByPairs
from gradsnap.training.config import DataSettings
from gradsnap.training.supervision import supervision_of
from tests.commands import said
from tests.data_files import write_image
from tests.pair_tables import random_pairs, random_triplets, write_table
from tests.test_training_processes import OVERRIDES, torchrun
from tests.training_runs import (
    assert_equal_tensors,
    checkpoint,
    clusters,
    config_for,
    stop_after,
)

ROWS = 120
LABELS = torch.arange(ROWS) % 4
SHORT = ["run.steps=12", "network.dim=8", "run.batch_size=24", "--bits", "8"]
SHORT += ["coder.codebook_size=16"]
TRIPLETS = "anchor,positive,negative"


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    """Vectors of four kinds, without labels."""
    stored = np.load(clusters(tmp_path / "labelled.npz", ROWS))["vectors"]
    np.save(tmp_path / "v.npy", stored)
    return tmp_path / "v.npy"


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    rows = random_pairs(LABELS, 1500)
    return write_table(tmp_path / "pairs.csv", "a,b,similar", rows)


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    rows = [row[:2] for row in random_pairs(LABELS, 1500) if row[2]]
    return write_table(tmp_path / "clicks.csv", "a,b", rows)


@pytest.fixture
def triplets(tmp_path: Path) -> Path:
    return write_table(tmp_path / "t.csv", TRIPLETS, random_triplets(LABELS, 900))


def trained(source: Path, out: Path, *words: str) -> Model:
    model = run_training(config_for(source, *words), out)
    assert model is not None
    return model


def test_pairs_on_vectors(vectors, pairs, tmp_path) -> None:
    text = said("train", vectors, "--pairs", pairs, *SHORT, "--out", tmp_path / "m")
    for word in ("pair AP of floats", "pair AP of codes", "auc of codes"):
        assert word in text
    for word in ("training pairs", "held-out pairs", "items", "nearest"):
        assert word in text
    card = json.loads((tmp_path / "m" / "card.json").read_text())
    assert card["figures"]["code_ap"] > 0.6  # a quarter of the pairs are alike
    assert card["protocol"] == {"name": "items"}
    assert card["card"]["pairs"] == str(pairs)
    assert card["validation_code_ap_finished"] > 0.5
    assert "classes" not in card


def test_evaluate_gives_the_figures_of_the_card(vectors, pairs, tmp_path) -> None:
    said("train", vectors, "--pairs", pairs, *SHORT, "--out", tmp_path / "m")
    moved = pairs.rename(tmp_path / "moved.csv")
    assert "there is no file" in said("evaluate", tmp_path / "m")
    text = said("evaluate", tmp_path / "m", "--pairs", moved, "--json")
    card = json.loads((tmp_path / "m" / "card.json").read_text())
    facts = json.loads(text)
    assert facts["pair AP of codes"] == pytest.approx(card["figures"]["code_ap"])
    assert facts["split_hashes"] == card["card"]["split_hashes"]
    written = json.loads((tmp_path / "m" / "evaluation" / "figures.json").read_text())
    assert written["figures"] == pytest.approx(card["figures"])


def test_clicks_alone_are_enough(vectors, clicks, tmp_path) -> None:
    card = trained(vectors, tmp_path / "m", f"data.pairs={clicks}").card
    figures, count = card["figures"], card["card"]["database"]
    assert card["title"] == "partner MAP"
    # any partner of three kinds less to look through: at least twice what chance gives
    assert figures["code_recall_at_10"] > 2 * 10 / count
    assert "others unlike" in card["facts"]["training pairs"]


@pytest.mark.parametrize("loss", ["triplet", "supcon"])
@pytest.mark.parametrize("others", ["unknown", "inferred", "unlike"])
def test_triplets(vectors, triplets, tmp_path, loss: str, others: str) -> None:
    words = [f"data.triplets={triplets}", f"loss.name={loss}"]
    words += [f"data.other_pairs={others}"]
    card = trained(vectors, tmp_path / "m", *words).card
    assert card["title"] == "triplet accuracy"
    assert card["figures"]["code_accuracy"] > 0.8


@pytest.mark.parametrize(
    "loss", ["triplet", "contrastive", "cosine", "logistic", "listwise", "supcon"]
)
def test_every_loss_of_pairs_trains(vectors, pairs, tmp_path, loss: str) -> None:
    words = (f"data.pairs={pairs}", f"loss.name={loss}", "layer.name=codes")
    assert trained(vectors, tmp_path / "m", *words).card["figures"]["code_ap"] > 0.5


def test_every_selector_takes_pairs(vectors, pairs, tmp_path) -> None:
    for name in ("batch-hard", "semi-hard"):
        words = (f"data.pairs={pairs}", f"loss.triplets={name}")
        assert (
            trained(vectors, tmp_path / name, *words).card["figures"]["code_ap"] > 0.5
        )


def test_grades_reach_the_loss(vectors, tmp_path) -> None:
    rows = [(a, b, 3 * s if a % 2 else s) for a, b, s in random_pairs(LABELS, 1500)]
    table = write_table(tmp_path / "graded.csv", "a,b,similar", rows)
    plain = write_table(tmp_path / "p.csv", "a,b,similar", random_pairs(LABELS, 1500))
    words = ["loss.name=supcon", "data.validation=0"]
    ours, theirs = (
        trained(vectors, tmp_path / one.stem, f"data.pairs={one}", *words)
        for one in (table, plain)
    )
    weights = [model.network.state_dict() for model in (ours, theirs)]
    name = next(name for name in weights[0] if name.endswith("weight"))
    assert not torch.equal(weights[0][name], weights[1][name])


def test_photos_by_their_names(tmp_path: Path) -> None:
    """Names as in the folder; photos beside folders and in them; classes unused."""
    names = [f"{'in/' if n % 2 else ''}{n}.png" for n in range(24)]
    for number, name in enumerate(names):
        write_image(tmp_path / "photos" / name, seed=number)
    labels = torch.arange(24) % 2
    rows = [(names[a], names[b], s) for a, b, s in random_pairs(labels, 300)]
    table = write_table(tmp_path / "pairs.csv", "a,b,similar", rows)
    words = [*SHORT[:-3], "--bits", "8", "coder.codebook_size=4"]
    words += ["network.name=small", "data.side=16", "data.protocol_options.queries=0.2"]
    folder = tmp_path / "photos"
    text = said("train", folder, "--pairs", table, *words, "--out", tmp_path / "m")
    assert "pair AP of codes" in text


def test_couples_are_held_out_whole(vectors, tmp_path) -> None:
    """Each item in one pair: components, so that no pair is lost."""
    rows = [(n, n + 1) for n in range(0, ROWS, 2)]
    table = write_table(tmp_path / "couples.csv", "a,b", rows)
    made = supervision_of(open_dataset(vectors), DataSettings(pairs=str(table)))
    assert isinstance(made, ByPairs)
    assert made.protocol == "components"
    split = made.parts
    asked = made.asked(split.queries, split.database).pairs
    kept = len(made.training) + len(asked) // 2
    kept += len(made.asked(split.validation, split.validation_database).pairs) // 2
    assert kept == len(rows)
    card = trained(vectors, tmp_path / "m", f"data.pairs={table}").card
    assert card["protocol"] == {"name": "components"}
    assert 0 < card["figures"]["code_partner_map"] <= 1
    assert card["card"]["queries"] == card["card"]["database"] == len(split.queries)


@pytest.mark.parametrize("by", ["components", "items"])
def test_nothing_held_out_is_trained_on(vectors, pairs, by: str) -> None:
    settings = DataSettings(pairs=str(pairs), protocol=by)
    if by == "components":  # four of them, so that much is asked for
        settings = settings.model_copy(
            update={"protocol_options": {"queries": 0.3}, "validation": 0.3}
        )
    made = supervision_of(open_dataset(vectors), settings)
    assert isinstance(made, ByPairs)
    config = config_for(vectors, f"data.pairs={pairs}")
    apart = torch.cat([made.parts.queries, made.parts.validation])
    for _, drawn in zip(
        range(30), made.batches(config, made.parts.train), strict=False
    ):
        assert not torch.isin(drawn.indices, apart).any()
    asked = made.asked(made.parts.validation, made.parts.validation_database).pairs
    assert not torch.isin(asked, made.parts.queries).any()


def test_resuming_equals_not_stopping(vectors, clicks, tmp_path, monkeypatch) -> None:
    config = config_for(vectors, f"data.pairs={clicks}")
    run_training(config, tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_after(patch, 7)
        with pytest.raises(KeyboardInterrupt):
            run_training(config, tmp_path / "parts")
    run_training(config, tmp_path / "parts")
    assert_equal_tensors(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "parts"))


@pytest.mark.slow
@pytest.mark.usefixtures("all_fits")
@pytest.mark.parametrize("kind", ["pairs", "triplets"])
def test_two_processes_equal_one(vectors, pairs, triplets, tmp_path, kind) -> None:
    table = {"pairs": pairs, "triplets": triplets}[kind]
    config = config_for(vectors, *OVERRIDES, f"data.{kind}={table}")
    run_training(config, tmp_path / "one")
    (tmp_path / "run.toml").write_text(to_toml(config))
    words = ("train", "--config", str(tmp_path / "run.toml"))
    done = torchrun("-m", "gradsnap", *words, "--out", str(tmp_path / "two"))
    assert done.returncode == 0, done.stderr[-2000:]
    one, two = checkpoint(tmp_path / "one"), checkpoint(tmp_path / "two")
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=2e-3, atol=2e-4, msg=name)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["coder.kind=ksh"], "'ksh' is fitted to labels, .* such as pq"),
        (["loss.name=classification"], "learns classes, .* such as supcon"),
        (
            ["loss.name=triplet", "loss.triplets=uniform"],
            "uniform draws by labels, .* batch-all",
        ),
        (["run.items_per_class=2"], "items_per_class needs labels"),
        (["data.protocol=paper"], "'paper' divides by labels; .* components, items"),
        (["data.protocol_options.seen=0.5"], "no option seen; it has queries"),
        (["data.triplets=t.csv"], "data.pairs or data.triplets, not both"),
    ],
)
def test_what_needs_labels_is_refused(vectors, pairs, tmp_path, words, message) -> None:
    with pytest.raises(InputError, match=message):
        trained(vectors, tmp_path / "m", f"data.pairs={pairs}", *words)


def test_too_few_pairs_are_refused(vectors, tmp_path) -> None:
    table = write_table(tmp_path / "few.csv", "a,b", [(0, 1), (2, 3)])
    with pytest.raises(InputError, match=r"no alike pair is left for the .* 2 alike"):
        trained(vectors, tmp_path / "m", f"data.pairs={table}")
    table = write_table(tmp_path / "few.csv", TRIPLETS, [(0, 1, 2), (3, 4, 5)])
    with pytest.raises(InputError, match=r"no triplet is left for the .* 2 triplets"):
        trained(vectors, tmp_path / "m", f"data.triplets={table}")


def test_labels_are_not_divided_as_pairs(tmp_path) -> None:
    source = clusters(tmp_path / "v.npz")
    with pytest.raises(InputError, match=r"unknown protocol of labels 'components'"):
        trained(source, tmp_path / "m", "data.protocol=components")


# --- what pairs keep of labels ------------------------------------------------------


def by_labels(model: Model, labels: Tensor, queries: Tensor) -> float:
    """Share of the ten nearest of other digits, by codes, that are the same digit."""
    dataset = open_dataset("digits")
    searched = torch.arange(len(dataset))[
        ~torch.isin(torch.arange(len(dataset)), queries)
    ]
    rows, codes = (model.embed(dataset, indices=one) for one in (queries, searched))
    apart = model.coder.distances(rows, model.coder.encode(codes))
    nearest = searched[apart.topk(10, largest=False).indices]
    return float((labels[nearest] == labels[queries, None]).float().mean())


@pytest.mark.slow
def test_pairs_approach_labels_on_digits(tmp_path) -> None:
    labels = open_dataset("digits").labels
    assert labels is not None
    queries = torch.arange(0, len(labels), 10)
    rest = torch.arange(len(labels))[torch.arange(len(labels)) % 10 > 0]
    rows = [
        (int(rest[a]), int(rest[b]), s) for a, b, s in random_pairs(labels[rest], 20000)
    ]
    table = write_table(tmp_path / "pairs.csv", "a,b,similar", rows)
    words = ["network.name=mlp", "run.steps=300", "run.batch_size=128", "coder.bits=16"]
    words += ["network.dim=32", "optimizer.rate=0.003", "loss.name=supcon"]
    words += ["run.validate_every=100"]
    taught = trained("digits", tmp_path / "m", *words)  # type: ignore[arg-type]
    paired = trained("digits", tmp_path / "p", *words, f"data.pairs={table}")  # type: ignore[arg-type]
    ours, theirs = (by_labels(one, labels, queries) for one in (paired, taught))
    assert theirs > 0.9
    assert ours > theirs - 0.05
