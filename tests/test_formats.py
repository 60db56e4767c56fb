"""Files of every release open for ever, and answer as they did.

``tests/write_formats.py`` writes a folder for a release; no folder is ever changed.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gradsnap as gs
from gradsnap.coders import CODERS, Quantizer, load_coder
from gradsnap.coders.storage import FORMAT as CODER_FORMAT
from gradsnap.evaluation import load_run
from gradsnap.evaluation.runs import FORMAT as RUN_FORMAT
from gradsnap.files import read_tensors
from gradsnap.index import INDEXES
from gradsnap.index.folder_reading import FORMAT as INDEX_FORMAT
from gradsnap.index.folder_reading import VERSION as INDEX_VERSION
from gradsnap.inference.model import FORMAT as MODEL_FORMAT
from gradsnap.training.checkpoints import FORMAT as CHECKPOINT_FORMAT

FORMATS = Path(__file__).parent / "fixtures" / "formats"
RELEASES = sorted(path.name for path in FORMATS.iterdir())
PAGE = Path(__file__).parent.parent / "docs" / "stability.md"


@pytest.fixture(params=RELEASES)
def folder(request: pytest.FixtureRequest) -> Path:
    return FORMATS / str(request.param)


@pytest.fixture
def answers(folder: Path) -> Any:
    return json.loads((folder / "answers.json").read_text("utf-8"))


def test_this_release_has_its_folder() -> None:
    assert ".".join(gs.__version__.split(".")[:2]) in RELEASES


def test_every_coder_opens_and_makes_the_same_codes(folder, answers) -> None:
    x = torch.from_numpy(np.load(folder / "rows.npy"))
    for kind, codes in answers["coders"].items():
        coder = load_coder(folder / "coders" / f"{kind}.safetensors")
        assert type(coder) is CODERS[kind]
        if isinstance(coder, Quantizer):  # codewords may lie nearer than rounding tells
            same = coder.decode(coder.encode(x)), coder.decode(torch.tensor(codes))
            torch.testing.assert_close(*same, atol=1e-4, rtol=0, msg=kind)
        else:
            assert coder.encode(x).tolist() == codes, kind


def test_every_index_opens_and_finds_the_same(folder, answers, tmp_path) -> None:
    for kind, known in answers["indexes"].items():
        place = folder / "indexes" / kind
        index = gs.load_index(place, verify=True)
        assert type(index) is INDEXES[kind]
        assert len(index) == 37
        queries = np.load(place.with_suffix(".npy"))
        found = index.search(queries, 5, where='label = "cat"')
        assert found.ids == known["ids"], kind
        torch.testing.assert_close(found.distances, torch.tensor(known["distances"]))
        shutil.copytree(place, tmp_path / kind)
        copy = gs.load_index(tmp_path / kind)  # and can be added to
        copy.remove(["photos/00.jpg"]).save(tmp_path / kind)
        assert len(gs.load_index(tmp_path / kind, verify=True)) == 36


def test_the_model_opens_and_makes_the_same_of_rows(folder, answers) -> None:
    model = gs.load(folder / "model")
    rows = np.load(folder / "vectors.npz")["vectors"][:3].astype(np.float32)
    known = answers["model"]
    torch.testing.assert_close(model.embed(rows), torch.tensor(known["embeddings"]))
    assert model.encode(rows).tolist() == known["codes"]
    assert model.card["figures"]["code_map"] > 0.5


def test_the_checkpoint_and_the_run_open(folder, answers) -> None:
    last = folder / "model" / "checkpoints" / "last.safetensors"
    assert read_tensors(last, CHECKPOINT_FORMAT, "a checkpoint")[0]
    assert load_run(folder / "run.json").evaluations[0].map == answers["map"]


@pytest.mark.skipif(not PAGE.is_file(), reason="installed without the documentation")
def test_the_page_names_every_format_that_is_written() -> None:
    """A format that changes gets a row on the page, and a folder here."""
    page = PAGE.read_text("utf-8")
    formats = [CODER_FORMAT, RUN_FORMAT, MODEL_FORMAT, CHECKPOINT_FORMAT]
    for written in formats:
        assert f"`{written}`" in page, written
    assert f"`{INDEX_FORMAT}`, version {INDEX_VERSION}" in page
