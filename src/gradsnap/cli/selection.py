"""Items of an index as a user names them: ids, patterns, files, a condition."""

import fnmatch
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradsnap.index import Index


def chosen_ids(
    opened: "Index",
    words: Sequence[str],
    where: str | None = None,
    *,
    every: bool = False,
) -> list[Any]:
    """Ids by words and a condition, in the order of the index.

    Without both it is all ids, if ``every``.

    A word is an id; else a file that is in the index; else a pattern such as
    ``2021/*.jpg``, where ``*`` also stands for folders.

    Raises:
        InputError: neither is given, or a word fits nothing.
    """
    from gradsnap.errors import InputError

    if not (words or where or every):
        raise InputError("name ids or patterns, such as '2021/*', or give --where")
    fitting = list(opened.select(where))
    if not words:
        return [_plain(one) for one in fitting]
    known = fitting if where is None else list(opened.select())
    wanted = {one for word in words for one in _named(opened, word, known)}
    return [_plain(one) for one in fitting if one in wanted]


def item_id(opened: "Index", word: str) -> int | str:
    """The id of the one item a word names: its id, or the path of its file.

    Raises:
        InputError: there is no such item.
    """
    from gradsnap.errors import InputError

    if not opened.items.named:
        if not word.isdecimal():
            raise InputError(f"the ids of this index are numbers, got {word!r}")
        return int(word)
    if word in opened:
        return word
    place = opened.roots.place_of(word)
    if place is not None:
        found = opened.roots.id_of(place.root, place.below)
        if found in opened:
            return found
    return word  # the search says that it is not there


def _named(opened: "Index", word: str, every: list[Any]) -> list[Any]:
    from gradsnap.errors import InputError

    one = item_id(opened, word) if opened.items.named or word.isdecimal() else word
    if one in opened:
        return [one]
    below = f"{one}/" if Path(word).is_dir() else None
    found = [each for each in every if _fits(str(each), word, below)]
    if not found:
        raise InputError(f"nothing in the index is called or fits {word!r}")
    return found


def _fits(identity: str, pattern: str, below: str | None) -> bool:
    if below is not None and identity.startswith(below):
        return True
    return fnmatch.fnmatchcase(identity, pattern)


def _plain(one: Any) -> Any:
    return one if isinstance(one, str) else int(one)
