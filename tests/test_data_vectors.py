"""Vectors: every format gives the same rows, and each way to be broken its sentence."""

import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

import gradsnap as gs
from gradsnap.data import open_dataset
from tests.data_files import random_vectors

ROWS, DIM = 11, 6


def records(vectors: np.ndarray, dtype: str) -> bytes:
    head = np.array([vectors.shape[1]], "<i4").tobytes()
    return b"".join(head + row.astype(dtype).tobytes() for row in vectors)


def write(path: Path, vectors: np.ndarray, labels: np.ndarray | None = None) -> Path:
    if path.suffix == ".npz":
        if labels is None:
            np.savez(path, vectors=vectors)
        else:
            np.savez(path, vectors=vectors, labels=labels)
        return path
    if path.suffix == ".parquet":
        return write_parquet(path, vectors, labels)
    if path.suffix == ".npy":
        np.save(path, vectors)
    if path.suffix == ".fvecs":
        path.write_bytes(records(vectors, "<f4"))
    if path.suffix == ".bvecs":
        path.write_bytes(records(vectors, "u1"))
    if labels is not None:
        np.save(path.with_name(f"{path.stem}.labels.npy"), labels)
    return path


def write_parquet(path: Path, vectors: np.ndarray, labels: np.ndarray | None) -> Path:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"embedding": list(vectors)}
    if labels is not None:
        columns["label"] = list(labels)
    parquet.write_table(arrow.table(columns), path, row_group_size=4)
    return path


@pytest.fixture(params=["npy", "npz", "fvecs", "bvecs", "parquet"])
def path(request, tmp_path: Path) -> Path:
    return tmp_path / f"some.{request.param}"


def rows_for(path: Path) -> np.ndarray:
    """Rows every format can hold exactly."""
    return random_vectors(ROWS, DIM).clip(0).round()


@pytest.mark.parametrize(
    "labels",
    [
        None,
        np.arange(ROWS) % 3,
        np.eye(ROWS, 4, dtype=np.int8),
        np.array(["b", "a"] * 6),
    ],
    ids=["none", "numbers", "multi-hot", "strings"],
)
def test_every_format_gives_its_rows_and_labels(path: Path, labels) -> None:
    labels = None if labels is None else labels[:ROWS]
    vectors = rows_for(path)
    dataset = open_dataset(write(path, vectors, labels))
    order = torch.tensor([7, 0, 10, 0, 3])
    assert torch.equal(dataset.items.batch(order), torch.from_numpy(vectors)[order])
    assert dataset.names[3] == f"{path.name}:3"
    if labels is None:
        assert dataset.labels is None
        return
    assert dataset.labels is not None
    if labels.dtype.kind == "U":
        assert dataset.classes == ("a", "b")
        labels = (labels == "b").astype(int)
    assert np.array_equal(dataset.labels.numpy(), labels)


def test_nan_is_named_when_its_row_is_read(path: Path) -> None:
    if path.suffix == ".bvecs":
        pytest.skip("bytes hold no NaN")
    vectors = random_vectors(ROWS, DIM)
    vectors[5, 2], vectors[9, 0] = np.nan, np.inf
    dataset = open_dataset(write(path, vectors))
    assert dataset.items.batch(torch.arange(5)).isfinite().all()
    with pytest.raises(gs.InputError, match="row 5 holds NaN or infinity, as do 2 of"):
        dataset.items.batch(torch.arange(ROWS))


def test_a_truncated_file_is_named(path: Path) -> None:
    write(path, rows_for(path))
    whole = path.read_bytes()
    for kept in (0, 3, len(whole) - 5):
        path.write_bytes(whole[:kept])
        with pytest.raises(gs.FileFormatError, match=path.name):
            open_dataset(path)


def test_labels_of_another_length_are_refused(path: Path) -> None:
    if path.suffix == ".parquet":
        pytest.skip("a table's columns have one length")
    write(path, rows_for(path), np.arange(4))
    with pytest.raises(gs.InputError, match="4 labels for 11 items"):
        open_dataset(path)


def test_negative_labels_are_refused(path: Path) -> None:
    write(path, rows_for(path), np.arange(ROWS) - 1)
    with pytest.raises(gs.InputError, match=r"labels must lie in 0\.\.999999, got -1"):
        open_dataset(path)


