"""NumPy arrays where tensors are, and DataLoaders where data sets are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gradsnap as gs
from gradsnap.arrays import as_tensor
from gradsnap.coders import (
    Coder,
    Quantizer,
    hamming_distances,
    packed_bits,
    unpacked_bits,
)
from gradsnap.data import open_dataset
from gradsnap.evaluation import (
    EmbeddingDistances,
    RankingRules,
    bootstrap,
    code_distances,
    evaluate,
    mean_average_precision,
    paired_test,
    recall_at,
    relevance,
    total_relevant,
)
from tests.conftest import CODER_DIM, classes, clustered, fitted, made_coder

RULES = RankingRules(None, divisor="relevant", no_hit="zero")


def test_an_array_shares_its_memory_and_other_things_pass() -> None:
    array = np.zeros((3, 2), np.float32)
    as_tensor(array)[0, 0] = 7
    assert array[0, 0] == 7
    tensor = torch.zeros(2)
    assert as_tensor(tensor) is tensor
    with pytest.raises(gs.InputError, match="a tensor or a NumPy array, got list"):
        fitted("pq").encode([[1.0] * 8])  # type: ignore[arg-type]


def test_arrays_that_torch_cannot_share_are_copied(tmp_path: Path) -> None:
    plain = np.arange(12, dtype=np.float32).reshape(4, 3)
    for given in (plain[::-1], plain.astype(">f4"), np.asfortranarray(plain)):
        assert as_tensor(given).tolist() == given.tolist()
    np.save(tmp_path / "x.npy", plain)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")  # torch would warn
    assert as_tensor(mapped).tolist() == plain.tolist()


def test_every_coder_takes_arrays(coder: Coder, coder_kind: str) -> None:
    x, _ = classes(60)
    y = x.numpy()
    codes = coder.encode(x)
    assert torch.equal(coder.encode(y), codes)
    assert torch.equal(
        coder.distances(y[:3], codes.numpy()), coder.distances(x[:3], codes)
    )
    assert torch.equal(coder.cross_terms(codes.numpy()), coder.cross_terms(codes))
    assert coder.relative_error(y) == coder.relative_error(x)
    if isinstance(coder, Quantizer):
        assert torch.equal(coder.decode(codes.numpy()), coder.decode(codes))
        assert coder.error(y) == coder.error(x)
        assert torch.equal(coder.candidates(y, 3).codes, coder.candidates(x, 3).codes)


@pytest.mark.parametrize("kind", ["pq", "itq", "ksh"])
def test_fitting_to_arrays_is_the_same(kind: str) -> None:
    x, labels = classes(60)
    ours = made_coder(kind, dim=CODER_DIM).fit(x.numpy(), labels.numpy())
    assert ours.fingerprint() == made_coder(kind).fit(x, labels).fingerprint()


def test_an_index_takes_arrays() -> None:
    x = clustered(100)
    index = gs.InvertedIndex(fitted("pq"), num_lists=4).fit(x.numpy())
    index.add(x.numpy(), ids=np.arange(100))
    codes = index.coder.encode(x[:2]).numpy()
    index.add_codes(codes, np.array([200, 201]), lists=index.lists_of(x[:2].numpy()))
    found = index.search(x[:5].numpy(), 3)
    assert torch.equal(found.ids, index.search(x[:5], 3).ids)
    index.tune(x[:5].numpy(), found.ids.numpy(), target=0.5)
    hashes = gs.HammingIndex(16).add(codes.astype(np.uint8)[:, :2])
    assert hashes.search(codes.astype(np.uint8)[:, :2], 1).distances.max() == 0


def test_figures_take_arrays() -> None:
    x, labels = classes(40)
    y, names = x.numpy(), labels.numpy()
    mine = evaluate(EmbeddingDistances(y[:9], y), names[:9], names, RULES)
    same = evaluate(EmbeddingDistances(x[:9], x), labels[:9], labels, RULES)
    assert mine.map == same.map
    for kind in ("pq", "itq"):
        coder = made_coder(kind).fit(x)
        codes = coder.encode(x).numpy()
        mine = evaluate(code_distances(coder, y[:9], codes), names[:9], names, RULES)
        assert 0.2 < mine.map <= 1
    hits = relevance(names[:9], names).numpy()
    total = total_relevant(names[:9], names).numpy()
    assert mean_average_precision(hits, total) > 0.2
    assert recall_at(np.array([[3, 1, 2]]), np.array([[1, 0]]), k=2) == 0.5
    assert bootstrap(np.ones(5)).low == 1
    assert paired_test(np.ones(5), np.zeros(5)).difference == 1


def test_bits_take_arrays() -> None:
    bits = np.eye(9, dtype=bool)
    hashes = packed_bits(bits).numpy()
    assert np.array_equal(unpacked_bits(hashes, 9).numpy(), bits)
    assert hamming_distances(hashes, hashes).max() == 2


# --- DataLoaders ----------------------------------------------------------------


def test_a_loader_is_embedded_in_its_order() -> None:
    digits = open_dataset("digits")
    network = gs.build_network("small", dim=6, side=8)
    own = DataLoader(digits, batch_size=50, sampler=range(130))
    found = gs.embed(network, own, engine="torch")
    want = gs.embed(network, digits, np.arange(130), engine="torch")
    torch.testing.assert_close(found, want)


def test_a_model_takes_loaders_and_arrays() -> None:
    x = clustered(50)
    model = gs.Model(nn.Identity(), fitted("pq"))
    index = gs.ExhaustiveIndex(model.coder).add(x)
    want = model.search(index, x, 2).ids
    pairs = DataLoader(TensorDataset(x, torch.zeros(50)), batch_size=16)
    alone: DataLoader[Any] = DataLoader(x, batch_size=16)  # type: ignore[arg-type]
    for given in (pairs, alone, x.numpy()):
        assert torch.equal(model.search(index, given, 2).ids, want)
        assert torch.equal(model.encode(given), model.encode(x))


def test_a_loader_that_does_not_fit_is_refused() -> None:
    x = clustered(4)
    with pytest.raises(gs.InputError, match="give it no indices"):
        gs.embed(nn.Identity(), DataLoader(x), torch.arange(2))  # type: ignore[arg-type]
    with pytest.raises(gs.InputError, match="the DataLoader gave str"):
        gs.embed(nn.Identity(), DataLoader(["a"]))  # type: ignore[arg-type]
    with pytest.raises(gs.InputError, match="gave no batches"):
        gs.embed(nn.Identity(), DataLoader([]))  # type: ignore[arg-type]


# --- what a program hears ---------------------------------------------------------


def test_words_go_to_the_standard_logging(caplog, capfd) -> None:
    gs.ProductQuantizer(4, 2, 32).fit(clustered(20, 4))  # fewer rows than codewords
    [heard] = caplog.records
    assert heard.name == "gradsnap.coders.quantizers.quantizer"
    assert heard.levelname == "WARNING"
    assert capfd.readouterr().out == ""
