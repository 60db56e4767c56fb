"""Folders of classes and the ILSVRC layout, whole, strange and broken."""

from pathlib import Path

import pytest
import torch
from PIL import features

import gradsnap as gs
from gradsnap.data import FractionProtocol, IlsvrcProtocol, images, open_dataset
from tests.data_files import real_data, write_folder, write_ilsvrc, write_image
from tests.platforms import needs_permissions


def test_a_class_is_a_folder_and_the_order_is_sorted(tmp_path: Path) -> None:
    write_folder(tmp_path, ("zebra", "Ant", "bee"))
    write_image(tmp_path / "bee" / "deeper" / "x.PNG")
    dataset = open_dataset(tmp_path)
    assert dataset.classes == ("Ant", "bee", "zebra")
    assert dataset.labels is not None
    assert dataset.labels.tolist() == [0] * 3 + [1] * 4 + [2] * 3
    assert list(dataset.names)[3:7] == [
        "bee/0.png",
        "bee/1.png",
        "bee/2.png",
        "bee/deeper/x.PNG",
    ]


def test_hidden_files_and_loose_texts_are_ignored(tmp_path: Path) -> None:
    write_folder(tmp_path)
    for name in ("README.txt", ".hidden", "cat/.DS_Store", "cat/Thumbs.db"):
        (tmp_path / name).touch()
    write_image(tmp_path / ".cache" / "a.png")
    assert len(open_dataset(tmp_path)) == 6


def test_a_flat_folder_has_no_labels(tmp_path: Path) -> None:
    write_image(tmp_path / "b.png")
    write_image(tmp_path / "a.png")
    dataset = open_dataset(tmp_path)
    assert list(dataset.names) == ["a.png", "b.png"]
    assert dataset.labels is None


def test_one_class_opens_but_cannot_be_split(tmp_path: Path) -> None:
    dataset = open_dataset(write_folder(tmp_path, ("cat",)))
    with pytest.raises(
        gs.InputError, match="at least two classes; these 3 items have 1"
    ):
        dataset.split(FractionProtocol())


def test_classes_with_one_image_cannot_be_split(tmp_path: Path) -> None:
    write_folder(tmp_path)
    write_image(tmp_path / "one" / "a.png")
    with pytest.raises(gs.InputError, match=r"1 of 3 classes .* class 2 has 1 items"):
        open_dataset(tmp_path).split(FractionProtocol())


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(gs.InputError, match="holds no images; expected one folder"):
        open_dataset(tmp_path)


@needs_permissions
def test_an_unreadable_folder_is_named(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "cat").chmod(0)
    with pytest.raises(gs.InputError, match=r"cannot read the folder .*cat"):
        open_dataset(tmp_path)


