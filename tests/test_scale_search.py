"""Tables and shards answer as one index of all items does."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.errors import InputError
from gradsnap.index import ExhaustiveIndex, load_index
from gradsnap.scale import lance_index
from gradsnap.scale.lance_index import PartPlan, check_part, index_table
from gradsnap.scale.merging import merged
from gradsnap.scale.shard_folders import build_shards
from gradsnap.scale.sharded import Ask, opened_shards
from gradsnap.scale.table import CodeTable
from gradsnap.scale.table_search import search_by_codes, search_by_index
from gradsnap.scale.workers import ThisProcess, Workers
from tests.commands import said
from tests.conftest import clustered
from tests.scale_parts import (
    Dying,
    encoded,
    vector_coder,
    write_model,
    write_photos,
    write_vectors,
)

lance = pytest.importorskip("lance")

QUERIES = clustered(6, seed=2)


def pairs(index: Any, k: int) -> list[list[tuple[int, float]]]:
    ids, distances = index.search(QUERIES, k)
    rows = zip(ids.tolist(), distances.tolist(), strict=True)
    return [list(zip(own, far, strict=True)) for own, far in rows]


@pytest.mark.parametrize("kind", ["pq", "rvq", "itq"])
def test_codes_of_a_table_answer_as_our_index(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradsnap.scale.table_search.ROWS_AT_ONCE", 64)
    if kind == "itq":
        from gradsnap.coders import CODERS

        path, x = write_vectors(tmp_path, 200)
        coder = CODERS["itq"].of_bits(8, 8).fit(x)
        file = tmp_path / "itq.safetensors"
        coder.save(file)
    else:
        file, coder = vector_coder(tmp_path, kind)
        path, x = write_vectors(tmp_path, 200)
    table, _ = encoded(file, path, tmp_path / "t.lance", half=False, rows=30)
    ours = ExhaustiveIndex(coder).add(x)
    assert search_by_codes(table, QUERIES, 12) == pairs(ours, 12)


@pytest.mark.parametrize(("kind", "size"), [("pq", 16), ("pq", 256), ("opq", 256)])
def test_lance_ranks_as_we_do(tmp_path: Path, kind: str, size: int) -> None:
    file, coder = vector_coder(tmp_path, kind, size)
    path, x = write_vectors(tmp_path, 300)
    table, _ = encoded(file, path, tmp_path / "t.lance", rows=100)
    made = index_table(table, ThisProcess())
    assert (made.rows, made.lists) == (300, 1)
    table = CodeTable(table.address)
    ours = ExhaustiveIndex(coder).add(x)
    for place, found in enumerate(search_by_index(table, QUERIES, 10)):
        ids, distances = ours.search(QUERIES[place : place + 1], 10)
        assert found == list(zip(ids[0].tolist(), distances[0].tolist(), strict=True))


def test_equal_codes_are_found_in_the_order_of_ids(tmp_path: Path) -> None:
    """Lance takes any of them: some more are asked for, and ordered by us."""
    file, _ = vector_coder(tmp_path)
    x = clustered(10, seed=1).repeat(30, 1)
    np.save(tmp_path / "x.npy", x.numpy())
    table, _ = encoded(file, tmp_path / "x.npy", tmp_path / "t.lance", rows=100)
    index_table(table, ThisProcess())
    found = search_by_index(CodeTable(table.address), QUERIES, 10)
    assert found == search_by_codes(table, QUERIES, 10)


def test_new_rows_alone_are_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_index, "PART_ROWS", 100)
    file, _ = vector_coder(tmp_path)
    path, _ = write_vectors(tmp_path, 300)
    table, _ = encoded(file, path, tmp_path / "t.lance", rows=50)
    assert index_table(table, ThisProcess()).parts == 3
    before = CodeTable(table.address).dataset.version
    later = tmp_path / "later"
    later.mkdir()
    np.save(later / "more.npy", clustered(20, seed=5).numpy())
    _, done = encoded(file, later / "more.npy", tmp_path / "t.lance", add=True)
    assert (done.rows, done.known) == (0, 20)  # numbers are ids, and these are known
    assert index_table(CodeTable(table.address), ThisProcess()).parts == 0
    assert len(CodeTable(table.address, before)) == 300


@pytest.mark.parametrize("lists", [None, 4])
def test_a_stopped_job_takes_up_the_parts_it_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lists: int | None
) -> None:
    monkeypatch.setattr(lance_index, "PART_ROWS", 100)
    file, _ = vector_coder(tmp_path)
    path, _ = write_vectors(tmp_path, 500)
    whole, _ = encoded(file, path, tmp_path / "w.lance", rows=50)
    index_table(whole, ThisProcess(), lists)
    table, _ = encoded(file, path, tmp_path / "t.lance", rows=50)
    with pytest.raises(KeyboardInterrupt):
        index_table(table, Dying(3), lists)
    built = sorted((tmp_path / "t.lance" / "_indices").iterdir())
    assert not lance_index.has_index(CodeTable(table.address))
    counting = Counting()
    made = index_table(CodeTable(table.address), counting, lists)
    assert (made.parts, made.rows, counting.jobs) == (5, 500, 2)
    taken = {one.name for one in (tmp_path / "t.lance" / "_indices").iterdir()}
    assert {one.name for one in built[:3]} <= taken
    answers = [
        search_by_index(CodeTable(one.address), QUERIES, 10, probes=4)
        for one in (whole, table)
    ]
    assert answers[0] == answers[1]
    assert index_table(CodeTable(table.address), counting, lists).parts == 0


def test_lists_of_a_stopped_job_are_forgotten(tmp_path: Path) -> None:
    file, _ = vector_coder(tmp_path)
    path, _ = write_vectors(tmp_path, 300)
    table, _ = encoded(file, path, tmp_path / "t.lance", rows=100)
    with pytest.raises(KeyboardInterrupt):
        index_table(table, Dying(0), lists=4)
    assert index_table(table, ThisProcess()).lists == 1
    known = lance_index.stored_lists(CodeTable(table.address))
    assert known is not None
    assert len(known.centroids) == 1


class Counting:
    """Counts the jobs it does."""

    jobs = 0

    def run(self, make: Any, known: Any, jobs: Any) -> Any:
        self.jobs += len(jobs)
        return ThisProcess().run(make, known, jobs)


def test_lists_learn_codebooks_only_when_asked(tmp_path: Path) -> None:
    file, _ = vector_coder(tmp_path)
    path, x = write_vectors(tmp_path, 300)
    out = tmp_path / "t.lance"
    encoded(file, path, out, rows=100)
    assert "lists need codebooks of their own" in said("index", out, "--lists", 4)
    said("index", out, "--lists", 4, "--residual", "--quiet")
    table = CodeTable(out)
    found = search_by_index(table, x[:20], 1, probes=4)
    assert sum(own[0][0] == n for n, own in enumerate(found)) >= 10
    with pytest.raises(InputError, match="is indexed with 4 lists"):
        index_table(table, ThisProcess(), 5)


def test_codebooks_that_are_not_ours_are_refused(tmp_path: Path) -> None:
    file, coder = vector_coder(tmp_path)
    path, _ = write_vectors(tmp_path, 300)
    table, _ = encoded(file, path, tmp_path / "t.lance", rows=100)
    trained = table.dataset.create_index_uncommitted(
        *("embedding", "IVF_PQ"),
        num_partitions=1,
        num_sub_vectors=4,
        num_bits=4,
        fragment_ids=[0],
    )
    assert isinstance(coder, ProductQuantizer)
    ours = coder.codebooks.numpy()
    plan = PartPlan(table.address, 2, np.zeros((1, 8), np.float32), ours)
    with pytest.raises(InputError, match="did not keep our codebooks"):
        check_part(plan, trained.uuid)


def test_what_lance_cannot_hold_is_refused(tmp_path: Path) -> None:
    path, _ = write_vectors(tmp_path, 30)
    other, _ = vector_coder(tmp_path, "rvq")
    table, _ = encoded(other, path, tmp_path / "rvq.lance")
    with pytest.raises(InputError, match="Lance takes a ProductQuantizer or"):
        index_table(table, ThisProcess())
    file, _ = vector_coder(tmp_path)
    bare, _ = encoded(file, path, tmp_path / "bare.lance", half=False)
    with pytest.raises(InputError, match="encode with --keep-half"):
        index_table(bare, ThisProcess())


@pytest.mark.parametrize("kind", ["exhaustive", "inverted"])
def test_shards_answer_as_one(tmp_path: Path, kind: str) -> None:
    file, coder = vector_coder(tmp_path)
    path, x = write_vectors(tmp_path, 300)
    table, _ = encoded(file, path, tmp_path / "t.lance", half=False, rows=40)
    lists = None if kind == "exhaustive" else 5
    told = build_shards(table, tmp_path / "s", 3, ThisProcess(), kind, lists)
    assert sum(told["rows"]) == 300
    assert len(told["shards"]) == 3
    ask = Ask(QUERIES.numpy(), 12, probes=lists)
    with opened_shards(tmp_path / "s") as shards:
        found = shards.search(ask).results
    assert found == pairs(ExhaustiveIndex(coder).add(x), 12)


def test_stopped_indexing_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_index, "PART_ROWS", 100)
    file, coder = vector_coder(tmp_path)
    path, x = write_vectors(tmp_path, 300)
    table, _ = encoded(file, path, tmp_path / "t.lance", rows=50)
    for stop in (
        lambda: index_table(table, Dying(1)),
        lambda: _shards(table, Dying(1)),
    ):
        with pytest.raises(KeyboardInterrupt):
            stop()
    assert not lance_index.has_index(CodeTable(table.address))
    assert index_table(table, ThisProcess()) == (3, 300, 1)
    with pytest.raises(InputError, match="was begun with another"):
        build_shards(table, tmp_path / "t.lance.index", 2, ThisProcess())
    table = CodeTable(table.address, 2)  # as it was when the shards were begun
    assert _shards(table, ThisProcess())["rows"] == [100, 100, 100]
    with opened_shards(tmp_path / "t.lance.index") as shards:
        found = shards.search(Ask(QUERIES.numpy(), 12)).results
    assert found == pairs(ExhaustiveIndex(coder).add(x), 12)


def _shards(table: CodeTable, workers: Workers) -> dict[str, Any]:
    return build_shards(table, Path(f"{table.address}.index"), 3, workers)


def test_missing_shards_are_named(tmp_path: Path) -> None:
    file, _ = vector_coder(tmp_path)
    path, _ = write_vectors(tmp_path, 100)
    table, _ = encoded(file, path, tmp_path / "t.lance", half=False, rows=40)
    build_shards(table, tmp_path / "s", 2, ThisProcess())
    (tmp_path / "s" / "shard-0001" / "manifest.json").write_text("{")
    ask = Ask(QUERIES.numpy(), 3)
    with opened_shards(tmp_path / "s") as shards:
        with pytest.raises(InputError, match="shard-0001 cannot answer"):
            shards.search(ask)
        answer = shards.search(ask, partial=5)
    assert list(answer.missing) == ["shard-0001"]
    first = load_index(tmp_path / "s" / "shard-0000").search(QUERIES, 3)
    assert [[one for one, _ in row] for row in answer.results] == first.ids.tolist()
    text = said("search", tmp_path / "s", path, "-k", 1, "--partial", 5, "--json")
    assert json.loads(text)[0]["missing"] == ["shard-0001"]


def test_photos_from_the_command_line(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    names = write_photos(photos, 30)
    model = write_model(tmp_path / "model")
    table, folder = tmp_path / "p.lance", tmp_path / "p.index"
    said("encode", model, photos, "--keep-half", "--shard-rows", 8, "--out", table)
    said("index", table, "--shards", 2, "--out", folder)
    query = photos / names[4]
    asked = ("-k", 30, "--where", 'label = "a"', "--json")
    by_table = json.loads(said("search", table, query, *asked))[0]["results"]
    by_shards = json.loads(said("search", folder, query, *asked))[0]["results"]
    plain = [(row["id"], row["distance"]) for row in by_table]
    assert plain == [(row["id"], row["distance"]) for row in by_shards]
    assert {name for name, _ in plain} == {n for n in names if n.startswith("a/")}
    assert by_shards[0]["path"].startswith(str(photos))
    assert "--id is for index folders" in said("search", table, "--id", names[0])
    assert "--version is for tables" in said("search", model, "x", "--version", 1)


def test_merging_is_the_order_of_all() -> None:
    generator = torch.Generator().manual_seed(0)
    far = torch.randint(4, (60,), generator=generator).tolist()
    every = sorted(zip(range(60), far, strict=True), key=lambda p: (p[1], p[0]))
    parts = [[p for p in every if p[0] % 3 == part] for part in range(3)]
    assert merged(parts, 20) == every[:20]