@pytest.mark.parametrize("dtype", ["f2", "f8", ">f4", "i2", "u1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numbers_of_any_type_and_order(dtype: str, order, tmp_path: Path) -> None:
    vectors = random_vectors(ROWS, DIM).clip(0).round()
    for suffix in (".npy", ".npz"):
        stored = np.asarray(vectors.astype(dtype), order=order)
        dataset = open_dataset(write(tmp_path / f"a{suffix}", stored))
        assert torch.equal(
            dataset.items.batch(torch.arange(ROWS)), torch.from_numpy(vectors)
        )


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros(3), r"shape \(n, dim\), .* got float64 of shape \(3,\)"),
        (np.zeros((0, 3)), r"of shape \(0, 3\)"),
        (np.zeros((2, 3), bool), "got bool"),
        (np.zeros((2, 3), complex), "got complex128"),
        (np.array([["a", "b"]]), "got <U1"),
    ],
)
def test_other_arrays_are_refused(array, sentence, tmp_path: Path) -> None:
    for suffix in (".npy", ".npz"):
        with pytest.raises(gs.InputError, match=sentence):
            open_dataset(write(tmp_path / f"a{suffix}", array))


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    objects = np.array([[print]])
    np.save(tmp_path / "a.npy", objects, allow_pickle=True)
    with pytest.raises(gs.FileFormatError, match=r"a\.npy"):
        open_dataset(tmp_path / "a.npy")
    np.savez(tmp_path / "b.npz", vectors=random_vectors(1, 2), labels=objects)
    with pytest.raises(
        gs.FileFormatError, match=r"b\.npz is truncated or not an archive with labels"
    ):
        open_dataset(tmp_path / "b.npz")
    np.save(tmp_path / "c.npy", random_vectors(1, 2))
    np.save(tmp_path / "c.labels.npy", objects, allow_pickle=True)
    with pytest.raises(gs.FileFormatError, match=r"c\.labels\.npy"):
        open_dataset(tmp_path / "c.npy")


def test_an_archive_without_plain_vectors_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 2)))
    with pytest.raises(gs.InputError, match=r"called vectors; it has \['x.npy'\]"):
        open_dataset(tmp_path / "a.npz")
    np.savez_compressed(tmp_path / "a.npz", vectors=np.zeros((2, 2)))
    with pytest.raises(gs.InputError, match=r"is compressed, .* numpy.savez"):
        open_dataset(tmp_path / "a.npz")


def test_a_table_without_vectors_is_refused(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for columns, sentence in (
        ({"x": [1, 2]}, "no column called vectors, .* it has x"),
        ({"vector": [1, 2]}, "expected a list in every row, got int64"),
        ({"vector": [[1.0], [1.0, 2.0]]}, "lists have 1 to 2 numbers"),
        ({"vector": [[1.0], None]}, "expected a list in every row"),
        ({"vector": [[1.0], [2.0]], "label": [1, None]}, "1 rows of label are empty"),
    ):
        parquet.write_table(arrow.table(columns), tmp_path / "a.parquet")
        with pytest.raises(gs.InputError, match=sentence):
            open_dataset(tmp_path / "a.parquet")


def test_lists_of_every_kind_are_read(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    vectors = random_vectors(5, 3)
    kind = arrow.float32()
    for lists in (arrow.list_(kind), arrow.list_(kind, 3), arrow.large_list(kind)):
        column = arrow.array(vectors.tolist(), lists)
        parquet.write_table(arrow.table({"vectors": column}), tmp_path / "a.parquet")
        dataset = open_dataset(tmp_path / "a.parquet")
        read = dataset.items.batch(torch.arange(5))
        assert torch.equal(read, torch.from_numpy(vectors))


def test_row_groups_of_other_lengths_are_refused(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"vector": [[1.0], [2.0], [1.0, 2.0], [3.0, 4.0]]})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    dataset = open_dataset(tmp_path / "a.parquet")
    with pytest.raises(gs.FileFormatError, match="row group 1 has vectors of length 2"):
        dataset.items.batch(torch.arange(4))


def test_a_row_of_another_length_is_named(tmp_path: Path) -> None:
    content = records(random_vectors(4, 3), "<f4")
    wrong = content[:32] + (7).to_bytes(4, "little") + content[36:]
    (tmp_path / "a.fvecs").write_bytes(wrong)
    dataset = open_dataset(tmp_path / "a.fvecs")
    with pytest.raises(
        gs.FileFormatError, match="row 2 has the length 7, the first has 3"
    ):
        dataset.items.batch(torch.arange(4))


def test_image_options_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.npy", random_vectors(2, 2))
    with pytest.raises(gs.InputError, match=r"holds vectors; side, .* are for images"):
        open_dataset(tmp_path / "a.npy", side=8)


def test_another_suffix_lists_the_choices(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    with pytest.raises(gs.InputError, match=r"end in \.npy, \.npz, \.fvecs"):
        open_dataset("vectors", tmp_path / "a.csv")


def test_a_file_larger_than_memory_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.fvecs"
    record = 4 + 4 * 128
    with path.open("wb") as file:  # 50 GB, of which the disk stores one page
        file.write((128).to_bytes(4, "little"))
        file.truncate(100_000_000 * record)
    tracemalloc.start()
    dataset = open_dataset(path)
    first = dataset.items.batch(torch.tensor([0]))
    sent = pickle.dumps(dataset)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(dataset) == 100_000_000
    assert first.shape == (1, 128)
    assert peak < 1_000_000
    assert len(sent) < 2_000
