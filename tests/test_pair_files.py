"""Tables of pairs and triplets: what is read, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch

from gradsnap.data import Dataset, StoredItems, open_dataset, read_pairs, read_triplets
from gradsnap.errors import FileFormatError, InputError
from gradsnap.strings import PackedStrings
from tests.data_files import write_image
from tests.pair_tables import write_table


@pytest.fixture
def vectors(tmp_path: Path) -> Dataset:
    np.save(tmp_path / "v.npy", np.zeros((20, 3), dtype=np.float32))
    return open_dataset(tmp_path / "v.npy")


@pytest.fixture
def photos(tmp_path: Path) -> Dataset:
    for name in ("b.png", "a.png", "cats/c.png"):
        write_image(tmp_path / "photos" / name)
    return open_dataset(tmp_path / "photos", labelled=False)


def pairs_csv(folder: Path, *rows: str, header: str = "a,b,similar") -> Path:
    path = folder / "pairs.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_rows_by_number_and_by_name(vectors: Dataset, tmp_path: Path) -> None:
    found = read_pairs(pairs_csv(tmp_path, "7,3,1", "v.npy:0,5,0"), vectors)
    assert found.items.tolist() == [[0, 5], [3, 7]]
    assert found.alike.tolist() == [False, True]
    assert not found.graded
    assert not found.all_alike


def test_files_by_their_paths(photos: Dataset, tmp_path: Path) -> None:
    found = read_pairs(pairs_csv(tmp_path, "./cats/c.png,a.png,1"), photos)
    names = [photos.names[row] for row in found.items[0].tolist()]
    assert sorted(names) == ["a.png", "cats/c.png"]


def test_names_of_other_data(tmp_path: Path) -> None:
    """A name that is a number counts as a name first, only not where rows are meant."""
    names = PackedStrings.of(["x", "y", "z"])
    made = Dataset("made up", StoredItems(torch.zeros(3, 2)), names)
    found = read_pairs(pairs_csv(tmp_path, "x,2,1"), made)
    assert found.items.tolist() == [[0, 2]]


@pytest.mark.parametrize("words", [("1", "0"), ("true", "False"), ("YES", "no")])
def test_words_for_alike(vectors: Dataset, tmp_path: Path, words) -> None:
    yes, no = words
    found = read_pairs(pairs_csv(tmp_path, f"0,1,{yes}", f"0,2,{no}"), vectors)
    assert found.grades.tolist() == [1, 0]


def test_a_pair_given_twice_is_one(vectors: Dataset, tmp_path: Path) -> None:
    found = read_pairs(pairs_csv(tmp_path, "0,1,1", "1,0,1", "2,3,0"), vectors)
    assert found.items.tolist() == [[0, 1], [2, 3]]
    assert found.grades.tolist() == [1, 0]


def test_grades_and_clicks_add_up(vectors: Dataset, tmp_path: Path) -> None:
    found = read_pairs(pairs_csv(tmp_path, "0,1,2", "1,0,3", "2,3,1", "3,4,0"), vectors)
    assert found.grades.tolist() == [5, 1, 0]
    assert found.graded
    logged = pairs_csv(tmp_path, "0,1", "1,0", "2,3", header="a,b")
    found = read_pairs(logged, vectors)
    assert found.grades.tolist() == [2, 1]
    assert found.all_alike


def test_numbers_up_to_a_threshold_are_unlike(vectors: Dataset, tmp_path: Path) -> None:
    table = pairs_csv(tmp_path, "0,1,1", "0,2,3", "0,3,4.5")
    found = read_pairs(table, vectors, above=3)
    assert found.grades.tolist() == [0, 0, 1]  # one alike pair has nothing beside it
    found = read_pairs(table, vectors, above=2)
    assert found.grades.tolist() == [0, 1, 2.5]


def test_other_columns_orders_and_marks(vectors: Dataset, tmp_path: Path) -> None:
    table = tmp_path / "pairs.csv"
    text = "\ufeffwho, similar ,b,a\nme, 1 ,4,2\n\nyou,0,5,2\n"
    table.write_text(text, encoding="utf-8")
    assert read_pairs(table, vectors).items.tolist() == [[2, 4], [2, 5]]


def test_parquet_says_the_same(vectors: Dataset, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"a": [1, 2], "b": [5, 3], "similar": [True, False]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "pairs.parquet")
    found = read_pairs(tmp_path / "pairs.parquet", vectors)
    assert found.items.tolist() == [[1, 5], [2, 3]]
    assert found.grades.tolist() == [1, 0]
    columns = {"a": [1, None], "b": [5, 3]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "pairs.parquet")
    with pytest.raises(InputError, match="1 rows of a are empty"):
        read_pairs(tmp_path / "pairs.parquet", vectors)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["0,1,1", "0,20,1"], r"1 names in column b are no .*: 20;"),
        (["0,1,1", "x,3,1", "-1,3,1"], r"2 names in column a .*: -1, x; its 20 items"),
        (["0,1,1", "4,4,1"], r"1 rows pair an item with itself: v\.npy:4"),
        (["0,1,1", "1,0,0"], r"1 pairs are given both .*: v\.npy:0 and v\.npy:1"),
        (["0,1,0"], "none of 1 pairs is similar"),
        (["0,1,nan"], "row 1: similar must be 1 or 0, .* got 'nan'"),
        (["0,1,1", "0,2,"], "row 2: similar must be .* got ''"),
        (["0,1,often"], "got 'often'"),
        (["0,1"], "the header has 3 columns, and a row has 2: 0,1"),
        ([], "a header and no rows"),
    ],
)
def test_bad_rows(vectors: Dataset, tmp_path: Path, rows, message: str) -> None:
    with pytest.raises((InputError, FileFormatError), match=message):
        read_pairs(pairs_csv(tmp_path, *rows), vectors)


def test_numbers_do_not_name_files(photos: Dataset, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"1 names in column a .*go by a\.png, b\.png"):
        read_pairs(pairs_csv(tmp_path, "0,a.png,1"), photos)


def test_bad_tables(vectors: Dataset, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        read_pairs(tmp_path / "none.csv", vectors)
    with pytest.raises(InputError, match=r"ends in '\.txt'; expected \.csv"):
        read_pairs(Path(pairs_csv(tmp_path).rename(tmp_path / "p.txt")), vectors)
    with pytest.raises(InputError, match=r"no column b; .*a,b,similar"):
        read_pairs(pairs_csv(tmp_path, "1,2", header="a,similar"), vectors)


def test_triplets(vectors: Dataset, tmp_path: Path) -> None:
    header = "anchor,positive,negative"
    table = write_table(tmp_path / "t.csv", header, [(3, 1, 2), (0, 1, 2), (3, 1, 2)])
    assert read_triplets(table, vectors).tolist() == [[0, 1, 2], [3, 1, 2]]
    table = write_table(tmp_path / "t.csv", header, [(3, 1, 1)])
    with pytest.raises(InputError, match="one item as positive and as negative"):
        read_triplets(table, vectors)
    table = write_table(tmp_path / "t.csv", "anchor,positive", [(3, 1)])
    with pytest.raises(InputError, match="no column negative"):
        read_triplets(table, vectors)
