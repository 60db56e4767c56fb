"""All and only the public names, documented."""

import inspect

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


def test_nothing_public_is_missing() -> None:
    values = {
        name
        for name, value in vars(gradsnap).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    listed = {
        name
        for name in gradsnap.__all__
        if not inspect.ismodule(getattr(gradsnap, name))
    }
    assert values == listed
