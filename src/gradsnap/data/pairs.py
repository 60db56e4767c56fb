"""What people know of pairs: files of pairs or triplets, as numbers of items."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.data.columns import read_columns
from gradsnap.data.dataset import Dataset
from gradsnap.data.folders import first_few
from gradsnap.data.images import ImageFiles
from gradsnap.errors import InputError
from gradsnap.strings import PackedStrings

TRUTHS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
"""Words that may stand for numbers."""

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Which items were compared, each pair once, in no order."""

    items: Tensor
    """int64 (m, 2), the smaller number first; rows ascending."""
    grades: Tensor
    """How alike they are, float32 (m,): 0 for unlike, above 0 for alike."""
    graded: bool
    """Whether some alike pairs are more alike than others."""

    @property
    def alike(self) -> Tensor:
        """Bool (m,)."""
        return self.grades > 0

    @property
    def all_alike(self) -> bool:
        """Whether nothing is known to be unlike, as of clicks."""
        return bool(self.alike.all())

    def __len__(self) -> int:
        return len(self.items)


def read_pairs(
    path: str | os.PathLike[str], dataset: Dataset, above: float = 0.0
) -> Pairs:
    """The pairs of a table ``a,b,similar`` (``.csv`` or ``.parquet``).

    Items go by their names in the data set, or by row numbers from 0 where they are not
    image files. ``similar`` is 1 or 0, true or false, or any number: larger is more
    alike, and numbers up to ``above`` are unlike. Without that column all pairs are
    alike. Where numbers are more than 0 and 1, and where there are none, a pair that is
    given several times adds up, as clicks do.

    Raises:
        InputError: unknown items, items paired with themselves, pairs that are both
            alike and unlike, no alike pair, or a ``similar`` that is no number.
    """
    columns = read_columns(path, ("a", "b"), ("similar",))
    ends = [item_numbers(dataset, columns[name], path, name) for name in ("a", "b")]
    items = np.sort(np.stack(ends, axis=1), axis=1)
    _check_selves(items, dataset, path)
    words = columns.get("similar")
    values = np.ones(len(items)) if words is None else _numbers(words, path) - above
    plain = words is not None and bool(np.isin(values + above, (0, 1)).all())
    return _merged(items, values, plain, path, dataset)


def read_triplets(path: str | os.PathLike[str], dataset: Dataset) -> Tensor:
    """The triplets of a table ``anchor,positive,negative``, int64 (t, 3), each once.

    Raises:
        InputError: unknown items, or an item twice in a triplet.
    """
    names = ("anchor", "positive", "negative")
    columns = read_columns(path, names)
    ends = [item_numbers(dataset, columns[name], path, name) for name in names]
    found = np.unique(np.stack(ends, axis=1), axis=0)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        twice = found[found[:, one] == found[:, other]]
        if len(twice):
            shown = [dataset.names[row] for row in twice[:, one].tolist()]
            raise InputError(
                f"{path}: {len(twice)} triplets have one item as {names[one]} and as "
                f"{names[other]}: {first_few(shown)}"
            )
    return torch.from_numpy(found)


def file_hash(path: str | os.PathLike[str]) -> str:
    """16 digits that name the contents of a file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def item_numbers(
    dataset: Dataset, words: Sequence[str], path: str | os.PathLike[str], column: str
) -> Numbers:
    """The items that the words of a column name, int64 (m,).

    Raises:
        InputError: some name no item; says how many, and the first few.
    """
    spellings, places = _spelled(words)
    numbers = _found(dataset, spellings)[places]
    unknown = sorted({words[row] for row in np.flatnonzero(numbers < 0).tolist()})
    if unknown:
        known = [dataset.names[row] for row in range(min(len(dataset), 4))]
        rows = "" if _by_files(dataset) else ", or by row numbers from 0"
        raise InputError(
            f"{path}: {len(unknown)} names in column {column} are no items of "
            f"{dataset.name}: {first_few(unknown)}; its {len(dataset)} items go by "
            f"{first_few(known)}{rows}"
        )
    return numbers


def _found(dataset: Dataset, words: list[str]) -> Numbers:
    """The number of each named item; −1 for those there are not."""
    if not _by_files(dataset):
        rows = np.array([int(word) if word.isdecimal() else -1 for word in words])
        rows = np.where(rows < len(dataset), rows, -1)
        if (rows >= 0).all():
            return rows.astype(np.int64)
    else:
        rows = np.full(len(words), -1)
        words = [str(PurePosixPath(word)) for word in words]  # ./cat.jpg is cat.jpg
    names = dataset.names
    packed = names if isinstance(names, PackedStrings) else PackedStrings.of(names)
    named = np.asarray(packed.find(words), dtype=np.int64)
    return np.where(named >= 0, named, rows)


def _spelled(words: Sequence[str]) -> tuple[list[str], Numbers]:
    """Every different word once, and which of them each word is, (m,)."""
    places: dict[str, int] = {}
    at = [places.setdefault(word, len(places)) for word in words]
    return list(places), np.array(at, dtype=np.int64)


def _by_files(dataset: Dataset) -> bool:
    """Whether items are files, which a number could only name by mistake."""
    return isinstance(dataset.items, ImageFiles)


def _numbers(words: Sequence[str], path: str | os.PathLike[str]) -> NDArray[np.float64]:
    spellings, places = _spelled(words)
    values = np.empty(len(spellings))
    for at, word in enumerate(spellings):
        try:
            values[at] = TRUTHS.get(word.lower()) if word.lower() in TRUTHS else word
        except ValueError:
            values[at] = np.nan
        if not np.isfinite(values[at]):
            raise InputError(
                f"{path}, row {words.index(word) + 1}: similar must be 1 or 0, true or "
                f"false, or a number, larger for more alike; got {word!r}"
            )
    return values[places]


def _check_selves(
    items: Numbers, dataset: Dataset, path: str | os.PathLike[str]
) -> None:
    selves = items[items[:, 0] == items[:, 1], 0]
    if len(selves):
        shown = [dataset.names[row] for row in selves.tolist()]
        raise InputError(
            f"{path}: {len(selves)} rows pair an item with itself: {first_few(shown)}"
        )


def _merged(
    items: Numbers,
    values: NDArray[np.float64],
    plain: bool,
    path: str | os.PathLike[str],
    dataset: Dataset,
) -> Pairs:
    """Each pair once: grades of alike ones added, or 1 for each if plain."""
    keys, places = np.unique(items @ (len(dataset), 1), return_inverse=True)
    unique = np.stack(np.divmod(keys, len(dataset)), axis=1)
    likes = np.bincount(places, np.maximum(values, 0), len(unique))
    refused = np.bincount(places, values <= 0, len(unique)) > 0
    both = unique[(likes > 0) & refused]
    if len(both):
        shown = [" and ".join(dataset.names[row] for row in pair) for pair in both[:4]]
        raise InputError(
            f"{path}: {len(both)} pairs are given both as similar and as not: "
            f"{first_few(shown)}"
        )
    if not (likes > 0).any():
        raise InputError(f"{path}: none of {len(unique)} pairs is similar")
    grades = (likes > 0).astype(float) if plain else likes
    graded = len(np.unique(grades[grades > 0])) > 1
    if not graded:
        grades = (grades > 0).astype(float)
    return Pairs(torch.from_numpy(unique), torch.from_numpy(grades).float(), graded)
