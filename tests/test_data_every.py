"""The battery of all data sets: what is in the registry keeps the contract."""

import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import gradsnap as gs
from gradsnap.data import DATASETS, Dataset, in_memory, open_dataset
from gradsnap.strings import PackedStrings
from tests.data_files import WRITERS, write_folder


@pytest.fixture(params=list(DATASETS))
def kind(request) -> str:
    return str(request.param)


@pytest.fixture
def dataset(kind: str, tmp_path: Path) -> Dataset:
    return open_dataset(kind, WRITERS[kind](tmp_path))


def test_labels_names_and_items_fit(dataset) -> None:
    assert len(dataset) == len(dataset.items) == len(dataset.names) > 1
    assert len(set(dataset.names)) == len(dataset)
    assert dataset.labels is not None
    assert len(dataset.labels) == len(dataset)
    assert len(dataset.classes) > 1
    if dataset.labels.ndim == 2:
        assert dataset.labels.dtype == torch.bool
        assert dataset.labels.shape[1] == len(dataset.classes)
    else:
        assert dataset.labels.dtype == torch.int64
        assert 0 <= dataset.labels.min() <= dataset.labels.max() < len(dataset.classes)


def test_items_are_byte_images_or_floating_vectors(dataset) -> None:
    items, _ = dataset.batch(torch.tensor([0, 1]))
    assert tuple(items.shape[1:]) == dataset.item_shape
    assert items.dtype == (torch.uint8 if items.ndim == 4 else torch.float32)


def test_one_item_equals_its_row_in_a_batch(dataset) -> None:
    order = torch.tensor([1, 0, len(dataset) - 1])
    items, labels = dataset.batch(order)
    for row, index in enumerate(order.tolist()):
        item, label = dataset[index]
        assert torch.equal(item, items[row])
        assert torch.equal(label, labels[row])
    assert torch.equal(dataset[-1][0], items[2])


def test_an_index_beyond_the_end_raises(dataset) -> None:
    with pytest.raises(IndexError):
        dataset[len(dataset)]


def test_a_plain_torch_loader_takes_it(dataset) -> None:
    items, labels = next(iter(DataLoader(dataset, batch_size=2)))
    assert torch.equal(items, dataset.batch(torch.tensor([0, 1]))[0])
    assert len(labels) == 2


def test_it_survives_the_way_to_a_worker_process(dataset) -> None:
    copy = pickle.loads(pickle.dumps(dataset))
    assert list(copy.names) == list(dataset.names)
    assert torch.equal(copy[1][0], dataset[1][0])


def test_a_part_in_memory_is_the_same(dataset) -> None:
    indices = torch.tensor([1, 0])
    part = in_memory(dataset, indices)
    assert list(part.names) == [dataset.names[1], dataset.names[0]]
    assert torch.equal(part.items.batch(torch.arange(2)), dataset.batch(indices)[0])
    assert part.labels is not None
    assert torch.equal(part.labels, dataset.labels[indices])


def test_a_missing_root_is_refused(kind: str, tmp_path: Path) -> None:
    if kind == "digits":
        pytest.skip("the digits need no root")
    for root in (None, tmp_path / "nowhere"):
        with pytest.raises(gs.InputError):
            open_dataset(kind, root)


def test_its_folder_or_file_is_recognised(kind: str, tmp_path: Path) -> None:
    if kind == "digits":
        pytest.skip("the digits have no folder")
    root = WRITERS[kind](tmp_path)
    by_path, by_name = open_dataset(root), open_dataset(kind, root)
    assert by_path.classes == by_name.classes
    assert list(by_path.names) == list(by_name.names)


def test_every_kind_has_a_tiny_one() -> None:
    assert WRITERS.keys() == DATASETS.keys()


def test_an_unknown_name_lists_the_choices(tmp_path: Path) -> None:
    for root in (None, tmp_path):
        with pytest.raises(gs.InputError, match=r"'imagnet'.*digits, mnist, cifar10"):
            open_dataset("imagnet", root)


def test_a_file_of_another_kind_lists_the_choices(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    with pytest.raises(gs.InputError, match=r"'.txt'.*\.npy, .*\.csv"):
        open_dataset(tmp_path / "a.txt")


def test_a_folder_called_as_a_data_set_opens_by_its_path(tmp_path, monkeypatch) -> None:
    write_folder(tmp_path / "mnist")
    monkeypatch.chdir(tmp_path)
    assert open_dataset("./mnist").classes == ("cat", "dog")


def test_the_code_of_the_page_runs() -> None:
    page = Path(__file__).parent.parent / "docs" / "data.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    assert len(blocks) == 2
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    assert names["images"].shape == (50, 1, 8, 8)
    assert len(names["split"].hash) == 16


def test_labels_that_do_not_fit_are_refused() -> None:
    items = open_dataset("digits").items
    names = PackedStrings.of(str(row) for row in range(len(items)))
    labels = torch.zeros(len(items), dtype=torch.int64)
    for wrong, sentence in (
        (labels[:5], "mine: 5 labels for 1797 items"),
        (labels + 2, r"mine: labels must lie in 0\.\.1, got 2\.\.2"),
        (labels - 1, r"got -1\.\.-1"),
        (labels.float(), "got torch.float32"),
        (torch.zeros(len(items), 3, dtype=torch.bool), "3 labels an item for 2 names"),
    ):
        with pytest.raises(gs.InputError, match=sentence):
            Dataset("mine", items, names, wrong, ("a", "b"))
    with pytest.raises(gs.InputError, match="4 names for 1797 items"):
        Dataset("mine", items, names[:4])
    with pytest.raises(gs.InputError, match=r"held_out must have shape \(1797,\)"):
        Dataset("mine", items, names, held_out=labels[:3] > 0)


def test_without_labels_there_is_no_split() -> None:
    from gradsnap.data import PaperProtocol, StoredItems

    plain = Dataset("mine", StoredItems(torch.zeros(3, 2)), ["a", "b", "c"])
    assert plain[0][1] == -1
    with pytest.raises(gs.InputError, match="mine has no labels, and PaperProtocol"):
        plain.split(PaperProtocol())
    with pytest.raises(gs.InputError, match="mine holds no items"):
        Dataset("mine", StoredItems(torch.zeros(0, 2)), [])
