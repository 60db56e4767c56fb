"""Protocols: the laws of every split, the paper's counts, and what is refused."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import gradsnap as gs
from gradsnap.data import (
    PROTOCOLS,
    FractionProtocol,
    IlsvrcProtocol,
    NuswideProtocol,
    PaperProtocol,
    Protocol,
    Split,
    UnseenClasses,
)
from gradsnap.evaluation import ranked_relevance, relevance, total_relevant

SMALL: dict[str, Protocol] = {
    "paper": PaperProtocol(2, 4),
    "fraction": FractionProtocol(0.2),
    "nuswide": NuswideProtocol(2, 4),
    "ilsvrc2012": IlsvrcProtocol(),
    "unseen": UnseenClasses(0.5, queries_per_class=2),
}
"""Every key of PROTOCOLS with counts that fit small data."""


def single(items: int = 120, classes: int = 6) -> Tensor:
    return torch.arange(items) * 7 % classes


def multi_hot(items: int = 300, labels: int = 5) -> Tensor:
    drawn = torch.rand(items, labels, generator=torch.Generator().manual_seed(0))
    return drawn < 0.3


def labels_for(kind: str, items: int, classes: int) -> Tensor:
    return multi_hot(items, classes) if kind == "nuswide" else single(items, classes)


def divided(kind: str, seed: int = 0, validation: float = 0.0, items=120) -> Split:
    protocol = SMALL[kind].with_validation(validation)
    held_out = torch.arange(items) % 5 == 0
    return protocol.split(labels_for(kind, items, 6), seed, held_out)


def as_set(indices: Tensor) -> set[int]:
    return set(indices.tolist())


@pytest.fixture(params=list(PROTOCOLS))
def kind(request) -> str:
    return str(request.param)


def test_every_protocol_is_tested() -> None:
    assert SMALL.keys() == PROTOCOLS.keys()


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(list(PROTOCOLS)),
    seed=st.integers(0, 2**63),
    validation=st.sampled_from([0.0, 0.1, 0.3]),
    items=st.integers(120, 200),
)
def test_laws_of_every_split(kind, seed, validation, items) -> None:
    split = divided(kind, seed, validation, items)
    parts = vars(split)
    for part in parts.values():
        assert part.dtype == torch.int64
        assert (part.diff() > 0).all()
        assert not len(part) or 0 <= part[0] <= part[-1] < items
    train, queries, validated = map(
        as_set, (split.train, split.queries, split.validation)
    )
    assert train
    assert queries
    assert not train & queries
    assert not queries & as_set(split.database)
    assert not validated & (train | queries)
    assert not validated & as_set(split.validation_database)
    assert bool(validated) == bool(validation) == bool(len(split.validation_database))
    whole = divided(kind, seed, 0.0, items)
    assert train | validated | as_set(split.validation_database) == as_set(whole.train)
    assert torch.equal(whole.queries, split.queries)
    assert torch.equal(whole.database, split.database)
    assert split.hash == divided(kind, seed, validation, items).hash


def test_every_query_has_something_to_find(kind) -> None:
    split = divided(kind, validation=0.2)
    labels = labels_for(kind, 120, 6)
    for asked, searched in (
        (split.queries, split.database),
        (split.validation, split.validation_database),
    ):
        assert (total_relevant(labels[asked], labels[searched]) > 0).all()


def test_the_seed_decides(kind) -> None:
    first, again, other = divided(kind), divided(kind), divided(kind, seed=1)
    assert first.hash == again.hash
    assert (first.hash == other.hash) == (kind == "ilsvrc2012")


def test_a_protocol_is_a_value(kind) -> None:
    protocol = SMALL[kind]
    assert protocol == type(protocol)(**vars(protocol))
    assert protocol.with_validation(0.1) != protocol
    assert protocol.with_validation(0.1).with_validation(0.0) == protocol
    assert hash(protocol) == hash(protocol.with_validation(0.0))


HASHES = {
    "paper": "6f2031246d16a9e2",
    "fraction": "3ac7cef218763943",
    "nuswide": "6242b1d47871f9ff",
    "ilsvrc2012": "dc8215caa325dd8a",
    "unseen": "3c4dbb15382161c3",
}
"""What each small protocol gives on every machine, for ever: published splits."""


def test_splits_are_the_same_on_every_machine(kind) -> None:
    rows = torch.arange(120)
    labels = (rows[:, None] * 5 + torch.arange(6) ** 2) % 7 < 2
    if kind != "nuswide":
        labels = rows * 7 % 6
    split = SMALL[kind].with_validation(0.25).split(labels, 3, rows % 5 == 0)
    assert split.hash == HASHES[kind]


def test_the_draw_equals_a_loop_over_numpys_raw_stream() -> None:
    labels = single(120, 6)
    source = np.random.PCG64(np.random.SeedSequence([9, 0]))
    keys = [int(source.random_raw()) for _ in range(120)]
    queries, train = [], []
    for label in range(6):
        members = [row for row in range(120) if labels[row] == label]
        members.sort(key=lambda row: keys[row])
        queries += members[:2]
        train += members[2:6]
    split = PaperProtocol(2, 4).split(labels, seed=9)
    assert split.queries.tolist() == sorted(queries)
    assert split.train.tolist() == sorted(train)


def test_a_small_split_is_these_very_items() -> None:
    split = PaperProtocol(1, 1).split(torch.tensor([0, 1] * 4), seed=5)
    assert split.queries.tolist() == [4, 7]
    assert split.train.tolist() == [3, 6]


@pytest.mark.parametrize(("inside", "database"), [(True, 590), (False, 540)])
def test_the_papers_counts(inside: bool, database: int) -> None:
    labels = torch.arange(600) % 10
    split = PaperProtocol(1, 5, training_in_database=inside).split(labels)
    assert len(split.database) == database
    assert (torch.bincount(labels[split.queries]) == 1).all()
    assert (torch.bincount(labels[split.train]) == 5).all()
    assert (as_set(split.train) <= as_set(split.database)) == inside


def test_items_are_drawn_evenly() -> None:
    labels = torch.arange(40) % 2
    drawn = torch.zeros(40)
    for seed in range(400):
        drawn[PaperProtocol(2, 3).split(labels, seed).queries] += 1
    expected = 400 * 4 / 40
    assert (drawn - expected).abs().max() < 5 * expected**0.5


def test_validation_takes_its_share_of_every_class() -> None:
    labels = single(120, 6)
    split = PaperProtocol(2, 10).with_validation(0.2).split(labels)
    assert torch.bincount(labels[split.validation]).tolist() == [2] * 6
    assert torch.bincount(labels[split.train]).tolist() == [8] * 6
    assert torch.equal(split.train, split.validation_database)


def test_validation_searches_new_items_where_the_database_is_new() -> None:
    labels = single(600, 6)
    paper = PaperProtocol(2, 20).with_validation(0.4).split(labels)
    assert torch.bincount(labels[paper.validation]).tolist() == [4] * 6
    assert torch.bincount(labels[paper.validation_database]).tolist() == [4] * 6
    assert not as_set(paper.validation_database) & as_set(paper.train)
    mostly = PaperProtocol(2, 60).with_validation(0.4).split(labels)  # 60 of 98
    assert torch.equal(mostly.validation_database, mostly.train)
    assert mostly.validates_on_training
    assert not paper.validates_on_training
    assert not PaperProtocol(2, 60).split(labels).validates_on_training


def test_fraction_serves_uneven_classes_and_several_labels() -> None:
    labels = torch.tensor([0] * 2 + [1] * 30)
    split = FractionProtocol(0.1).split(labels)
    assert torch.bincount(labels[split.queries]).tolist() == [1, 3]
    several = multi_hot(100)
    split = FractionProtocol(0.1).split(several)
    labelled = int(several.any(dim=1).sum())
    assert len(split.queries) == round(labelled / 10)
    assert len(split.database) == labelled - len(split.queries)


def test_nuswide_draws_for_each_label_and_no_item_twice() -> None:
    labels = multi_hot(400, 7)
    split = NuswideProtocol(3, 9).split(labels)
    assert (len(split.queries), len(split.train)) == (21, 63)
    assert (labels[split.queries].sum(dim=0) >= 3).all()
    assert (labels[split.train].sum(dim=0) >= 9).all()
    labelled = as_set(labels.any(dim=1).nonzero().flatten())
    assert as_set(split.database) == labelled - as_set(split.queries)
    apart = NuswideProtocol(3, 9, training_in_database=False).split(labels)
    assert as_set(apart.database) == as_set(split.database) - as_set(split.train)


def test_ilsvrc_follows_the_publisher() -> None:
    held_out = torch.arange(120) >= 100
    for labels in (single(), multi_hot(120)):
        split = IlsvrcProtocol().split(labels, 0, held_out)
        assert split.queries.tolist() == list(range(100, 120))
        assert split.train.tolist() == split.database.tolist() == list(range(100))


def test_held_out_must_fit_the_labels() -> None:
    for wrong in (torch.zeros(5, dtype=torch.bool), torch.zeros(120)):
        with pytest.raises(gs.InputError, match=r"held_out must be bool \(120,\)"):
            IlsvrcProtocol().split(single(), 0, wrong)


@pytest.mark.parametrize("seen", [0.5, (0, 2, 5), [5, 0, 2]])
def test_unseen_classes_never_meet(seen) -> None:
    labels = single(120, 6)
    split = UnseenClasses(seen, queries_per_class=2).split(labels)
    trained, asked = as_set(labels[split.train]), as_set(labels[split.queries])
    assert len(trained) == 3
    assert asked == set(range(6)) - trained == as_set(labels[split.database])
    if seen != 0.5:
        assert trained == {0, 2, 5}


def test_validation_of_unseen_classes_takes_whole_classes() -> None:
    labels = single(120, 6)
    split = UnseenClasses(0.5, 2).with_validation(0.3).split(labels)
    validated = as_set(labels[split.validation])
    assert len(validated) == 1
    assert validated == as_set(labels[split.validation_database])
    assert not validated & as_set(labels[split.train])


@pytest.mark.parametrize(
    ("protocol", "sentence"),
    [
        (PaperProtocol(5, 16), "class 0 has 20 items, and 5 queries and 16 .* 21"),
        (PaperProtocol(), "6 of 6 classes are too small: .* at least 600 of each"),
        (PaperProtocol(4, 16, training_in_database=False), "at least 21 of each class"),
        (PaperProtocol(2, 1, validation=0.5), "class 0 has 1 items, and a validation"),
        (NuswideProtocol(1, 1), "NuswideProtocol needs multi-hot labels"),
        (IlsvrcProtocol(), "no published test part, so take another"),
        (
            UnseenClasses((0, 9)),
            r"classes \[9\], which no item has; there are 6 classes",
        ),
        (UnseenClasses((0,)), "two classes or more and leave one; it holds 1 of 6"),
        (UnseenClasses(tuple(range(6))), "it holds 6 of 6"),
        (UnseenClasses(0.5, 20), "class . has 20 items, and 20 queries and something"),
        (UnseenClasses(0.4, 1, validation=0.9), "2 seen classes leave fewer than two"),
    ],
)
def test_too_little_data_is_refused(protocol, sentence) -> None:
    with pytest.raises(gs.InputError, match=sentence):
        protocol.split(single(120, 6))


@pytest.mark.parametrize(
    ("protocol", "sentence"),
    [
        (PaperProtocol(1, 1), "one label an item, .* take NuswideProtocol"),
        (UnseenClasses(0.5, 1), "one label an item"),
        (
            NuswideProtocol(200, 1),
            "label . has .* items, .* few for 200 queries a label",
        ),
        (NuswideProtocol(1, 200), "too few for 200 training items a label"),
    ],
)
def test_several_labels_that_do_not_fit_are_refused(protocol, sentence) -> None:
    with pytest.raises(gs.InputError, match=sentence):
        protocol.split(multi_hot())


def test_nuswide_needs_a_database() -> None:
    protocol = NuswideProtocol(1, 1, training_in_database=False)
    with pytest.raises(gs.InputError, match="leave no database"):
        protocol.split(torch.eye(2, dtype=torch.bool).repeat(2, 1))


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (torch.zeros(9, dtype=torch.int64), "two classes; these 9 items have 1"),
        (torch.zeros(0, dtype=torch.int64), "these 0 items have 0"),
        (torch.ones(9, 1, dtype=torch.bool), "these 9 items have 1"),
        (torch.arange(4), "class 0 has 1 items"),
        (torch.zeros(9), "got torch.float32 of shape"),
        (torch.zeros(9, 2, dtype=torch.int64), r"got torch.int64 of shape \(9, 2\)"),
    ],
)
def test_labels_that_cannot_be_divided_are_refused(labels, sentence) -> None:
    with pytest.raises(gs.InputError, match=sentence):
        FractionProtocol().split(labels)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: PaperProtocol(0), "queries_per_class must be at least 1, got 0"),
        (lambda: PaperProtocol(1, -1), "training_per_class must be .* got -1"),
        (lambda: NuswideProtocol(0), "queries_per_label"),
        (lambda: NuswideProtocol(1, 0), "training_per_label"),
        (lambda: FractionProtocol(1.0), "queries must lie between 0 and 1, got 1.0"),
        (lambda: UnseenClasses(1.5), "seen must lie between 0 and 1, got 1.5"),
        (lambda: UnseenClasses(1), "seen must lie between 0 and 1, got 1"),
        (lambda: UnseenClasses(0.5, 0), "queries_per_class"),
        (lambda: PaperProtocol(validation=1.0), r"lie in \[0, 1\), got 1.0"),
        (lambda: PaperProtocol().with_validation(-0.1), "got -0.1"),
        (lambda: PaperProtocol(1, 1).split(single(), -1), "seed must be .* got -1"),
    ],
)
def test_values_that_cannot_be_are_refused(make, sentence) -> None:
    with pytest.raises(gs.InputError, match=sentence):
        make()


def test_relevance_by_hand() -> None:
    table = relevance(torch.tensor([1, 2]), torch.tensor([2, 1, 1]))
    assert table.int().tolist() == [[0, 1, 1], [1, 0, 0]]
    queries = torch.tensor([[True, False, True], [False, False, False]])
    database = torch.tensor([[True, True, False], [False, True, False]])
    assert relevance(queries, database).int().tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize("labels", [single(90, 4), multi_hot(90)], ids=["one", "many"])
def test_ranked_and_total_relevance_are_parts_of_the_table(labels) -> None:
    queries, database = labels[:10], labels[10:]
    table = relevance(queries, database)
    assert torch.equal(total_relevant(queries, database), table.sum(dim=1))
    order = torch.rand(10, 80, generator=torch.Generator().manual_seed(0)).argsort(
        dim=1
    )
    ids = order[:, :7].clone()
    ids[0, 5:] = -1
    expected = table.gather(1, ids.clamp_min(0)) & (ids >= 0)
    assert torch.equal(ranked_relevance(queries, database, ids), expected)


def test_relevance_of_two_kinds_of_labels_is_refused() -> None:
    for function in (relevance, total_relevant):
        with pytest.raises(gs.InputError, match=r"got \(120,\) and \(300, 5\)"):
            function(single(), multi_hot())
