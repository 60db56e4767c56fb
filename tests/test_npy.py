"""Rows written as they come."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradsnap.errors import InputError
from gradsnap.npy import write_rows
from tests.platforms import small_files_only


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.float32])
def test_numpy_reads_what_was_written(kind: Any, tmp_path: Path) -> None:
    rows = np.arange(35).reshape(7, 5).astype(kind)
    write_rows(tmp_path / "new" / "x.npy", iter(np.split(rows, [2, 6])), 7)
    found = np.load(tmp_path / "new" / "x.npy", allow_pickle=False)
    assert found.dtype == kind
    assert np.array_equal(found, rows)


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stands for it: writing fails in the same way."""
    path = tmp_path / "x.npy"
    path.write_bytes(b"before")
    with (
        pytest.raises(InputError, match=r"cannot write .*x.npy: File too large"),
        small_files_only(4096),
    ):
        write_rows(path, iter([np.zeros((4096, 8), np.float32)] * 4), 4 * 4096)
    assert path.read_bytes() == b"before"
    assert [one.name for one in tmp_path.iterdir()] == ["x.npy"]
