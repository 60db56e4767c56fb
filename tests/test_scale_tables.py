"""Tables of codes: written once whatever happens, equal to what one process encodes."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from gradsnap.coders.quantizers import OptimizedProductQuantizer
from gradsnap.errors import InputError
from gradsnap.scale.error_table import read_errors
from gradsnap.scale.table import CodeTable
from gradsnap.scale.table_search import codes_of
from tests.commands import said
from tests.scale_parts import (
    Dying,
    encoded,
    rows_of,
    vector_coder,
    write_model,
    write_photos,
    write_vectors,
)

lance = pytest.importorskip("lance")


@pytest.fixture
def every_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradsnap.scale.encoding.COMMIT_SECONDS", 0.0)


def test_rows_are_what_the_npy_holds(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 30)
    model = write_model(tmp_path / "model")
    said("encode", model, tmp_path / "photos", "--out", tmp_path / "codes.npy", "-q")
    table, done = encoded(model, tmp_path / "photos", tmp_path / "t.lance", rows=7)
    codes = codes_of(table.dataset.to_table(), table.coder).numpy()
    assert np.array_equal(codes, np.load(tmp_path / "codes.npy"))
    names = json.loads((tmp_path / "codes.npy.names.json").read_text())
    assert rows_of(table)["id"] == names
    assert (done.rows, done.shards, done.bad) == (30, 5, 0)
    assert len(np.unique(codes, axis=0)) > 5  # the photos do not look all alike


@pytest.mark.usefixtures("every_shard")
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_stopped_job_goes_on(tmp_path: Path, after: int) -> None:
    write_photos(tmp_path / "photos", 30)
    (tmp_path / "photos" / "a" / "0.jpg").write_bytes(b"no image")
    model = write_model(tmp_path / "model")
    whole, _ = encoded(model, tmp_path / "photos", tmp_path / "whole.lance", rows=7)
    with pytest.raises(KeyboardInterrupt):
        encoded(model, tmp_path / "photos", tmp_path / "t.lance", Dying(after), rows=7)
    assert CodeTable(tmp_path / "t.lance").dataset.count_rows() < 29
    table, done = encoded(model, tmp_path / "photos", tmp_path / "t.lance", rows=7)
    assert done.begun_at == after
    assert rows_of(table) == rows_of(whole)
    assert [row["id"] for row in read_errors(table.address)] == ["a/0.jpg"]
    again, nothing = encoded(model, tmp_path / "photos", tmp_path / "t.lance", rows=7)
    assert (nothing.rows, again.dataset.version) == (0, table.dataset.version)


def test_errors_whose_rows_were_lost_are_not_twice(tmp_path: Path) -> None:
    """The driver dies between the two commits of a shard."""
    write_photos(tmp_path / "photos", 9)
    (tmp_path / "photos" / "a" / "0.jpg").write_bytes(b"no image")
    model = write_model(tmp_path / "model")
    with pytest.MonkeyPatch.context() as patch:

        def died(self: CodeTable, fragments: Sequence[str]) -> None:
            raise KeyboardInterrupt

        patch.setattr(CodeTable, "append", died)
        with pytest.raises(KeyboardInterrupt):
            encoded(model, tmp_path / "photos", tmp_path / "t.lance")
    assert len(read_errors(str(tmp_path / "t.lance"))) == 1
    table, _ = encoded(model, tmp_path / "photos", tmp_path / "t.lance")
    assert len(table) == 8
    assert len(read_errors(table.address)) == 1
    assert "no image of a known kind" in read_errors(table.address)[0]["reason"]


def test_a_days_new_photos(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    write_photos(photos, 20)
    model = write_model(tmp_path / "model")
    before, _ = encoded(model, photos, tmp_path / "t.lance")
    write_photos(photos, 5, first=20)
    with pytest.raises(InputError, match="--add adds what the table does not have"):
        encoded(model, photos, tmp_path / "t.lance")
    table, done = encoded(model, photos, tmp_path / "t.lance", add=True)
    assert (done.rows, done.known) == (5, 20)
    assert len(set(rows_of(table)["id"])) == len(table) == 25
    assert len(CodeTable(table.address, before.dataset.version)) == 20


def test_vectors_and_bad_rows(tmp_path: Path) -> None:
    coder_file, coder = vector_coder(tmp_path, "opq")
    path, x = write_vectors(tmp_path, 50)
    spoiled = x.clone()
    spoiled[3, 0] = torch.nan
    np.save(path, spoiled.numpy())
    table, done = encoded(coder_file, path, tmp_path / "t.lance")
    good = [n for n in range(50) if n != 3]
    assert (done.rows, done.bad) == (49, 1)
    assert rows_of(table)["id"] == good
    found = codes_of(table.dataset.to_table(), table.coder)
    assert torch.equal(found, coder.encode(x[good]).long())
    assert isinstance(coder, OptimizedProductQuantizer)
    kept = torch.tensor(np.array(rows_of(table)["embedding"], dtype=np.float32))
    torch.testing.assert_close(kept, x[good] @ coder.rotation, atol=1e-2, rtol=1e-3)


def test_other_codebooks_and_columns_are_refused(tmp_path: Path) -> None:
    coder_file, _ = vector_coder(tmp_path)
    other, _ = vector_coder(tmp_path, "rvq")
    path, _ = write_vectors(tmp_path, 20)
    encoded(coder_file, path, tmp_path / "t.lance", half=False)
    with pytest.raises(InputError, match="other codebooks"):
        encoded(other, path, tmp_path / "t.lance", half=False)
    with pytest.raises(InputError, match="has no embeddings"):
        encoded(coder_file, path, tmp_path / "t.lance")
    with pytest.raises(InputError, match="has no version 99; the newest is 2"):
        CodeTable(tmp_path / "t.lance", 99)
    with pytest.raises(InputError, match="there is no table"):
        CodeTable(tmp_path / "nothing.lance")
    assert "--add is for a table" in said(
        *("encode", coder_file, path, "--add", "--out", tmp_path / "codes.npy")
    )
    assert "--on cannot be 'dask'; choose ray" in said(
        *("encode", coder_file, path, "--on", "dask", "--out", tmp_path / "x.lance")
    )
