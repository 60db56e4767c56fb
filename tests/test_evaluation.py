"""Evaluation beside slow twins, scikit-learn, and orders drawn at random."""

import itertools
from collections.abc import Iterator
from statistics import fmean

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from torch import Tensor

from gradsnap import compiled
from gradsnap.coders.packing import packed_bits, unpacked_bits
from gradsnap.errors import InputError
from gradsnap.evaluation import (
    CodeDistances,
    EmbeddingDistances,
    HashDistances,
    RankingRules,
    code_distances,
    distances,
    evaluate,
    groups,
    mean_average_precision,
    metrics,
    nearest_items,
    recall_at,
)
from gradsnap.evaluation.distances import Distances
from gradsnap.evaluation.grades import Grades
from tests import reference_evaluation as reference
from tests.conftest import clustered, fitted, gaussian

WHOLE = RankingRules(None, "relevant", "zero")


@pytest.fixture(params=["compiled", "torch", "device"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel, what replaces it, and what runs on another device than the CPU."""
    if request.param != "compiled":
        monkeypatch.setattr(compiled, "installed", lambda: False)
    if request.param == "device":
        monkeypatch.setattr(groups, "_numpy_sorts", lambda keys: False)


class Given(Distances):
    """Distances as they are given, (q, n)."""

    def __init__(self, table: Tensor) -> None:
        self.table, self.device = table, table.device
        self.num_queries, self.num_items = table.shape

    def block(self, rows: slice) -> Tensor:
        return self.table[rows]


def labels_for(relevant: Tensor) -> tuple[Tensor, Tensor]:
    """Labels under which one query (1,) has these relevant items (n,)."""
    return torch.zeros(1, dtype=torch.int64), (~relevant).long()


# --- the definition -------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6),
    st.integers(1, 7),
    st.sampled_from(["relevant", "found"]),
)
def test_every_metric_is_the_mean_over_every_order_of_ties(
    items: list[tuple[int, bool]], length: int, divisor: str
) -> None:
    levels, relevant = [i[0] for i in items], [int(i[1]) for i in items]
    cut = min(length, len(items))
    rules = RankingRules(length, divisor, "zero")  # type: ignore[arg-type]
    table = Given(torch.tensor([levels]).float())
    points = list(range(1, cut + 1))
    labels = labels_for(torch.tensor(relevant).bool())
    found = evaluate(table, *labels, rules, points=points)
    every = list(reference.orders(levels, relevant))
    total = sum(relevant)
    mean = fmean(reference.average_precision(o, total, cut, divisor) for o in every)
    assert found.map == pytest.approx(mean, abs=1e-9)
    for n, precision, recall in zip(points, found.precision, found.recall, strict=True):
        hits = fmean(reference.hits_at(o, n) for o in every)
        assert precision == pytest.approx(hits / n, abs=1e-9)
        assert recall == pytest.approx(hits / max(total, 1), abs=1e-9)
    assert found.without_hit == int(not any(reference.hits_at(o, cut) for o in every))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=6),
    st.integers(1, 7),
)
def test_ndcg_is_the_mean_over_every_order_of_ties(
    items: list[tuple[int, int]], length: int
) -> None:
    levels, grades = [i[0] for i in items], [i[1] for i in items]
    cut = min(length, len(items))
    many = torch.tensor([[place < grade for place in range(3)] for grade in grades])
    asked = torch.ones(1, 3, dtype=torch.bool)
    rules = RankingRules(length, "relevant", "zero")
    found = evaluate(Given(torch.tensor([levels]).float()), asked, many, rules)
    every = reference.orders(levels, grades)
    ideal = reference.discounted_gain(sorted(grades, reverse=True), cut)
    mean = fmean(reference.discounted_gain(order, cut) for order in every)
    assert found.ndcg == pytest.approx(mean / ideal if ideal else 0.0, abs=1e-9)


def test_expected_precision_is_the_mean_over_random_orders() -> None:
    generator = np.random.default_rng(0)
    hashes = generator.integers(0, 2, (200, 6)).astype(bool)
    relevant = generator.random(200) < 0.2
    levels = (hashes != hashes[0]).sum(axis=1)
    labels = labels_for(torch.from_numpy(relevant))
    packed = packed_bits(torch.from_numpy(hashes))
    table = HashDistances(packed[:1], packed)
    keys = levels + generator.random((10_000, 200))
    ranked = torch.from_numpy(relevant[np.argsort(keys, axis=1)])
    for length, divisor in itertools.product((None, 30), ("relevant", "found")):
        rules = RankingRules(length, divisor, "zero")  # type: ignore[arg-type]
        part = ranked[:, :length]
        hits = part.sum(1) if divisor == "found" else ranked.sum(1)
        mean = float(mean_average_precision(part, hits))
        assert evaluate(table, *labels, rules).map == pytest.approx(mean, abs=1e-3)


@pytest.mark.usefixtures("engine")
def test_equals_scikit_learn_without_ties() -> None:
    table = torch.rand(9, 400, generator=torch.Generator().manual_seed(0)).double()
    table = (table.argsort(dim=1) + 1).float()  # no two alike
    asked, labels = torch.arange(9) % 4, torch.arange(400) % 4
    found = evaluate(Given(table), asked, labels, WHOLE).average_precisions
    wanted = [
        average_precision_score((labels == query).numpy(), -row.numpy())
        for query, row in zip(asked, table, strict=True)
    ]
    torch.testing.assert_close(
        found, torch.tensor(wanted, dtype=torch.float64), rtol=1e-9, atol=1e-9
    )


@pytest.mark.usefixtures("engine")
def test_equals_the_ranked_metric_at_a_cut() -> None:
    table = torch.rand(5, 300, generator=torch.Generator().manual_seed(0))
    asked, labels = torch.arange(5) % 3, torch.arange(300) % 3
    relevant = labels[table.argsort(dim=1)[:, :50]] == asked[:, None]
    wanted = mean_average_precision(relevant, torch.full((5,), 100))
    rules = RankingRules(50, "relevant", "zero")
    # One kernel, so the same to the bit.
    assert evaluate(Given(table), asked, labels, rules).map == float(wanted)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("top", [1, 5])
def test_both_engines_find_the_same_groups(top: int) -> None:
    generator = torch.Generator().manual_seed(0)
    table = torch.randint(40, (7, 90), generator=generator).float()
    grades = torch.randint(top + 1, (7, 90), generator=generator).to(torch.uint8)
    found = groups.groups_of_distances(table, grades, 90, top)
    for row in range(7):
        mine = found.rows == row
        levels = sorted({float(d) for d in table[row][grades[row] > 0]})
        at = [table[row] == level for level in levels]
        nearer = [table[row] < level for level in levels]
        wanted = {
            "starts": [int(near.sum()) for near in nearer],
            "sizes": [int(here.sum()) for here in at],
            "hits": [int((grades[row][here] > 0).sum()) for here in at],
            "before": [int((grades[row][near] > 0).sum()) for near in nearer],
            "gains": [float((2.0 ** grades[row][here] - 1).sum()) for here in at],
        }
        for name, values in wanted.items():
            assert getattr(found, name)[mine].tolist() == values, name


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("cut", [1, 7, 30])
def test_a_cut_keeps_whole_groups(cut: int) -> None:
    generator = torch.Generator().manual_seed(cut)
    table = torch.randint(12, (6, 60), generator=generator).float()
    relevant = torch.rand(6, 60, generator=generator) < 0.3
    short = groups.groups_of_distances(table, relevant, cut)
    whole = groups.groups_of_distances(table, relevant, 60)
    reached = whole.starts < cut
    mine = short.starts < cut
    for ours, theirs in zip(short[:6], whole[:6], strict=True):
        assert torch.equal(ours[mine], theirs[reached])


def test_queries_without_a_hit() -> None:
    table = Given(torch.tensor([[1.0, 2.0], [1.0, 2.0]]))
    asked, labels = torch.tensor([0, 7]), torch.tensor([0, 1])
    zero = evaluate(table, asked, labels, WHOLE)
    assert (zero.map, zero.without_hit) == (0.5, 1)
    skip = evaluate(table, asked, labels, RankingRules(None, "relevant", "skip"))
    assert skip.map == 1.0
    assert skip.precision[0] == 1.0
    assert skip.average_precisions.isnan().tolist() == [False, True]
    nothing = evaluate(table, asked[1:].repeat(2), labels, skip.rules)
    with pytest.raises(InputError, match="no query has a hit"):
        assert nothing.map


# --- what is ranked -------------------------------------------------------------


def by_hand(table: Tensor, asked: Tensor, labels: Tensor) -> float:
    return evaluate(Given(table), asked, labels, WHOLE).map


def test_embeddings_are_ranked_by_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    x, asked = clustered(120), gaussian(30)
    query_labels, labels = torch.arange(30) % 3, torch.arange(120) % 3
    whole = evaluate(EmbeddingDistances(asked, x), query_labels, labels, WHOLE)
    table = torch.cdist(asked.double(), x.double()).float()
    assert whole.map == pytest.approx(by_hand(table, query_labels, labels), abs=1e-6)
    monkeypatch.setattr(distances, "BLOCK_ENTRIES", 120 * 7)
    parts = evaluate(EmbeddingDistances(asked, x), query_labels, labels, WHOLE)
    torch.testing.assert_close(parts.average_precisions, whole.average_precisions)
    assert parts.precision == pytest.approx(whole.precision)


@pytest.mark.usefixtures("engine")
def test_codes_are_ranked_by_asymmetric_distance(kind: str) -> None:
    quantizer, x, asked = fitted(kind), clustered(90), gaussian(20)
    codes = quantizer.encode(x)
    table = CodeDistances(quantizer, asked, codes)
    found = table.block(slice(3, 9))
    wanted = quantizer.distances(asked[3:9], codes)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    query_labels, labels = torch.arange(20) % 3, torch.arange(90) % 3
    measured = evaluate(table, query_labels, labels, WHOLE).map
    assert 0.2 < measured < 0.6


class TableCoder:
    """What distances ask of a coder, with tables of its own for vectors (q, 1)."""

    hamming_levels: int | None = None

    def __init__(self, num_codebooks: int, codebook_size: int) -> None:
        self.num_codebooks, self.codebook_size = num_codebooks, codebook_size
        generator = torch.Generator().manual_seed(0)
        size = (num_codebooks, codebook_size)
        self.entries = torch.rand(*size, generator=generator).double()

    def tables(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        return queries[:, :, None] * self.entries, queries[:, 0]

    def cross_terms(self, codes: Tensor) -> Tensor:
        return codes[:, 0].double()


class SignCoder:
    """The signs of a vector as a hash, and Hamming distances as tables."""

    codebook_size = 256

    def __init__(self, bits: int) -> None:
        self.hamming_levels: int | None = bits
        self.num_codebooks = -(-bits // 8)

    def encode(self, x: Tensor) -> Tensor:
        return packed_bits(x > 0)

    def cross_terms(self, codes: Tensor) -> Tensor:
        return torch.zeros(len(codes))

    def tables(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        every = torch.arange(256, dtype=torch.uint8)
        differ = self.encode(queries)[:, :, None] ^ every  # (q, bytes, 256)
        bits = unpacked_bits(differ.flatten()[:, None], 8).sum(dim=1)
        return bits.view(differ.shape), torch.zeros(len(queries))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "int32", "int64"])
def test_codes_of_any_integers_are_ranked_by_tables(dtype: str) -> None:
    coder = TableCoder(3, 256 if dtype == "uint8" else 1024)
    generator = torch.Generator().manual_seed(1)
    codes = torch.randint(coder.codebook_size, (70, 3), generator=generator)
    queries = torch.rand(5, 1, generator=generator)
    typed = codes.to(getattr(torch, dtype))
    found = code_distances(coder, queries, typed)  # type: ignore[arg-type]
    assert isinstance(found, CodeDistances)
    wanted = torch.tensor(
        [
            [
                float(q) + int(code[0]) + float(q * coder.entries[range(3), code].sum())
                for code in codes
            ]
            for q in queries
        ]
    )
    torch.testing.assert_close(found.block(slice(None)), wanted, rtol=1e-5, atol=1e-5)
    assert evaluate(found, torch.zeros(5).long(), torch.arange(70) % 3, WHOLE).map > 0


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("bits", [12, 32])
def test_hamming_coders_are_counted_and_their_tables_say_the_same(bits: int) -> None:
    x, asked = gaussian(80, bits), gaussian(9, bits) - 0.2
    query_labels, labels = torch.arange(9) % 3, torch.arange(80) % 3
    coder = SignCoder(bits)
    codes = coder.encode(x)
    hashes = code_distances(coder, asked, codes)  # type: ignore[arg-type]
    assert isinstance(hashes, HashDistances)
    coder.hamming_levels = None
    tables = code_distances(coder, asked, codes)  # type: ignore[arg-type]
    assert isinstance(tables, CodeDistances)
    assert torch.equal(tables.block(slice(None)), hashes.block(slice(None)))
    counted = evaluate(hashes, query_labels, labels, WHOLE)
    sorted_ = evaluate(tables, query_labels, labels, WHOLE)
    torch.testing.assert_close(counted.average_precisions, sorted_.average_precisions)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("bits", [5, 48, 70])
def test_hashes_are_counted(bits: int) -> None:
    generator = torch.Generator().manual_seed(bits)
    signs = torch.rand(80, bits, generator=generator) < 0.5
    asked, labels = torch.arange(12) % 3, torch.arange(80) % 3
    table = HashDistances(packed_bits(signs[:12]), packed_bits(signs))
    by_bits = [
        [reference.hamming(a, b) for b in signs.tolist()] for a in signs[:12].tolist()
    ]
    assert table.block(slice(None)).tolist() == by_bits
    counted = evaluate(table, asked, labels, WHOLE)
    ranked = evaluate(Given(torch.tensor(by_bits).float()), asked, labels, WHOLE)
    torch.testing.assert_close(counted.average_precisions, ranked.average_precisions)
    assert counted.precision == pytest.approx(ranked.precision)
    within = [
        [labels[i] == asked[q] for i, d in enumerate(row) if d <= 2]
        for q, row in enumerate(by_bits)
    ]
    wanted = fmean(sum(hits) / len(hits) for hits in within)  # each finds itself
    assert counted.radius_precision == pytest.approx(float(wanted))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("graded", [True, False])
@pytest.mark.parametrize("count", [4, 70])
def test_hashes_with_several_labels(graded: bool, count: int) -> None:
    generator = torch.Generator().manual_seed(0)
    signs = torch.rand(60, 6, generator=generator) < 0.5
    many = torch.rand(60, count, generator=generator) < 2 / count
    hashes = packed_bits(signs)
    table = HashDistances(hashes[:9], hashes)
    measured = evaluate(table, many[:9], many, WHOLE, graded=graded)
    plain = Given(table.block(slice(None)))
    wanted = evaluate(plain, many[:9], many, WHOLE, graded=graded)
    torch.testing.assert_close(measured.average_precisions, wanted.average_precisions)
    assert measured.ndcg == (pytest.approx(wanted.ndcg) if graded else None)


def test_hashes_are_counted_by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    signs = torch.rand(90, 16, generator=torch.Generator().manual_seed(0)) < 0.5
    hashes, labels = packed_bits(signs), torch.arange(90) % 4
    table = HashDistances(hashes, hashes)
    whole = evaluate(table, labels, labels, RankingRules(20, "found", "zero"))
    monkeypatch.setattr(distances, "HASH_ROWS", 13)
    monkeypatch.setattr(distances, "BLOCK_ENTRIES", 200)
    monkeypatch.setattr(metrics, "CHUNK_ROWS", 3)
    monkeypatch.setattr(compiled, "installed", lambda: False)
    parts = evaluate(table, labels, labels, whole.rules)
    torch.testing.assert_close(parts.average_precisions, whole.average_precisions)


# --- neighbours -----------------------------------------------------------------


def test_recall_against_exact_neighbours() -> None:
    x = clustered(100)
    exact = nearest_items(EmbeddingDistances(x[:10], x), 5)
    assert exact[:, 0].tolist() == list(range(10))
    assert recall_at(exact, exact, 5) == 1.0
    assert recall_at(exact, exact[:, :1], 1) == 1.0
    assert recall_at(exact, exact, 2) == pytest.approx(0.4)
    assert recall_at(exact.flip(1), exact[:, :1], 4) == 0.0


# --- what is refused ------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ((0, "found", "zero"), "at least 1"),
        ((5, "hits", "zero"), "relevant, found; got 'hits'"),
        ((5, "found", "drop"), "zero, skip; got 'drop'"),
    ],
)
def test_bad_rules(rules: tuple[int, str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RankingRules(*rules)  # type: ignore[arg-type]


def test_rules_are_printed() -> None:
    text = str(RankingRules(5000, "relevant", "skip"))
    assert text.startswith("MAP@5000; AP divided by min(R, relevant items)")
    assert "are left out" in text
    assert "whole database" in str(WHOLE)


def refusals() -> Iterator[tuple[Tensor, Tensor, Tensor, str]]:
    table, ones = torch.rand(2, 3), torch.ones(3, dtype=torch.int64)
    yield table, ones, ones, "3 query labels and 3 database labels for 2 queries"
    yield table - 2, ones[:2], ones, "not negative, got -"
    yield table * torch.nan, ones[:2], ones, "got nan"
    yield table[:, :0], ones[:2], ones[:0], "2 queries, 0 items"
    yield table, ones[:2], ones[:, None].bool(), "expected labels"
    yield table, ones[:2, None], ones[:, None], "must be bool"


@pytest.mark.parametrize(("table", "asked", "labels", "message"), list(refusals()))
def test_refusals(table: Tensor, asked: Tensor, labels: Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(Given(table), asked, labels, WHOLE)


def test_more_refusals() -> None:
    ones = torch.ones(3, dtype=torch.int64)
    with pytest.raises(InputError, match=r"1..3, the ranking; got 4"):
        evaluate(Given(torch.rand(3, 3)), ones, ones, WHOLE, points=[4])
    with pytest.raises(InputError, match="several labels"):
        Grades(ones, ones, graded=True)
    with pytest.raises(InputError, match=r"\(2, 3\) and \(2, 4\)"):
        EmbeddingDistances(torch.rand(2, 3), torch.rand(2, 4))
    with pytest.raises(InputError, match="k must be 1 to 3"):
        nearest_items(Given(torch.rand(3, 3)), 4)
    with pytest.raises(InputError, match="k must be 1 to 2"):
        recall_at(torch.ones(1, 2), torch.ones(1, 1), 3)
    with pytest.raises(InputError, match="no exact neighbours"):
        recall_at(torch.ones(1, 2), torch.ones(1, 0), 1)
    with pytest.raises(InputError, match=r"found \(q, k\)"):
        recall_at(torch.ones(2), torch.ones(1, 0), 1)


def test_negative_zero_ties_with_zero() -> None:
    table = Given(torch.tensor([[0.0, -0.0]]))
    labels = labels_for(torch.tensor([True, False]))
    assert evaluate(table, *labels, WHOLE).map == pytest.approx(0.75)


@pytest.mark.parametrize("spread", [1, 2**10, 2**31])
def test_rows_are_sorted_digit_by_digit(spread: int) -> None:
    kernels = pytest.importorskip("gradsnap.evaluation.ranking_compiled")
    rng = np.random.default_rng(0)
    keys = rng.integers(-spread, spread, (4, 3000)).astype(np.int32)
    keys[0, :3] = (-(2**31), 2**31 - 1, 0)
    keys[1] = 7
    found = keys.copy()
    kernels.sort_rows(found, np.empty(keys.shape[1], np.uint32))
    np.testing.assert_array_equal(found, np.sort(keys, axis=1))


def test_long_rows_have_the_same_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(3)
    distances = torch.rand(3, 400, generator=generator).round(decimals=2)
    relevant = torch.rand(3, 400, generator=generator) < 0.3
    short = groups.groups_of_distances(distances, relevant, 400)
    monkeypatch.setattr(groups, "LONG_ROW", 1)
    long = groups.groups_of_distances(distances, relevant, 400)
    for one, other in zip(short[:-1], long[:-1], strict=True):
        assert torch.equal(one, other)
