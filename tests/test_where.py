"""Conditions on metadata, against the same in plain Python."""

import datetime
from typing import Any

import numpy as np
import pytest
import torch

import gradsnap as gs
from gradsnap.errors import InputError
from gradsnap.index.where import parse
from tests.conftest import clustered, fitted

pytest.importorskip("pyarrow")

COUNT = 60
LABELS = ["cat", "dog", 'a "quoted" one', None]


def rows() -> list[dict[str, Any]]:
    """What the index is told of each of its items."""
    start = datetime.datetime(2018, 11, 30, 23, 59, 59)
    return [
        {
            "label": LABELS[place % 4],
            "size": place * 100,
            "price": place / 7,
            "kept": place % 3 == 0,
            "taken": start + datetime.timedelta(days=37 * place) if place % 5 else None,
            "tags": ["red", "big"][: place % 3] if place % 7 else None,
        }
        for place in range(COUNT)
    ]


@pytest.fixture(scope="module")
def index() -> gs.ExhaustiveIndex:
    made = gs.ExhaustiveIndex(fitted("pq"))
    known = rows()
    for start in (0, 25):  # two segments, of which one was changed
        part = known[start : start + 25] if start == 0 else known[start:]
        columns = {name: [one[name] for one in part] for name in part[0]}
        names = [f"{start}/{place}.jpg" for place in range(len(part))]
        made.add(clustered(COUNT)[start : start + len(part)], names, columns)
    return made


@pytest.fixture(scope="module")
def names(index) -> list[str]:
    return list(index.select())


def month(row: dict[str, Any]) -> str:
    return row["taken"].isoformat()[:7] if row["taken"] else ""


CONDITIONS = {
    'label = "cat"': lambda r: r["label"] == "cat",
    "label == 'cat' and size >= 2000": lambda r: (
        r["label"] == "cat" and r["size"] >= 2000
    ),
    'label != "cat"': lambda r: r["label"] not in (None, "cat"),
    'not label = "cat"': lambda r: r["label"] != "cat",
    'NOT (label = "cat" OR size < 1000)': lambda r: (
        not (r["label"] == "cat" or r["size"] < 1000)
    ),
    'label = "a \\"quoted\\" one"': lambda r: r["label"] == LABELS[2],
    'label in ("cat", "dog") and kept = true': lambda r: (
        r["label"] in ("cat", "dog") and r["kept"]
    ),
    'label not in ("cat")': lambda r: r["label"] != "cat",
    "label is null": lambda r: r["label"] is None,
    "label is not null and size <> 100": lambda r: (
        r["label"] is not None and r["size"] != 100
    ),
    'label like "%O%"': lambda r: "o" in (r["label"] or "").lower(),
    'label not contains "O"': lambda r: "o" not in (r["label"] or "").lower(),
    "price > 1.5e0 and price <= 3": lambda r: 1.5 < r["price"] <= 3,
    "size > -1 and size < 99999999999999999999": lambda r: True,
    "size in (100, 300)": lambda r: r["size"] in (100, 300),
    "year > 2020": lambda r: bool(r["taken"]) and r["taken"].year > 2020,
    "month = 12": lambda r: bool(r["taken"]) and r["taken"].month == 12,
    "taken > 2020": lambda r: month(r) >= "2021",
    'taken <= "2020-05"': lambda r: "" < month(r) <= "2020-05",
    'taken = "2019-01"': lambda r: month(r) == "2019-01",
    'tags = "big"': lambda r: "big" in (r["tags"] or []),
    'tags != "big"': lambda r: r["tags"] is not None and "big" not in r["tags"],
    'tags like "R%"': lambda r: "red" in (r["tags"] or []),
    'id = "0/3.jpg"': lambda r: r["size"] == 300,
    'folder = "25" and name = "0.jpg"': lambda r: r["size"] == 2500,
    'path like "0/1_.jpg"': lambda r: 1000 <= r["size"] < 2000,
    '`label` = "cat"': lambda r: r["label"] == "cat",
}


