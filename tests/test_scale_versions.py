"""Versions of a table: rows go, older versions keep them, files are joined."""

import json
from pathlib import Path

import pytest

from gradsnap.errors import InputError
from gradsnap.scale.lance_index import index_table
from gradsnap.scale.table import CodeTable
from gradsnap.scale.table_search import search_by_codes, search_by_index
from gradsnap.scale.versions import compact_table, fitting_ids, remove_rows
from gradsnap.scale.workers import ThisProcess
from tests.commands import said
from tests.conftest import clustered
from tests.scale_parts import (
    encoded,
    vector_coder,
    write_model,
    write_photos,
    write_vectors,
)

lance = pytest.importorskip("lance")

QUERIES = clustered(4, seed=2)


def test_removed_rows_are_in_older_versions(tmp_path: Path) -> None:
    coder, _ = vector_coder(tmp_path)
    path, _ = write_vectors(tmp_path, 120)
    table, _ = encoded(coder, path, tmp_path / "t.lance", rows=20)
    index_table(table, ThisProcess())
    table = CodeTable(table.address)
    first, before = table.dataset.version, search_by_codes(table, QUERIES, 5)
    gone = sorted({one for found in before for one, _ in found})
    remove_rows(table, fitting_ids(table, list(map(str, gone)), None))
    now = CodeTable(table.address)
    assert len(now) == 120 - len(gone)
    left = search_by_codes(now, QUERIES, 5)
    assert not set(gone) & {one for found in left for one, _ in found}
    assert search_by_codes(CodeTable(table.address, first), QUERIES, 5) == before
    by_index = search_by_index(now, QUERIES, 5)
    done = compact_table(now)
    assert (done.fragments_before, done.fragments) == (6, 1)
    joined = CodeTable(table.address)
    assert search_by_codes(joined, QUERIES, 5) == left
    assert search_by_index(joined, QUERIES, 5) == by_index
    with pytest.raises(InputError, match=f"has no row {gone[0]}"):
        fitting_ids(joined, [str(gone[0])], None)


def test_compacted_tables_know_what_is_written(tmp_path: Path) -> None:
    coder, _ = vector_coder(tmp_path)
    path, _ = write_vectors(tmp_path, 120)
    table, _ = encoded(coder, path, tmp_path / "t.lance", rows=20, half=False)
    done = compact_table(table, keep_days=0.0)
    assert done.versions_dropped >= 1
    again, nothing = encoded(coder, path, tmp_path / "t.lance", rows=20, half=False)
    assert (nothing.rows, nothing.begun_at, len(again)) == (0, 6, 120)


def nearest(table: Path, query: Path, *options: object) -> list[str]:
    """Ids by the command line."""
    told = said("search", table, query, "-k", 20, "--json", *options)
    return [row["id"] for row in json.loads(told)[0]["results"]]


def test_a_days_photos_from_the_command_line(tmp_path: Path) -> None:
    """Added, indexed, removed, searched as they were, compacted: each a command."""
    photos, table = tmp_path / "photos", tmp_path / "p.lance"
    first = write_photos(photos, 12)
    encode = ("encode", write_model(tmp_path / "model"), photos, "--out", table)
    said(*encode, "--keep-half", "-q")
    index = json.loads(said("index", table, "--json"))
    assert (index["newly_indexed"], index["new_parts"]) == (12, 1)
    before = index["version"]
    parts = {one.name for one in (table / "_indices").iterdir()}
    day = write_photos(photos, 5, first=12)
    added = json.loads(said(*encode, "--keep-half", "--add", "--json"))
    assert (added["new"], added["known_already"]) == (5, 12)
    index = json.loads(said("index", table, "--json"))
    assert (index["newly_indexed"], index["new_parts"]) == (5, 1)
    assert parts < {one.name for one in (table / "_indices").iterdir()}
    now = nearest(table, photos / day[0])
    assert (now[0], len(now)) == (day[0], 17)
    assert set(nearest(table, photos / day[0], "--version", before)) == set(first)
    said("remove", table, day[0], "-q")
    kept = nearest(table, photos / day[0])
    assert day[0] not in kept
    done = json.loads(said("compact", table, "--json"))
    assert done["fragments"] == 2  # files of different parts stay apart
    for options in ((), ("--by-codes",)):
        assert nearest(table, photos / day[0], *options) == kept
    old = ("--version", index["version"])
    assert nearest(table, photos / day[0], *old) == now
    said("compact", table, "--keep-days", 0, "-q")
    assert "has no version" in said("search", table, photos / first[0], *old)


def test_from_the_command_line(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 12)
    model, table = write_model(tmp_path / "model"), tmp_path / "p.lance"
    said("encode", model, tmp_path / "photos", "--out", table, "-q")
    assert '"would remove": 4' in said(
        "remove", table, "--where", 'label = "a"', "--dry-run", "--json"
    )
    said("remove", table, "--where", 'label = "a"', "-q")
    assert '"items": 8' in said("info", table, "--json")
    assert '"fragments": 1' in said("compact", table, "--json")
    assert "is no .lance table" in said("compact", model)
