"""Images with several labels: lists, tables and both layouts of NUS-WIDE."""

from pathlib import Path

import numpy as np
import pytest
import torch

import gradsnap as gs
from gradsnap.data import (
    FractionProtocol,
    NuswideProtocol,
    open_dataset,
    open_nuswide,
    read_label_list,
)
from gradsnap.data.vectors import as_labels
from tests.data_files import real_data, write_csv, write_image, write_nuswide


def test_a_list_is_names_and_zeros_and_ones(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x.jpg 0 1 1\n\ny.jpg 1 0 0\n")
    names, labels = read_label_list(tmp_path / "a.txt")
    assert names == ["x.jpg", "y.jpg"]
    assert labels.tolist() == [[False, True, True], [True, False, False]]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "a.txt lists no images"),
        ("x.jpg\n", "line 1: 0 labels"),
        ("x.jpg 0 1\ny.jpg 0\n", "line 2: 1 labels, where the first line has 2"),
        ("x.jpg 0 1\ny.jpg 0 2\n", "line 2: labels must be 0 or 1, got '2'"),
    ],
)
def test_a_broken_list_names_its_line(content, sentence, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(content)
    with pytest.raises(gs.FileFormatError, match=sentence):
        read_label_list(tmp_path / "a.txt")


def test_a_table_gives_the_labels_their_names(tmp_path: Path) -> None:
    dataset = open_dataset(write_csv(tmp_path) / "labels.csv")
    assert dataset.classes == ("cat", "dog")
    assert dataset.labels is not None
    assert dataset.labels.tolist() == [[True, False], [True, True]]
    assert dataset.item_shape == (3, 10, 12)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", r"needs a header .* got \[\]"),
        ("image,cat\n", "lists no images"),
        ("image,cat,dog\n0.png,1\n", "names 2 labels, and its rows have 1"),
        ("image,cat\n0.png,yes\n", "line 2: labels must be 0 or 1, got 'yes'"),
    ],
)
def test_a_broken_table_is_refused(content, sentence, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text(content)
    with pytest.raises(gs.FileFormatError, match=sentence):
        open_dataset(tmp_path)


def test_missing_images_are_named_or_skipped(tmp_path: Path) -> None:
    write_csv(tmp_path)
    (tmp_path / "images" / "0.png").unlink()
    with pytest.raises(
        gs.InputError, match=r"1 of 2 listed .*: 0\.png; give --skip-bad"
    ):
        open_dataset(tmp_path)
    dataset = open_dataset(tmp_path, skip_bad=True)
    assert list(dataset.names) == ["1.png"]
    assert dataset.skipped == ("0.png",)


def test_nuswide_lists_are_joined_and_the_test_list_held_out(tmp_path: Path) -> None:
    dataset = open_dataset("nuswide", write_nuswide(tmp_path / "nuswide").parent)
    assert sorted(dataset.names) == sorted(f"images/{row}.jpg" for row in range(12))
    assert dataset.held_out is not None
    assert {
        dataset.names[i] for i in dataset.held_out.nonzero().flatten().tolist()
    } == {f"images/{row}.jpg" for row in (6, 7, 8)}
    assert dataset.labels is not None
    for name, labels in zip(dataset.names, dataset.labels, strict=True):
        row = int(Path(name).stem)
        assert labels.tolist() == [(row + label) % 7 == 0 for label in range(21)]


def test_nuswide_takes_the_list_whose_images_are_there(tmp_path: Path) -> None:
    write_nuswide(tmp_path)
    (tmp_path / "nuswide_21_m_train.txt").write_text("images/m.jpg" + " 1" * 21 + "\n")
    assert len(open_nuswide(tmp_path)) == 12


def write_published(root: Path) -> Path:
    """Five images; `sky` is on four, `car` on two, `fox` on one, and one has none."""
    concepts = {"car": "11000", "fox": "00010", "sky": "11110"}
    folder = root / "Groundtruth" / "AllLabels"
    folder.mkdir(parents=True)
    for name, column in concepts.items():
        (folder / f"Labels_{name}.txt").write_text("\n".join(column) + "\n")
    (root / "ImageList").mkdir()
    lines = [f"actor\\{row}.jpg" for row in range(5)]
    (root / "ImageList" / "Imagelist.txt").write_text("\r\n".join(lines) + "\r\n")
    for row in range(5):
        write_image(root / "Flickr" / "actor" / f"{row}.jpg", seed=row)
    return root


def test_nuswide_as_published_keeps_the_most_frequent_labels(tmp_path: Path) -> None:
    dataset = open_nuswide(write_published(tmp_path), num_labels=2)
    assert dataset.classes == ("sky", "car")
    assert list(dataset.names) == [f"actor/{row}.jpg" for row in range(4)]
    assert dataset.labels is not None
    assert dataset.labels.int().tolist() == [[1, 1], [1, 1], [1, 0], [1, 0]]
    assert dataset.item_shape == (3, 10, 12)


def test_nuswide_as_published_and_broken(tmp_path: Path) -> None:
    write_published(tmp_path)
    with pytest.raises(gs.InputError, match=r"num_labels must be 1 to 3, .* got 21"):
        open_nuswide(tmp_path)
    (tmp_path / "Groundtruth" / "AllLabels" / "Labels_car.txt").write_text("1\n0\n")
    with pytest.raises(
        gs.FileFormatError, match=r"Labels_car\.txt must hold .* 5 images"
    ):
        open_nuswide(tmp_path, num_labels=2)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (np.array([0, -1]), r"0\.\.999999, got -1\.\.0"),
        (np.array([0, 10**12]), r"got 0\.\.1000000000000"),
        (np.array([2**64 - 1], np.uint64), "labels must lie in"),
        (np.array([0.5]), r"got float64 of shape \(1,\)"),
        (np.array([[0, 2]]), r"of shape \(1, 2\) must be 0 or 1, got 2"),
        (np.zeros((1, 1, 1), int), r"shape \(1, 1, 1\)"),
        (np.zeros(0, int), "there are no labels"),
    ],
)
def test_labels_out_of_range_are_refused(raw, sentence) -> None:
    with pytest.raises(gs.InputError, match=f"here: .*{sentence}"):
        as_labels(raw, "here")


