"""What the first storms found, and no other test holds: settings and numbers."""

import json
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from numpy.lib import format as npy
from pyarrow import parquet

import gradsnap as gs
from gradsnap.coders.quantizers.kmeans import argmin_
from gradsnap.data import open_dataset
from gradsnap.errors import GradsnapError, InputError
from gradsnap.files import read_json, read_tensors, write_tensors
from storm import commands, good, hardships
from storm.hostile_models import TRAINING, labelled_vectors

LARGEST = 2**63 - 2
"""Of ids; the one after it is none, so that there is always a next number."""

SETTINGS = {
    "run.steps=99999999999999999999": "run.steps",
    "run.seed=99999999999999999999": "run.seed",
    "data.side=100000": "data.side",
    "data.workers=9223372036854775807": "data.workers",
    'loss.options={margin="x"}': "margin",
    "run.device=meta": "meta",
    "optimizer.rate=1e308": "optimizer.rate",
    "layer.options.quantizer=[1, 2]": "coder.kind",
    "layer.first={margin=-1}": "margin",
    "layer.first={strength=-1}": "strength",
    "layer.first={neighbors=true}": "neighbors",
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_beyond_reason_are_one_sentence(setting: str, tmp_path: Path) -> None:
    rows, out = labelled_vectors(tmp_path / "rows.npz"), tmp_path / "model"
    words = ("train", rows, "--bits", 8, "--out", out, "--quiet", "--no-beside-plain")
    loss = ("loss.name=triplet",) if "margin" in setting else ()
    said = commands.run(*words, *TRAINING, *loss, setting)
    errors = [line for line in said.err.splitlines() if line.startswith("error: ")]
    assert said.code == 1
    assert len(errors) == 1
    assert SETTINGS[setting] in errors[0]
    assert not (out / "weights.safetensors").exists()


@pytest.mark.parametrize("variant", ["exhaustive", "inverted residual", "hamming"])
def test_ids_at_the_end_of_all_numbers(variant: str, tmp_path: Path) -> None:
    index = good.fresh(variant)
    x = good.vectors_for(index, 3, 1)
    index.add(x, torch.tensor([LARGEST, 0, LARGEST - 1])).save(tmp_path / "i")
    again = gs.load_index(tmp_path / "i")
    found: Any = again.search(x[:1], 3).ids
    assert sorted(found[0].tolist()) == [0, LARGEST - 1, LARGEST]
    with pytest.raises(InputError, match=f"got {LARGEST + 1}"):
        again.add(x[:1], [LARGEST + 1])
    with pytest.raises(InputError, match=rf"number is {LARGEST + 1}, .* 1 items need"):
        again.add(x[:1])
    assert len(again) == 3


@pytest.mark.parametrize("k", [0, -1, 2**63, 1.5, True, "3"])
def test_counts_that_are_none_are_refused(k: Any) -> None:
    index = good.fresh("exhaustive").add(good.rows(5))
    with pytest.raises(InputError, match="k must be"):
        index.search(good.rows(1), k)


def test_equal_vectors_by_the_hundred_thousand() -> None:
    index = good.fresh("inverted")
    index.add(good.rows(1).expand(200_000, -1))
    found = index.search(good.rows(1), 7)
    assert len(set(found.ids[0].tolist())) == 7
    assert found.distances[0].unique().numel() == 1


def test_a_clock_that_goes_back_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", time.time)  # put back afterwards
    whole = good.saved("multi", tmp_path / "whole")
    hardships.clock_back()
    back = good.saved("multi", tmp_path / "back")
    gs.load_index(back.folder).add(good.rows(1), ["late"]).save(back.folder)
    assert repr(back.answers) == repr(whole.answers)
    assert "late" in gs.load_index(back.folder, verify=True)


@pytest.mark.parametrize("shape", [(True, 4), (12345678901234567890, 2), (9, 4)])
def test_an_archive_that_says_more_than_it_holds(shape: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    with zipfile.ZipFile(path, "w") as archive, archive.open("vectors.npy", "w") as one:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(one, header)
        one.write(np.ones(8, np.float32).tobytes())
    with pytest.raises(GradsnapError, match=r"truncated|expected vectors of shape"):
        open_dataset(str(path))


def test_labels_that_are_no_array_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    np.savez(path, vectors=np.ones((3, 2), np.float32))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("labels", b"not an array")
    with pytest.raises(GradsnapError, match="labels is no array"):
        open_dataset(str(path))


@pytest.mark.parametrize("opened", ["[", '{"a":'])
def test_json_that_is_too_deep_is_refused(opened: str, tmp_path: Path) -> None:
    path, closed = tmp_path / "deep.json", "]" if opened == "[" else "}"
    for levels, fits in ((50, True), (52, False), (900, False)):
        path.write_text(levels * opened + "1" + levels * closed)
        if fits:
            read_json(path)
            continue
        with pytest.raises(GradsnapError, match="in each other"):
            read_json(path)


@pytest.mark.parametrize("text", ["1.5", "null", '"word"', "[]", "{}"])
def test_json_of_any_kind_is_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "any.json").write_text(text)
    assert read_json(tmp_path / "any.json") == json.loads(text)


def test_numbers_that_are_none_in_doubles_are_refused_without_a_warning(
    tmp_path: Path,
) -> None:
    signalling = np.full((3, 2), 0x7FF0000000000001, np.uint64).view(np.float64)
    np.save(tmp_path / "rows.npy", signalling)
    dataset = open_dataset(str(tmp_path / "rows.npy"))
    with pytest.raises(InputError, match="row 0 holds NaN or infinity"):
        dataset.items.batch(torch.arange(3))


def test_sums_that_are_no_numbers_choose_some_codeword() -> None:
    scores = torch.tensor([[3.0, 1.0], [torch.nan, 1.0], [torch.inf, torch.inf]])
    assert argmin_(scores).tolist() == [1, 0, 0]


def test_a_checkpoint_of_a_step_that_is_none_is_refused(tmp_path: Path) -> None:
    rows, out = labelled_vectors(tmp_path / "rows.npz"), tmp_path / "model"
    words = ("train", rows, "--bits", 8, "--out", out, "--quiet", "--no-beside-plain")
    assert commands.run(*words, *TRAINING).code == 0
    (out / "weights.safetensors").unlink()
    for path in out.glob("checkpoints/*.safetensors"):
        tensors, said = read_tensors(path, "gradsnap-checkpoint-2", "a checkpoint")
        write_tensors(path, tensors, said | {"step": str(2**62)})
    again = commands.run(*words, *TRAINING)
    assert again.code == 1
    assert f"it is of step {2**62}, in a run of 4" in again.err


def test_a_table_whose_names_are_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    table = pyarrow.table({"vector": [[1.0, 2.0]] * 3, "zzzz": [1, 2, 3]})
    parquet.write_table(table, path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"zzzz", b"z\xe3zz"))
    with pytest.raises(GradsnapError, match=r"rows\.parquet"):
        open_dataset(str(path))