def spoiled(root: Path) -> Path:
    """Two good classes with six images, and five things that are none of theirs."""
    write_folder(root)
    (root / "cat" / "notes.txt").write_text("hello")
    (root / "dog" / "zero.jpg").touch()
    whole = write_image(root / "dog" / "half.jpg", 64, 64).read_bytes()
    (root / "dog" / "half.jpg").write_bytes(whole[: len(whole) // 2])
    (root / "empty").mkdir()
    write_image(root / "loose.png")
    return root


STRAYS = ("Thumbs.db", "notes.txt", "0.png.json", "README")


@pytest.mark.parametrize("place", ["", "cat"])
def test_files_that_are_not_images_are_left_out(place: str, tmp_path, caplog) -> None:
    write_folder(tmp_path)
    for name in STRAYS:
        (tmp_path / place / name).touch()
    dataset = open_dataset(tmp_path)
    assert (len(dataset), dataset.ignored, dataset.skipped) == (6, 4, ())
    assert "left out 4 files not named as images" in caplog.text
    assert len(caplog.records) == 1


def test_strays_in_a_flat_folder_are_left_out(tmp_path: Path, caplog) -> None:
    write_image(tmp_path / "a.png")
    (tmp_path / "notes.txt").touch()
    dataset = open_dataset(tmp_path)
    assert (list(dataset.names), dataset.ignored) == (["a.png"], 1)
    assert "left out 1 file not named as images: notes.txt" in caplog.text


@pytest.fixture
def without_heif(monkeypatch) -> None:
    formats = tuple(name for name in images.FORMATS if name != "HEIF")
    monkeypatch.setattr(images, "image_formats", lambda: formats)


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow writes no AVIF")
@pytest.mark.usefixtures("without_heif")
def test_no_photo_is_lost_without_a_word(tmp_path: Path, caplog) -> None:
    for name in ("a.jpg", "d.avif"):
        write_image(tmp_path / name)
    for name in ("b.HEIC", "c.jfif", "e.JPE"):
        (tmp_path / name).write_bytes((tmp_path / "a.jpg").read_bytes())
    dataset = open_dataset(tmp_path)
    assert list(dataset.names) == ["a.jpg", "c.jfif", "d.avif", "e.JPE"]
    assert dataset.batch(torch.arange(4))[0].shape == (4, 3, 10, 12)
    assert dataset.skipped == ("b.HEIC",)
    assert "left out 1 file of kinds that nothing here decodes" in caplog.text
    assert "pip install 'gradsnap[heif]'): b.HEIC" in caplog.text


@pytest.mark.usefixtures("without_heif")
def test_photos_that_nothing_decodes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "b.HEIC").touch()
    with pytest.raises(gs.InputError, match=r"1 of kinds .*gradsnap\[heif\]"):
        open_dataset(tmp_path)


def test_a_loose_image_has_no_class(tmp_path: Path, caplog) -> None:
    write_image(write_folder(tmp_path) / "loose.png")
    dataset = open_dataset(tmp_path)
    assert (len(dataset), dataset.skipped) == (6, ("loose.png",))
    assert dataset.classes == ("cat", "dog")
    assert "left out 1 file beside the class folders" in caplog.text


def test_every_image_counts_where_no_labels_are_needed(tmp_path: Path, caplog) -> None:
    write_folder(tmp_path)
    labels = open_dataset(tmp_path, labelled=False).labels
    assert labels is not None
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]
    write_image(tmp_path / "loose.png")
    dataset = open_dataset(tmp_path, labelled=False)
    assert list(dataset.names)[-2:] == ["dog/2.png", "loose.png"]
    assert (len(dataset), dataset.labels, dataset.classes) == (7, None, ())
    assert not dataset.skipped
    assert not caplog.records


def test_links_to_folders_are_followed(tmp_path: Path) -> None:
    write_folder(tmp_path / "photos")
    write_image(tmp_path / "elsewhere" / "deep" / "a.png")
    (tmp_path / "photos" / "cat" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "photos" / "cow").symlink_to(tmp_path / "elsewhere")
    dataset = open_dataset(tmp_path / "photos")
    assert dataset.classes == ("cat", "cow", "dog")
    assert list(dataset.names)[3:5] == ["cat/more/deep/a.png", "cow/deep/a.png"]
    assert dataset.batch(torch.tensor([3, 4]))[0].shape == (2, 3, 10, 12)


