"""All and only the public names, documented."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import gradsnap


def test_all_is_sorted_and_importable() -> None:
    names = gradsnap.__all__
    assert names == sorted(names)
    assert len(names) == len(set(names)) > 15
    for name in names:
        assert hasattr(gradsnap, name), name


def test_every_public_name_is_documented() -> None:
    for name in gradsnap.__all__:
        assert inspect.getdoc(getattr(gradsnap, name)), name


def test_what_types_see_is_what_is_there() -> None:
    """The imports a type checker reads name the homes a program imports from."""
    tree = ast.parse(Path(gradsnap.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
    }
    homes = {name: f"gradsnap.{home}" for name, home in gradsnap._HOME_OF.items()}
    modules = {name: "gradsnap" for name in gradsnap.__all__ if name not in homes}
    assert imported == homes | modules


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'nothing'"):
        gradsnap.nothing  # noqa: B018


def test_help_does_not_wait_for_torch() -> None:
    script = (
        "import sys; from gradsnap.cli import app; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
