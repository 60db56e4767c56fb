"""Images: decoding against pillow, sizes, grey and colour, and files that are bad."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import gradsnap as gs
from gradsnap.data import (
    ImageFiles,
    ImageOptions,
    StoredImages,
    decode_image,
    images,
    in_memory,
    open_dataset,
)
from gradsnap.strings import PackedStrings
from tests.data_files import random_bytes, write_folder, write_image


def test_pixels_are_the_files(tmp_path: Path) -> None:
    path = write_image(tmp_path / "a.png")
    expected = torch.from_numpy(np.array(Image.open(path))).permute(2, 0, 1)
    assert torch.equal(decode_image(path), expected)
    assert decode_image(path).shape == (3, 10, 12)


def test_resized_and_grey_as_pillow_does(tmp_path: Path) -> None:
    path = write_image(tmp_path / "a.png")
    grey = Image.open(path).convert("L").resize((5, 5), Image.Resampling.BILINEAR)
    decoded = decode_image(path, ImageOptions(side=5, channels=1))
    assert torch.equal(decoded, torch.from_numpy(np.array(grey))[None])


def test_stored_images_turn_grey_as_pillow_does() -> None:
    pixels = random_bytes(4, 9, 7, 3)
    expected = np.stack([np.array(Image.fromarray(one).convert("L")) for one in pixels])
    stored = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    grey = StoredImages(stored, ImageOptions(channels=1)).batch(torch.arange(4))
    assert torch.equal(grey, torch.from_numpy(expected)[:, None])


def test_stored_images_are_resized_nearly_as_files() -> None:
    pixels = random_bytes(40, 40, 3)
    small = Image.fromarray(pixels).resize((16, 16), Image.Resampling.BILINEAR)
    stored = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    resized = StoredImages(stored, ImageOptions(side=16)).batch(torch.tensor([0]))[0]
    expected = torch.from_numpy(np.array(small)).permute(2, 0, 1)
    assert (resized.int() - expected.int()).abs().max() <= 1


def test_grey_images_become_colour() -> None:
    stored = torch.from_numpy(random_bytes(2, 1, 4, 4))
    images = StoredImages(stored, ImageOptions(channels=3)).batch(torch.arange(2))
    assert torch.equal(images, stored.repeat(1, 3, 1, 1))


def test_a_photograph_is_turned_upright(tmp_path: Path) -> None:
    turned = Image.new("RGB", (20, 10))
    exif = turned.getexif()
    exif[0x0112] = 6  # the camera was turned by a quarter
    turned.save(tmp_path / "a.jpg", exif=exif)
    assert decode_image(tmp_path / "a.jpg").shape == (3, 20, 10)


WRITTEN = {
    suffix: name
    for suffix, name in images.FORMAT_OF.items()
    if name in images.image_formats() and name in Image.SAVE
}


@pytest.mark.parametrize(("suffix", "written"), [*WRITTEN.items(), (".jpg", "MPO")])
def test_every_format_is_read(suffix: str, written: str, tmp_path: Path) -> None:
    picture = Image.fromarray(random_bytes(10, 12, 3))
    picture.save(tmp_path / f"a{suffix}", written)
    assert decode_image(tmp_path / f"a{suffix}").shape == (3, 10, 12)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK"])
def test_every_mode_is_read_as_colour(mode: str, tmp_path: Path) -> None:
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    Image.new(mode, (4, 4)).save(path)
    assert decode_image(path).shape == (3, 4, 4)


def test_sixteen_bits_become_eight(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 256, 65535]], np.uint16)).save(tmp_path / "a.png")
    assert decode_image(tmp_path / "a.png")[0].tolist() == [[0, 1, 255]]


def bad_content(kind: str) -> bytes:
    good = io.BytesIO()
    suffix = "PNG" if kind == "truncated PNG" else "JPEG"
    Image.fromarray(random_bytes(64, 64, 3)).save(good, suffix)
    contents = {
        "zero bytes": b"",
        "text": b"this is no image",
        "truncated JPEG": good.getvalue()[: len(good.getvalue()) // 2],
        "truncated PNG": good.getvalue()[: len(good.getvalue()) // 2],
        "header only": good.getvalue()[:20],
    }
    return contents[kind]


BAD = ["zero bytes", "text", "truncated JPEG", "truncated PNG", "header only"]


@pytest.mark.parametrize("side", [None, 8])
@pytest.mark.parametrize("kind", BAD)
def test_a_bad_image_is_named(kind: str, side: int | None, tmp_path: Path) -> None:
    (tmp_path / "bad.jpg").write_bytes(bad_content(kind))
    with pytest.raises(gs.FileFormatError, match=r"bad\.jpg cannot be decoded"):
        decode_image(tmp_path / "bad.jpg", ImageOptions(side=side))


EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 8 8
%%EndComments
(/etc/passwd) (r) file
%%EOF
"""


