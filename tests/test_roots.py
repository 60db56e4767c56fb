"""Ids become paths, and nothing outside of a root can be reached by one."""

import os
from pathlib import Path

import pytest

import gradsnap as gs
from gradsnap.errors import InputError
from gradsnap.index.roots import Roots
from tests.conftest import clustered, fitted


def an_index(ids: list[str], roots: Roots) -> gs.ExhaustiveIndex:
    index = gs.ExhaustiveIndex(fitted("pq")).add(clustered(len(ids)), ids)
    index.roots = roots
    return index


def test_ids_become_paths_that_survive_a_save(tmp_path) -> None:
    roots = Roots().with_folder(tmp_path / "a").with_folder(tmp_path / "b" / "a")
    assert roots.names == ("", "a")
    index = an_index(["x/1.jpg", "a//x/1.jpg"], roots)
    index.save(tmp_path / "i")
    again = gs.load_index(tmp_path / "i")
    assert again.path_of("x/1.jpg") == tmp_path / "a" / "x" / "1.jpg"
    assert again.path_of("a//x/1.jpg") == tmp_path / "b" / "a" / "x" / "1.jpg"
    assert again.path_of("x/2.jpg") is None  # not in the index
    assert again.path_of(0) is None


def test_a_folder_in_a_root_is_no_new_root(tmp_path) -> None:
    roots = Roots().with_folder(tmp_path / "a")
    assert roots.with_folder(tmp_path / "a" / "deep").names == ("",)
    assert roots.place_of(tmp_path / "a" / "deep") == ("", "deep")
    assert roots.place_of(tmp_path / "ab") is None
    three = roots.with_folder(tmp_path / "x" / "b").with_folder(tmp_path / "y" / "b")
    assert three.names == ("", "b", "b-2")


def test_a_root_that_moved(tmp_path) -> None:
    roots = Roots().with_folder(tmp_path / "a").moved("", tmp_path / "c")
    assert roots.path_of("1.jpg") == tmp_path / "c" / "1.jpg"
    with pytest.raises(InputError, match="no root 'x'; its roots are ''"):
        roots.moved("x", tmp_path)


@pytest.mark.parametrize(
    "bad",
    ["../secret", "x/../../secret", "/etc/passwd", "b//1.jpg", "x//", "x/./y", ""],
)
def test_ids_out_of_the_root_have_no_path(tmp_path, bad) -> None:
    index = an_index(["1.jpg", bad], Roots().with_folder(tmp_path / "a"))
    assert index.path_of("1.jpg") is not None
    assert index.path_of(bad) is None


def test_links_lead_where_they_led_when_indexed(tmp_path) -> None:
    folder, other, secret = (tmp_path / name for name in ("a", "other", "secret"))
    for one in (folder, other, secret):
        one.mkdir()
        (one / "1.jpg").write_bytes(b"x")
    (folder / "in").symlink_to(other)
    (folder / "out").symlink_to(secret)
    roots = Roots().with_folder(folder, links=[os.path.realpath(other)])
    index = an_index(["in/1.jpg", "out/1.jpg", "1.jpg"], roots)
    assert index.path_of("in/1.jpg") == folder / "in" / "1.jpg"
    assert index.path_of("out/1.jpg") is None
    (folder / "1.jpg").unlink()
    (folder / "1.jpg").symlink_to(secret / "1.jpg")  # changed since
    assert index.path_of("1.jpg") is None


def test_names_that_are_no_text(tmp_path) -> None:
    name = os.fsdecode(b"caf\xe9")
    roots = Roots().with_folder(tmp_path / name)
    an_index([f"{name}.jpg"], roots).save(tmp_path / "i")
    found = gs.load_index(tmp_path / "i").path_of(f"{name}.jpg")
    assert found == Path(tmp_path / name / f"{name}.jpg")
