"""Image files that are strange or meant badly."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gradsnap.data.images import MOST_PIXELS, ImageOptions, decode_image
from gradsnap.errors import FileFormatError

SMALL = ImageOptions(side=8, channels=3)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_a_pipe_named_as_an_image_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.jpg")  # reading it would wait for ever
    with pytest.raises(FileFormatError, match=r"not a regular file"):
        decode_image(tmp_path / "x.jpg", SMALL)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_small_file_of_very_many_pixels_is_refused(tmp_path: Path) -> None:
    side = int(MOST_PIXELS**0.5) + 1
    Image.new("1", (side, side)).save(tmp_path / "bomb.png")
    assert (tmp_path / "bomb.png").stat().st_size < 2**20
    with pytest.raises(FileFormatError, match=r"pixels, more than 134217728"):
        decode_image(tmp_path / "bomb.png", SMALL)


@pytest.mark.parametrize("top", [1, 255, 65535])
def test_floats_of_a_tiff_keep_their_shades(top: int, tmp_path: Path) -> None:
    ramp = np.linspace(0, top, 64, dtype=np.float32).reshape(8, 8)
    Image.fromarray(ramp).save(tmp_path / "ramp.tif")
    found = decode_image(tmp_path / "ramp.tif", ImageOptions(channels=1)).numpy()[0]
    assert np.abs(found - np.linspace(0, 255, 64).reshape(8, 8)).max() <= 1


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "CMYK", "YCbCr", "I;16"])
def test_every_mode_decodes(mode: str, tmp_path: Path) -> None:
    end = "jpg" if mode in ("CMYK", "YCbCr") else "png"
    Image.new(mode, (5, 9), 1).save(tmp_path / f"x.{end}")
    assert decode_image(tmp_path / f"x.{end}", SMALL).shape == (3, 8, 8)


def test_a_long_thin_image_decodes(tmp_path: Path) -> None:
    Image.new("RGB", (60_000, 1)).save(tmp_path / "thin.png")
    assert decode_image(tmp_path / "thin.png", SMALL).shape == (3, 8, 8)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_cut_file_is_refused(share: float, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "x.png")
    whole = (tmp_path / "x.png").read_bytes()
    (tmp_path / "x.png").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(FileFormatError, match=r"cannot be decoded"):
        decode_image(tmp_path / "x.png", SMALL)
