"""MNIST, CIFAR-10 and the digits: every form, and every way to be broken."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

import gradsnap as gs
from gradsnap.data import PaperProtocol, open_dataset
from gradsnap.data.mnist import read_idx
from gradsnap.data.pickles import read_arrays
from tests.data_files import (
    cifar_batch,
    random_bytes,
    real_data,
    write_cifar_binary,
    write_cifar_pickled,
    write_idx,
    write_mnist,
)


def test_digits_keep_their_sixteen_greys() -> None:
    images, labels = open_dataset("digits").batch(torch.arange(1797))
    assert len(images.unique()) == 17
    assert images.min() == 0
    assert images.max() == 255
    assert torch.bincount(labels).min() >= 174


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_files_compressed_or_not(suffix: str, tmp_path: Path) -> None:
    dataset = open_dataset("mnist", write_mnist(tmp_path / "MNIST" / "raw", suffix))
    assert dataset.held_out is not None
    assert dataset.held_out.tolist() == [False] * 20 + [True] * 10
    expected = torch.from_numpy(random_bytes(10, 28, 28, seed=10))
    assert torch.equal(dataset.items.batch(torch.arange(20, 30))[:, 0], expected)


def test_the_root_may_be_above(tmp_path: Path) -> None:
    write_mnist(tmp_path / "MNIST" / "raw")
    assert len(open_dataset("mnist", tmp_path)) == 30


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("kept", [0, 3, 10, 60])
def test_a_truncated_idx_file_is_named(kept: int, suffix: str, tmp_path: Path) -> None:
    path = write_idx(tmp_path / f"a-idx3-ubyte{suffix}", random_bytes(5, 4, 4))
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(gs.FileFormatError, match="a-idx3-ubyte"):
        read_idx(path)


def test_an_idx_file_of_another_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes([0, 0, 13, 1, 0, 0, 0, 1, 0, 0, 0, 0]))  # of floats
    with pytest.raises(gs.FileFormatError, match="begins with 00000d01, expected"):
        read_idx(path)
    write_idx(path, random_bytes(5))
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(gs.FileFormatError, match=r"says 5 bytes .* it holds 9"):
        read_idx(path)


def test_an_interrupted_mnist_is_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    labels = write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", random_bytes(9))
    with pytest.raises(gs.FileFormatError, match=r"\(10, 28, 28\) .* \(9,\)"):
        open_dataset("mnist", tmp_path)
    labels.unlink()
    with pytest.raises(gs.InputError, match=r"no t10k-labels.* unpack it again"):
        open_dataset("mnist", tmp_path)


def test_labels_beyond_nine_are_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", np.full(10, 10, np.uint8))
    with pytest.raises(gs.InputError, match=r"0\.\.9, got 0\.\.10"):
        open_dataset("mnist", tmp_path)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_binary_and_pickled_batches_are_the_same(protocol, tmp_path: Path) -> None:
    binary = open_dataset("cifar10", write_cifar_binary(tmp_path / "bin"))
    pickled = open_dataset("cifar10", write_cifar_pickled(tmp_path / "py", protocol))
    everything = torch.arange(24)
    for ours, theirs in zip(
        binary.batch(everything), pickled.batch(everything), strict=True
    ):
        assert torch.equal(ours, theirs)
    first = torch.from_numpy(cifar_batch(0)[0][0]).view(3, 32, 32)
    assert torch.equal(binary[0][0], first)
    assert binary.held_out is not None
    assert binary.held_out.nonzero().flatten().tolist() == [20, 21, 22, 23]


def test_a_pickle_as_python_2_wrote_it(tmp_path: Path) -> None:
    """The publisher's pickles name numpy by its old module."""
    content = pickle.dumps({b"data": random_bytes(2, 3)}, protocol=2)
    content = content.replace(b"cnumpy._core.multiarray", b"cnumpy.core.multiarray")
    (tmp_path / "a").write_bytes(content)
    found = read_arrays(tmp_path / "a")["data"]
    assert isinstance(found, np.ndarray)
    assert np.array_equal(found, random_bytes(2, 3))


