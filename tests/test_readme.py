"""The README's code runs, as it stands."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_python_block_runs(tmp_path: Path, monkeypatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert len(blocks) == 1
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert tuple(names["ids"].shape) == (5, 10)  # type: ignore[attr-defined]
    assert (tmp_path / "photos.index" / "manifest.json").is_file()


def test_the_first_screen_has_the_two_commands() -> None:
    screen = (ROOT / "README.md").read_text().splitlines()[:40]
    commands = [line.split()[1] for line in screen if line.startswith("make ")]
    assert commands == ["demo", "test"]