def test_the_real_nuswide_lists() -> None:
    root = real_data("nuswide")
    sizes = {}
    for part in ("train", "test"):
        names, labels = read_label_list(root / f"nuswide_21_{part}.txt")
        assert len(set(names)) == len(names)
        assert labels.shape == (len(names), 21)
        assert labels.any(axis=1).all()
        sizes[part] = len(names)
    assert sizes == {"train": 10_500, "test": 2_100}
    with pytest.raises(gs.InputError, match="12600 of 12600 listed images are not in"):
        open_dataset("nuswide", root)


def test_the_real_voc_part() -> None:
    dataset = open_dataset(real_data("voc2007-part"), side=32)
    assert (len(dataset), len(dataset.classes)) == (1_165, 20)
    assert dataset.batch(torch.arange(4))[0].shape == (4, 3, 32, 32)
    split = dataset.split(FractionProtocol().with_validation(0.1))
    assert len(split.queries) + len(split.database) == 1_165
    counts = dataset.split(NuswideProtocol(2, 4))
    assert (len(counts.queries), len(counts.train)) == (40, 80)


def test_a_table_of_classes_above_its_images(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name in ("0.png", "1.png", "2.png"):
        write_image(tmp_path / "images" / name)
    table = "image,label\n2.png,dog\n0.png,cat\n1.png,dog\n"
    (tmp_path / "labels.csv").write_text(table)
    for place in (tmp_path, tmp_path / "images", tmp_path / "labels.csv"):
        dataset = open_dataset(place)
        assert list(dataset.names) == ["2.png", "0.png", "1.png"]
        assert dataset.classes == ("cat", "dog")
        assert dataset.labels is not None
        assert dataset.labels.tolist() == [1, 0, 1]
    (tmp_path / "labels.csv").write_text("image,label\n2.png,\n")
    with pytest.raises(gs.FileFormatError, match=r"names no class in the row '2"):
        open_dataset(tmp_path)