class Evil:
    def __reduce__(self):
        return os.mkdir, ("broken-into",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_runs_code_is_refused(protocol, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_bytes(pickle.dumps({"data": Evil()}, protocol))
    with pytest.raises(gs.FileFormatError, match=r"a is .* asks for (posix|nt)\.mkdir"):
        read_arrays("a")
    assert not (tmp_path / "broken-into").exists()


@pytest.mark.parametrize(
    "value", [np.float64(1), np.random.default_rng(0), Path("a"), print, Evil]
)
def test_a_pickle_of_anything_else_is_refused(value, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(pickle.dumps({"data": value}))
    with pytest.raises(gs.FileFormatError, match="it asks for"):
        read_arrays(tmp_path / "a")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "a is truncated"),
        (pickle.dumps({"data": random_bytes(9, 9)})[:40], "a is truncated"),
        (b"no pickle at all", "a is truncated, or not a pickle"),
        (pickle.dumps([1, 2]), "holds a list, not a dict"),
    ],
)
def test_a_broken_pickle_is_named(content, sentence, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(gs.FileFormatError, match=sentence):
        read_arrays(tmp_path / "a")


@pytest.mark.parametrize(
    ("batch", "sentence"),
    [
        ({}, "holds no data, uint8"),
        ({"data": random_bytes(4, 7)}, r"holds no data, uint8 \(n, 3072\)"),
        ({"data": random_bytes(4, 3072), "labels": ["a"]}, "whole numbers as labels"),
        ({"data": random_bytes(4, 3072), "labels": [1]}, "has 1 labels, 4 images"),
        (
            {"data": random_bytes(4, 3072), "labels": [0, 1, 2, 10]},
            r"lie in 0\.\.9, got 0\.\.10",
        ),
    ],
)
def test_a_pickled_batch_of_other_things_is_refused(batch, sentence, tmp_path) -> None:
    write_cifar_pickled(tmp_path)
    (tmp_path / "data_batch_2").write_bytes(pickle.dumps(batch))
    with pytest.raises(gs.GradsnapError, match=sentence):
        open_dataset("cifar10", tmp_path)


def test_an_interrupted_cifar10_is_refused(tmp_path: Path) -> None:
    third = write_cifar_binary(tmp_path) / "data_batch_3.bin"
    whole = third.read_bytes()
    third.write_bytes(whole[:5000])
    with pytest.raises(
        gs.FileFormatError, match=r"data_batch_3\.bin is truncated: 5000"
    ):
        open_dataset("cifar10", tmp_path)
    third.write_bytes(whole[:3073])
    with pytest.raises(
        gs.FileFormatError, match=r"differ in size: \[4, 4, 1, 4, 4, 4\]"
    ):
        open_dataset("cifar10", tmp_path)
    third.unlink()
    with pytest.raises(gs.InputError, match="no data_batch_3 in"):
        open_dataset("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("name", "folder", "shape", "count"),
    [
        ("mnist", "MNIST", (1, 28, 28), 70_000),
        ("cifar10", "cifar-10-batches-bin", (3, 32, 32), 60_000),
    ],
)
def test_the_real_one_splits_as_in_the_paper(name, folder, shape, count) -> None:
    dataset = open_dataset(name, real_data(folder).parent)
    assert (len(dataset), dataset.item_shape) == (count, shape)
    split = dataset.split(PaperProtocol())
    sizes = len(split.train), len(split.queries), len(split.database)
    assert sizes == (5_000, 1_000, count - 1_000)
    apart = dataset.split(PaperProtocol(training_in_database=False))
    assert len(apart.database) == count - 6_000
    assert dataset.labels is not None
    assert (torch.bincount(dataset.labels[split.queries]) == 100).all()
