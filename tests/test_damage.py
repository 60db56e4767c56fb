"""Damaged files of models, checkpoints and coders: refused, never used."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import gradsnap as gs
from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.data import open_dataset
from gradsnap.data.fingerprint import items_digest
from gradsnap.errors import FileFormatError
from gradsnap.files import read_tensors, write_tensors
from gradsnap.training.checkpoints import truncate_log


@pytest.fixture(scope="module")
def coder_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("coder") / "pq.safetensors"
    rows = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    ProductQuantizer(8, 2, 4).fit(rows).save(path)
    return path.read_bytes()


@pytest.mark.parametrize("place", range(40))
def test_a_flipped_bit_anywhere_is_noticed(
    coder_bytes: bytes, place: int, tmp_path: Path
) -> None:
    changed = bytearray(coder_bytes)
    header = 8 + int.from_bytes(coder_bytes[:8], "little")
    spots = np.linspace(header, len(coder_bytes) - 1, 40).astype(int)
    changed[spots[place]] ^= 1 << (place % 8)
    path = tmp_path / "changed.safetensors"
    path.write_bytes(bytes(changed))
    with pytest.raises(FileFormatError, match=r"checksum|truncated|damaged"):
        gs.load(path)


def test_a_file_without_a_checksum_still_opens(tmp_path: Path) -> None:
    """Files of earlier versions have none."""
    from safetensors.torch import save_file

    path = tmp_path / "old.safetensors"
    save_file({"x": torch.ones(2)}, path, {"format": "f"})
    tensors, words = read_tensors(path, "f", "a test")
    assert words == {"format": "f"}
    assert torch.equal(tensors["x"], torch.ones(2))


def test_the_checksum_covers_the_words(tmp_path: Path) -> None:
    path = tmp_path / "words.safetensors"
    write_tensors(path, {"x": torch.ones(2)}, {"format": "f", "step": "17"})
    path.write_bytes(path.read_bytes().replace(b'"step":"17"', b'"step":"71"'))
    with pytest.raises(FileFormatError, match="checksum"):
        read_tensors(path, "f", "a test")


def test_a_checksum_under_another_name_was_changed(tmp_path: Path) -> None:
    path = tmp_path / "words.safetensors"
    write_tensors(path, {"x": torch.ones(2)}, {"format": "f"})
    path.write_bytes(path.read_bytes().replace(b'"sha256"', b'"shb256"'))
    with pytest.raises(FileFormatError, match="checksum"):
        read_tensors(path, "f", "a test")


def test_the_same_tensors_and_words_are_the_same_bytes(tmp_path: Path) -> None:
    words = {"format": "f", "ä": "ß", **{str(n): str(n) for n in range(9)}}
    tensors = {"b": torch.ones(3, dtype=torch.uint8), "a": torch.zeros(2, 2)}
    for name, order in (("one", 1), ("two", -1)):
        given = dict(list(words.items())[::order])
        write_tensors(tmp_path / name, tensors, given)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    read, said = read_tensors(tmp_path / "one", "f", "a test")
    assert said == words
    assert torch.equal(read["a"], tensors["a"])
    header = int.from_bytes((tmp_path / "one").read_bytes()[:8], "little")
    assert header % 8 == 0


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_codebooks_that_are_not_finite_are_refused(bad: float, tmp_path: Path) -> None:
    coder = ProductQuantizer(8, 2, 4).fit(torch.randn(64, 8))
    coder.codebooks[0, 0, 0] = bad
    coder.save(tmp_path / "pq")
    with pytest.raises(FileFormatError, match="codebooks holds NaN or infinity"):
        gs.load(tmp_path / "pq")


def test_a_damaged_line_of_the_log_does_not_stop_a_resumed_run(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [json.dumps({"step": step}).encode() for step in (1, 2, 3, 4)]
    lines[1] = b'{"step": \xff}'
    path.write_bytes(b"\n".join(lines) + b"\n")
    truncate_log(path, 3)
    kept = path.read_text().splitlines()
    assert [json.loads(line)["step"] for line in kept] == [1, 3]


def test_photos_replaced_under_their_names_are_other_data(tmp_path: Path) -> None:
    for number in range(40):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / f"{number:02}.png")
    before = items_digest(open_dataset(str(tmp_path))).hexdigest()
    again = items_digest(open_dataset(str(tmp_path))).hexdigest()
    Image.new("RGB", (8, 8), (200, 200, 0)).save(tmp_path / "07.png")
    after = items_digest(open_dataset(str(tmp_path))).hexdigest()
    assert before == again
    assert before != after
