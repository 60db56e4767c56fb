"""The checksums of what CI installs: complete, and of the pinned versions."""

import re
from pathlib import Path

CI = Path(__file__).parent.parent / ".ci"
LINE = re.compile(r"([\w.-]+)==([\w.!+]+) --hash=sha256:[0-9a-f]{64}")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    text = (CI.parent / "constraints.txt").read_text(encoding="utf-8")
    found = re.findall(r"^([\w.-]+)==([\w.!+]+)", text, re.MULTILINE)
    return {normal(name): version for name, version in found}


def hashed() -> dict[str, str]:
    text = (CI / "hashes.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = [LINE.fullmatch(line) for line in lines]
    assert all(found), "a line that is no requirement with its checksum"
    return {normal(one[1]): one[2] for one in found if one is not None}


def test_checksums_are_those_of_the_pinned_versions() -> None:
    """After a change of constraints.txt: python .ci/hashes.py."""
    known = pins()
    assert {name: known.get(name) for name in hashed()} == hashed()


def test_what_every_user_installs_has_a_checksum() -> None:
    project = (CI.parent / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^dependencies = \[(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    assert listed is not None
    names = {normal(name) for name in re.findall(r'"([\w.-]+)', listed[1])}
    assert names - hashed().keys() == {"torch"}
