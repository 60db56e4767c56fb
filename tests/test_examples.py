"""Every example file runs as it stands, and says what it should."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"

SAID = {
    "own_loop.py": "MAP of 16-bit codes: 0.",
    "with_metric_learning.py": "797 codes of 2 bytes",
    "adapter.py": "code_map: 0.",
    "pairs.py": "code_ap: 0.",
    "export_to_faiss.py": "IndexPQ of 5000 codes, 100.0% of ids alike",
}
SLOW = {"two_processes.py": "codebooks equal: True"}
ELSEWHERE = {"digits.py"}  # the benchmarks', which run it for minutes


def test_every_example_is_run() -> None:
    files = {path.name for path in EXAMPLES.glob("*.py")}
    assert files == SAID.keys() | SLOW.keys() | ELSEWHERE


@pytest.mark.parametrize("name", SAID)
def test_example(name: str, capsys, tmp_path: Path, monkeypatch, one_thread) -> None:
    if name == "with_metric_learning.py":
        pytest.importorskip(
            "pytorch_metric_learning", reason="the extra metric-learning"
        )
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert SAID[name] in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_slow_example(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert SLOW[name] in done.stdout