@pytest.mark.parametrize("text", CONDITIONS)
def test_a_condition_selects_what_python_does(index, names, text) -> None:
    fulfils = CONDITIONS[text]
    expected = [name for name, row in zip(names, rows(), strict=True) if fulfils(row)]
    assert index.select(text) == expected


def test_a_search_finds_only_what_fits(index, names) -> None:
    queries = clustered(COUNT)[:4]
    whole = index.search(queries, COUNT)
    fitting = set(index.select('label = "cat"'))
    found = index.search(queries, 5, where='label = "cat"')
    within = index.search(queries, 5, within=names[:30], where='label = "cat"')
    for row in range(4):
        ranked = [name for name in whole.ids[row] if name in fitting]
        assert found.ids[row] == ranked[:5]
        assert within.ids[row] == [n for n in ranked if n in names[:30]][:5]
    by_item = index.search_items(names[:1], COUNT, where="size < 300")
    assert set(by_item.ids[0]) - {None} == set(names[:3])
    nothing = index.search(queries, 2, where="size < 0")
    assert nothing.ids == [[None, None]] * 4
    assert torch.isinf(nothing.distances).all()


def test_removed_items_are_not_selected() -> None:
    made = gs.ExhaustiveIndex(fitted("pq")).add(
        clustered(6), metadata={"price": [1, 2, 3, 4, 5, 6]}
    )
    made.remove([1, 4])
    assert np.asarray(made.select("price > 1")).tolist() == [2, 3, 5]
    assert np.asarray(made.select("id >= 3 or price = 1")).tolist() == [0, 3, 5]
    assert np.asarray(made.select()).tolist() == [0, 2, 3, 5]
    assert 2 in made
    assert 1 not in made
    assert "2" not in made


def test_a_column_that_one_segment_lacks_is_empty_there() -> None:
    made = gs.ExhaustiveIndex(fitted("pq"))
    made.add(clustered(40), metadata={"price": list(range(40))})
    made.add(clustered(3), metadata={"label": ["a", "b", None]})
    assert np.asarray(made.select('label = "b"')).tolist() == [41]
    assert len(made.select("label is null")) == 41
    assert len(made.select("price >= 0")) == 40
    assert made.columns == ["price", "id", "label"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('lable = "cat"', "did you mean label? the columns are label, size"),
        ("label = cat", 'text in quotes, such as "cat"'),
        ('label "cat"', "expected =, !=, <, <=, >, >=, in, like, contains or is null"),
        ("label =", "it ends"),
        ("", "the name of a column at letter 1, it ends"),
        ("size = 3 size", "and, or, or the end"),
        ("(size = 3", "expected )"),
        ("size = 'big'", "size holds numbers, which 'big' is not"),
        ("label < 3", "label holds text, which 3 is not"),
        ("kept = 1", "true and false"),
        ("size like '1%'", "like is for text"),
        ("tags > 'a'", "cannot order"),
        ("taken = 'May'", "compare it with one such as 2020"),
        ("size = 3; drop", "from letter 9 on"),
        ("__import__('os')", "expected ="),
        ("(" * 80 + "size = 1" + ")" * 80, "at most 50"),
        ("not " * 2000 + "size = 1", "at most 50"),
        ("size = " + "1" * 20_000, "at most 10000 letters"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(index, text, words) -> None:
    with pytest.raises(InputError) as caught:
        index.select(text)
    assert words in str(caught.value)


@pytest.mark.parametrize("digits", [20, 308, 309, 5000])
def test_numbers_of_any_length_are_compared(index, names, digits) -> None:
    assert list(index.select(f"size < {'9' * digits}")) == names
    assert len(index.select(f"size < -{'9' * digits}")) == 0


def test_names_of_columns() -> None:
    assert list(parse("a = 1 or not (b < 2 and `c d` is null)").names()) == [
        "a",
        "b",
        "c d",
    ]
