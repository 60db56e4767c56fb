"""The pages on coders: their code runs, and they leave no coder out."""

import re
from pathlib import Path

import pytest

from gradsnap import coders
from gradsnap.coders import CODERS

DOCS = Path(__file__).parent.parent / "docs"

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="installed without docs")


@pytest.mark.parametrize("name", ["quantizers.md", "hashing.md"])
def test_every_python_block_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page(name), re.S)
    assert blocks
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, name, "exec"), names)


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_the_tables_name_every_coder_and_its_class() -> None:
    lines = (page("quantizers.md") + page("hashing.md")).splitlines()
    for name, kind in CODERS.items():
        wanted = f"| `{name}` | `{kind.__name__}` |"
        assert any(line.startswith(wanted) for line in lines), wanted


def test_all_public_names_are_in_generated_blocks() -> None:
    """A package's block shows what its ``__all__`` lists."""
    text = page("quantizers.md") + page("hashing.md")
    blocks = set(re.findall(r"^::: (\S+)$", text, re.M))
    for package in (coders, coders.quantizers, coders.hashers):
        assert package.__name__ in blocks
        assert all(hasattr(package, name) for name in package.__all__)
