"""What a search of few codes must not wait for: imports, and the end of the process."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from gradsnap import ExhaustiveIndex, build_network
from gradsnap.coders import CODERS
from gradsnap.inference.model import Model, NetworkSpec
from tests.conftest import fitted_coder

HEAVY = (
    "numba",
    "llvmlite",
    "scipy",
    "sklearn",
    "sympy",
    "torch._dynamo",
    "pandas",
    "pyarrow",
    "faiss",
    "openvino",
    "matplotlib",
    "fastapi",
    "PIL.DdsImagePlugin",  # one of the forty that ``Image.init`` imports
)

BESIDE_TORCH = f"""
import sys
import torch
before = set(sys.modules)
def check():
    print([one for one in {HEAVY!r} if one in set(sys.modules) - before])
"""


def _printed(script: str, *words: str) -> str:
    command = [sys.executable, "-c", script, *words]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def test_the_check_sees_what_is_imported() -> None:
    script = BESIDE_TORCH + "import PIL.DdsImagePlugin, sympy; check()"
    assert "PIL.DdsImagePlugin" in _printed(script)


def test_opening_a_coder_imports_no_compiler(tmp_path: Path) -> None:
    for kind in CODERS:
        fitted_coder(kind).save(tmp_path / kind)
    script = BESIDE_TORCH + (
        "from gradsnap.coders import load_coder\n"
        "for file in sys.argv[1:]: load_coder(file)\n"
        "check()"
    )
    assert _printed(script, *(str(tmp_path / kind) for kind in CODERS)) == "[]\n"


def test_a_photo_and_an_item_are_found_without_heavy_imports(tmp_path: Path) -> None:
    coder = fitted_coder("opq")
    options: dict[str, Any] = {"dim": coder.dim, "side": 8, "channels": 3}
    spec = NetworkSpec("small", options, side=8, channels=3)
    Model(build_network("small", **options), coder, spec).save(tmp_path / "model")
    index = ExhaustiveIndex(coder)
    index.add(torch.randn(50, coder.dim, generator=torch.Generator().manual_seed(0)))
    index.notes["model"] = str(tmp_path / "model")
    index.save(tmp_path / "index")
    Image.new("RGB", (20, 10), (200, 100, 0)).save(tmp_path / "photo.jpg")
    words = ["search", str(tmp_path / "index"), str(tmp_path / "photo.jpg")]
    script = (
        BESIDE_TORCH
        + "from gradsnap.cli.app import main, app\n"
        + ("try: main()\nexcept SystemExit as end: print('code', end.code)\ncheck()")
    )
    printed = _printed(script, *words, "--id", "7", "--json")
    assert printed.count('"distance"') == 20
    assert printed.endswith("code 0\n[]\n")


def test_what_torch_leaves_is_not_looked_through_at_the_end() -> None:
    """What was registered before runs after it."""
    script = (
        "import atexit, gc\n"
        "atexit.register(lambda: print('frozen', gc.get_freeze_count() > 0))\n"
        "from gradsnap.cli.app import main; main()"
    )
    printed = _printed(script, "--version")
    assert printed.startswith("gradsnap ")
    assert printed.endswith("\nfrozen True\n")
