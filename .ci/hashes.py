"""Writes .ci/hashes.txt: the checksum of every distribution that CI installs.

They are those of pip's own report for this platform, so run it where CI runs: on
Linux, x86-64, Python 3.11. Torch is left out: its build for CPUs is another file than
the one an index gives, and either will do.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LEFT_OUT = ("gradsnap", "setuptools", "torch")
"""Setuptools comes with Python's venv."""

HEAD = """\
# What CI installs before torch and gradsnap, on Linux, x86-64, Python 3.11:
# pip install --no-deps --require-hashes -r .ci/hashes.txt
# Written by .ci/hashes.py from constraints.txt.
"""


def report() -> dict[str, object]:
    """What pip would install, with checksums."""
    words = ("install", "--quiet", "--dry-run", "--ignore-installed")
    what = ("-c", "constraints.txt", "hatchling", "editables", "-e", ".[dev]")
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "report.json"
        to = ("--no-build-isolation", "--report", str(path))
        command = [sys.executable, "-m", "pip", *words, *to, *what]
        subprocess.run(command, cwd=ROOT, check=True)
        found: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return found


def lines(found: dict[str, object]) -> list[str]:
    """A requirement with its checksum for each distribution, by name."""
    every: list[dict[str, dict[str, dict[str, dict[str, str]]]]]
    every = found["install"]  # type: ignore[assignment]
    pairs = []
    for one in every:
        name, version = one["metadata"]["name"], one["metadata"]["version"]
        if name not in LEFT_OUT:
            digest = one["download_info"]["archive_info"]["hashes"]["sha256"]
            pairs.append(f"{name}=={version} --hash=sha256:{digest}")
    return sorted(pairs, key=str.lower)


if __name__ == "__main__":
    text = "\n".join(lines(report()))
    (ROOT / ".ci" / "hashes.txt").write_text(f"{HEAD}{text}\n", encoding="utf-8")