def test_a_program_that_is_named_as_an_image_is_not_run(tmp_path, monkeypatch) -> None:
    (tmp_path / "x.jpg").write_bytes(EPS)
    run = "PIL.EpsImagePlugin.Ghostscript"
    monkeypatch.setattr(run, lambda *a, **k: pytest.fail("Ghostscript was called"))
    with pytest.raises(gs.FileFormatError, match=r"x\.jpg cannot be decoded"):
        decode_image(tmp_path / "x.jpg")


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    with pytest.raises(gs.InputError, match=r"there is no image .*a\.jpg"):
        decode_image(tmp_path / "a.jpg")


def test_images_of_two_sizes_ask_for_a_side(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", 4, 4)
    write_image(tmp_path / "b.png", 5, 4)
    names = PackedStrings.of(["a.png", "b.png"])
    with pytest.raises(gs.InputError, match=r"\(3, 4, 5\); give data.side"):
        ImageFiles(tmp_path, names, ImageOptions()).batch(torch.arange(2))
    both = ImageFiles(tmp_path, names, ImageOptions(side=6)).batch(torch.arange(2))
    assert both.shape == (2, 3, 6, 6)


def test_options_that_cannot_be_are_refused() -> None:
    with pytest.raises(gs.InputError, match="side must be at least 1, got 0"):
        ImageOptions(side=0)
    with pytest.raises(gs.InputError, match="channels must be 1 or 3, got 4"):
        ImageOptions(channels=4)


def test_data_opened_once_are_read_at_another_size(tmp_path: Path, monkeypatch) -> None:
    (write_folder(tmp_path) / "dog" / "zero.jpg").touch()
    decoded: list[Path] = []

    def decode(path: Path, options: ImageOptions) -> torch.Tensor:
        decoded.append(path)
        return decode_image(path, options)

    monkeypatch.setattr(images, "decode_image", decode)
    opened = open_dataset(tmp_path, skip_bad=True)
    assert len(decoded) == 7
    small = opened.reading(side=32, channels=1)
    assert len(decoded) == 7
    assert small.skipped == opened.skipped == ("dog/zero.jpg",)
    assert list(small.names) == list(opened.names)
    assert small.batch(torch.arange(6))[0].shape == (6, 1, 32, 32)
    assert len(decoded) == 13
    assert small.reading(side=8).item_shape == (1, 8, 8)
    assert opened.reading() is opened
    assert opened.item_shape == (3, 10, 12)


def test_stored_images_are_read_at_another_size() -> None:
    digits = open_dataset("digits")
    assert digits.reading(side=12, channels=3).item_shape == (3, 12, 12)
    expected = open_dataset("digits", side=12).batch(torch.arange(5))[0]
    assert torch.equal(digits.reading(side=12).batch(torch.arange(5))[0], expected)


def test_what_is_not_read_from_images_has_no_other_size(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 4)))
    vectors = open_dataset(tmp_path / "a.npy")
    assert vectors.reading() is vectors
    for kept in (vectors, in_memory(open_dataset("digits"), torch.arange(3))):
        with pytest.raises(gs.InputError, match=r"at side 8 .* not read from images"):
            kept.reading(side=8)