def test_links_that_lead_back_are_followed_no_further(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "cat" / "again").symlink_to(tmp_path / "cat")
    (tmp_path / "cat" / "up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path)
    (tmp_path / "dog" / "twice").mkdir()
    (tmp_path / "dog" / "twice" / "again").symlink_to(tmp_path / "dog" / "twice")
    dataset = open_dataset(tmp_path)
    assert list(dataset.names) == [
        f"{c}/{i}.png" for c in ("cat", "dog") for i in "012"
    ]


def test_a_bad_image_is_named_when_it_is_read(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "dog" / "zero.jpg").touch()
    dataset = open_dataset(tmp_path)
    with pytest.raises(gs.FileFormatError, match=r"dog/zero\.jpg .*--skip-bad"):
        dataset.batch(torch.arange(len(dataset)))


def test_bad_files_are_skipped_and_counted(tmp_path: Path, caplog) -> None:
    dataset = open_dataset(spoiled(tmp_path), skip_bad=True)
    assert len(dataset) == 6
    assert dataset.classes == ("cat", "dog")
    assert dataset.skipped == ("loose.png", "dog/half.jpg", "dog/zero.jpg")
    assert dataset.ignored == 2
    assert "2 files not named as images: cat/notes.txt, empty/" in caplog.text
    assert "2 files that cannot be decoded: dog/half.jpg, dog/zero.jpg" in caplog.text
    assert len(dataset.batch(torch.arange(6))[0]) == 6


def test_a_folder_of_bad_images_only_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "a.jpg").touch()
    with pytest.raises(gs.InputError, match=r"can be read: 1 that cannot be decoded"):
        open_dataset(tmp_path, skip_bad=True)


def test_ilsvrc_holds_its_validation_images_out(tmp_path: Path) -> None:
    dataset = open_dataset("ilsvrc2012", write_ilsvrc(tmp_path))
    split = dataset.split(IlsvrcProtocol())
    assert len(split.train) == len(split.database) == len(split.queries) == 9
    assert all(dataset.names[i].startswith("val/") for i in split.queries.tolist())


FLAT = {
    "val.txt": "{name}.JPEG {number}",
    "val_labels.txt": "{name}.JPEG {wnid}",
    "LOC_val_solution.csv": "{name},{wnid} 85 1 499 272",
    "val/val_annotations.txt": "{name}.JPEG\t{wnid}\t0\t32\t44\t62",
}


def write_flat(root: Path, label_file: str) -> Path:
    write_folder(root / "train", ("n01", "n02", "n03"))
    lines = ["ImageId,PredictionString"] if label_file.endswith(".csv") else []
    for row, number in enumerate((2, 0, 1, 0)):
        write_image(root / "val" / f"val_{row}.JPEG", seed=row)
        one = {"name": f"val_{row}", "number": number, "wnid": f"n0{number + 1}"}
        lines.append(FLAT[label_file].format(**one))
    (root / label_file).write_text("\n".join(lines) + "\n")
    return root


@pytest.mark.parametrize("label_file", list(FLAT))
def test_a_flat_val_takes_its_labels_from_a_file(label_file, tmp_path: Path) -> None:
    dataset = open_dataset("ilsvrc2012", write_flat(tmp_path, label_file))
    assert dataset.labels is not None
    assert dataset.labels[-4:].tolist() == [2, 0, 1, 0]
    assert dataset.held_out is not None
    assert dataset.held_out.sum() == 4


def test_an_unfinished_ilsvrc_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path / "train", ("n01", "n02"))
    with pytest.raises(gs.InputError, match="none called val"):
        open_dataset("ilsvrc2012", tmp_path)
    write_image(tmp_path / "val" / "a.JPEG")
    with pytest.raises(gs.InputError, match=r"no label file; expected one of val.txt"):
        open_dataset("ilsvrc2012", tmp_path)
    (tmp_path / "val.txt").write_text("b.JPEG 0\n")
    with pytest.raises(gs.FileFormatError, match="no line for 1 of 1 images"):
        open_dataset("ilsvrc2012", tmp_path)
    (tmp_path / "val.txt").write_text("a.JPEG 490\n")
    with pytest.raises(
        gs.FileFormatError, match=r"line 1: .* 0\.\.1; got 'a.JPEG 490'"
    ):
        open_dataset("ilsvrc2012", tmp_path)


def test_the_real_tiny_imagenet() -> None:
    dataset = open_dataset(real_data("tiny-imagenet-100"), side=32)
    assert (len(dataset), len(dataset.classes)) == (25_000, 100)
    split = dataset.split(IlsvrcProtocol())
    assert (len(split.train), len(split.queries)) == (20_000, 5_000)
    assert dataset.batch(split.queries[:3])[0].shape == (3, 3, 32, 32)
