"""How pairs divide items, fill batches and become relations; slow twins beside."""

import itertools

import pytest
import torch
from torch import Tensor

from gradsnap.data import PairProtocol, components
from gradsnap.errors import InputError
from gradsnap.training.batches import Anchored, ListedTriplets, Partners
from gradsnap.training.by_triplets import pairs_of_triplets
from gradsnap.training.known_pairs import (
    Connected,
    GivenRelations,
    KnownPairs,
    OthersUnlike,
    is_transitive,
    relations_of,
)

COUNT = 60


def some_pairs(count: int, seed: int = 0) -> Tensor:
    """Each once, (m, 2), the smaller number first."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(COUNT, (count, 2), generator=generator).sort(dim=1).values
    found: Tensor = drawn[drawn[:, 0] < drawn[:, 1]].unique(dim=0)
    return found


def families(size: int = 3) -> Tensor:
    """Items 0, 1, 2 in a chain, then 3, 4, 5, and so on."""
    every = range(0, COUNT, size)
    return torch.tensor([(i + j, i + j + 1) for i in every for j in range(size - 1)])


def graph(pairs: Tensor) -> dict[int, set[int]]:
    """Who is connected with whom, directly."""
    found: dict[int, set[int]] = {item: set() for item in range(COUNT)}
    for a, b in pairs.tolist():
        found[a].add(b)
        found[b].add(a)
    return found


def reached(start: int, partners: dict[int, set[int]]) -> set[int]:
    """All that a walk comes to."""
    seen, waiting = {start}, [start]
    while waiting:
        new = partners[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


def test_components_are_what_a_walk_reaches() -> None:
    pairs = some_pairs(35)
    groups, partners = components(pairs, COUNT), graph(pairs)
    for item in range(COUNT):
        together = (groups == groups[item]).nonzero().squeeze(1).tolist()
        assert set(together) == reached(item, partners)


# --- the split --------------------------------------------------------------------


@pytest.mark.parametrize("by", ["components", "items"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_item_is_in_two_parts(by: str, seed: int) -> None:
    alike, unlike = families(), some_pairs(60)
    split = PairProtocol(by=by).split(alike, unlike, COUNT, seed)
    parts = [split.train, split.validation, split.queries]
    together = torch.cat(parts)
    assert len(together.unique()) == len(together) == COUNT
    assert all(len(part) >= 4 for part in parts)
    assert not torch.isin(split.queries, split.database).any()
    assert torch.equal(split.validation_database, split.train)


def test_components_stay_whole() -> None:
    split = PairProtocol(by="components").split(families(), families(), COUNT, 0)
    for part in (split.train, split.validation, split.queries):
        assert torch.isin(families(), part).all(dim=1).sum() * 3 == 2 * len(part)


def test_components_where_they_are_small_items_where_not() -> None:
    assert PairProtocol().chosen(families(3), COUNT) == "components"
    assert PairProtocol().chosen(families(20), COUNT) == "items"
    assert PairProtocol(queries=0.4).chosen(families(20), COUNT) == "components"
    assert PairProtocol(by="items").chosen(families(3), COUNT) == "items"


def test_items_in_no_pair_are_in_the_database_alone() -> None:
    alike = families()[:20]
    split = PairProtocol().split(alike, alike[:0], COUNT, 0)
    asked = torch.cat([split.train, split.validation, split.queries])
    assert set(asked.tolist()) == set(alike.flatten().tolist())
    assert set(range(30, COUNT)) <= set(split.database.tolist())


def test_protocols_and_shares_are_checked() -> None:
    with pytest.raises(InputError, match=r"'paper' divides by labels; .*components"):
        PairProtocol(by="paper")
    with pytest.raises(InputError, match="queries must lie between 0 and 1"):
        PairProtocol(queries=1.0)


# --- relations --------------------------------------------------------------------


def given(pairs: Tensor) -> tuple[KnownPairs, dict[tuple[int, int], float]]:
    generator = torch.Generator().manual_seed(3)
    grades = torch.randint(4, (len(pairs),), generator=generator)
    table: dict[tuple[int, int], float] = {}
    for (a, b), grade in zip(pairs.tolist(), grades.tolist(), strict=True):
        table[a, b] = table[b, a] = grade
    return KnownPairs.of(pairs, grades.float(), COUNT), table


def test_relations_are_what_the_table_says() -> None:
    """The slow twin: every two rows are looked up in a dictionary."""
    known, table = given(some_pairs(400))
    batch = torch.randperm(COUNT, generator=torch.Generator().manual_seed(0))[:25]
    found = GivenRelations(known, graded=True).of(batch)
    assert found.grades is not None
    for (i, a), (j, b) in itertools.product(enumerate(batch.tolist()), repeat=2):
        grade = table.get((a, b))
        assert bool(found.alike[i, j]) == (grade is not None and grade > 0)
        assert bool(found.unlike[i, j]) == (grade == 0)
        if found.alike[i, j]:
            assert found.grades[i, j] == grade
    assert GivenRelations(known, graded=False).of(batch).grades is None
    assert found.alike.any()
    assert found.unlike.any()


@pytest.mark.parametrize("crowd", [False, True])
def test_others_are_unlike_unless_connected(crowd: bool) -> None:
    alike = families(3)
    if crowd:  # one walk through most items: being connected means nothing there
        alike = torch.tensor([(i, i + 1) for i in range(40)] + [(50, 51), (51, 52)])
    known = KnownPairs.of(alike, torch.ones(len(alike)), COUNT)
    relations = OthersUnlike.among(known, False, alike, torch.arange(COUNT))
    found = relations.of(torch.arange(COUNT))
    partners = graph(alike)
    for a, b in itertools.product(range(COUNT), repeat=2):
        direct, connected = b in partners[a], b in reached(a, partners)
        if crowd and a <= 40 and b <= 40:
            connected = direct
        assert bool(found.alike[a, b]) == direct
        assert bool(found.unlike[a, b]) == (a != b and not connected)


def test_inferred_relations_are_what_a_walk_finds() -> None:
    alike, unlike = families(3)[: 2 * 15], torch.tensor([[0, 4], [5, 9], [50, 3]])
    found = Connected.of_pairs(alike, unlike, COUNT).of(torch.arange(COUNT))
    partners = graph(alike)
    apart = {(a, b) for pair in unlike.tolist() for a, b in (pair, pair[::-1])}
    for a, b in itertools.product(range(COUNT), repeat=2):
        near, far = reached(a, partners), reached(b, partners)
        assert bool(found.alike[a, b]) == (a != b and b in near)
        told = any(pair in apart for pair in itertools.product(near, far))
        assert bool(found.unlike[a, b]) == told


def test_classes_are_transitive_and_a_ring_is_not() -> None:
    every = torch.combinations(torch.arange(COUNT))
    same = every[:, 0] // 6 == every[:, 1] // 6
    some = torch.rand(len(every), generator=torch.Generator().manual_seed(0)) < 0.5
    alike, unlike = every[same & some], every[~same & some]
    assert is_transitive(alike, unlike, COUNT)
    wrong = torch.cat([unlike, alike[:1]])
    assert not is_transitive(alike[1:], wrong, COUNT)
    assert not is_transitive(alike, unlike[:20], COUNT)  # too few to show it
    near = (every[:, 1] - every[:, 0]) <= 2
    assert not is_transitive(every[near], every[~near], COUNT)


def test_an_empty_table_knows_nothing() -> None:
    known = KnownPairs.of(torch.empty(0, 2, dtype=torch.int64), torch.empty(0), COUNT)
    found = GivenRelations(known, graded=False).of(torch.arange(5))
    assert not (found.alike | found.unlike).any()


def test_triplets_say_alike_and_unlike_and_leave_out_what_is_both() -> None:
    triplets = torch.tensor([[0, 1, 2], [0, 1, 3], [0, 2, 3], [5, 4, 0]])
    pairs = pairs_of_triplets(triplets)
    found = relations_of("unknown", pairs, torch.arange(6), COUNT).of(torch.arange(6))
    alike = {tuple(pair) for pair in found.alike.nonzero().tolist()}
    unlike = {tuple(pair) for pair in found.unlike.nonzero().tolist()}
    assert alike == {(0, 1), (1, 0), (4, 5), (5, 4)}  # 0 and 2 are both, so unknown
    assert unlike == {(0, 3), (3, 0), (0, 5), (5, 0)}


# --- batches ----------------------------------------------------------------------


def test_partners_are_those_of_the_pairs() -> None:
    pairs = some_pairs(50)
    lists, partners = Partners.of(pairs, COUNT), graph(pairs)
    for item in range(COUNT):
        own = lists.items[lists.starts[item] : lists.starts[item + 1]]
        assert set(own.tolist()) == partners[item]
        assert len(own) == len(partners[item])


def test_every_partner_is_drawn_in_time() -> None:
    lists = Partners.of(torch.tensor([[0, 1], [0, 2], [0, 3]]), 5)
    generator = torch.Generator().manual_seed(0)
    drawn = lists.draw(torch.zeros(200, dtype=torch.int64), generator)
    assert drawn.bincount()[1:].min() > 40
    assert lists.draw(torch.tensor([4]), generator).tolist() == []


def test_every_item_of_a_batch_meets_a_partner() -> None:
    couples = families(2)
    lists = (Partners.of(couples, COUNT),)
    partners, seen = graph(couples), set()
    for drawn in itertools.islice(Anchored(torch.arange(COUNT), lists, 12, seed=0), 10):
        items = set(drawn.indices.tolist())
        assert 6 <= len(items) == len(drawn.indices) <= 12
        assert all(partners[item] & items for item in items)
        seen |= items
    assert len(seen) == COUNT


def test_anchors_have_a_partner_of_every_list() -> None:
    """Of 20 anchors each is alike to one other item, and unlike to another."""
    anchors = torch.arange(20)
    lists = tuple(
        Partners.of(torch.stack([anchors, anchors + shift], 1), COUNT)
        for shift in (20, 40)
    )
    for drawn in itertools.islice(Anchored(anchors, lists, 12, seed=0), 10):
        by_list = drawn.indices.view(3, 4)  # sorted: anchors, then their partners
        assert torch.equal(by_list[0] + 20, by_list[1])
        assert torch.equal(by_list[0] + 40, by_list[2])


def test_listed_triplets_come_once_a_pass() -> None:
    triplets = torch.tensor([[i, i + 1, i + 2] for i in range(30)])
    seen = []
    for one in itertools.islice(ListedTriplets(triplets, 18, seed=0), 5):
        assert one.triplets is not None
        seen += torch.stack([one.indices[part] for part in one.triplets], 1).tolist()
    assert sorted(seen) == triplets.tolist()
