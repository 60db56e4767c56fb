"""Loaders: order, worker processes, errors that cross them, and no global state."""

from pathlib import Path

import pytest
import torch

import gradsnap as gs
from gradsnap.data import OrderedBatches, in_memory, loader, open_dataset
from tests.data_files import write_folder


def test_ordered_batches_hold_everything_in_order() -> None:
    batches = OrderedBatches(torch.tensor([5, 1, 4, 2, 3]), 2)
    assert list(batches) == [[5, 1], [4, 2], [3]]
    assert len(batches) == 3


def test_batches_that_cannot_be_are_refused() -> None:
    for size in (0, -1):
        with pytest.raises(gs.InputError, match=f"at least 1, got {size}"):
            OrderedBatches(torch.arange(5), size)
    for workers in (-1, 257, 2**63 - 1):
        with pytest.raises(gs.InputError, match=f"from 0 to 256, got {workers}"):
            loader(open_dataset("digits"), [[0]], workers=workers)
    with pytest.raises(gs.InputError, match="no indices to read from digits"):
        in_memory(open_dataset("digits"), torch.arange(0))


def test_batches_are_the_data_sets() -> None:
    digits = open_dataset("digits")
    indices = torch.arange(0, 1797, 7)
    items, labels = zip(*loader(digits, OrderedBatches(indices, 50)), strict=True)
    expected = digits.batch(indices)
    assert torch.equal(torch.cat(items), expected[0])
    assert torch.equal(torch.cat(labels), expected[1])


def test_the_global_generator_is_not_touched() -> None:
    digits = open_dataset("digits")
    before = torch.get_rng_state()
    list(loader(digits, OrderedBatches(torch.arange(9), 3)))
    assert torch.equal(torch.get_rng_state(), before)


def error_of(reading) -> str:
    """What reading on raises, without its traceback, which would keep the workers."""
    try:
        next(reading)
    except gs.FileFormatError as error:
        error.__traceback__ = None
        return str(error)
    return "nothing was raised"


@pytest.mark.slow
def test_spawned_workers_decode_and_name_a_bad_image(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "dog" / "zero.jpg").touch()
    photos = open_dataset(tmp_path, side=8)
    batches = OrderedBatches(torch.arange(len(photos)), 3)
    reading = iter(loader(photos, batches, workers=1, context="spawn"))
    for expected in ([0, 1, 2], [3, 4, 5]):
        images, _ = next(reading)
        assert torch.equal(images, photos.batch(torch.tensor(expected))[0])
    assert "dog/zero.jpg cannot be decoded" in error_of(reading)
