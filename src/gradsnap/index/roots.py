"""Where the files of an index lie: its roots, and the path of each id."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from gradsnap.errors import FileFormatError, InputError

BETWEEN = "//"
"""Between a root's name and the rest of an id; no path of a file holds it."""


class Root(NamedTuple):
    """A folder whose files are in the index."""

    folder: str
    """Its absolute path."""
    links: tuple[str, ...] = ()
    """Real folders outside of it that links in it led to when it was indexed."""

    def holds(self, path: str) -> bool:
        """Whether a file really lies in the folder, or where its links led."""
        real = os.path.realpath(path)
        allowed = (os.path.realpath(self.folder), *self.links)
        return any(_is_below(real, folder) for folder in allowed)


class Place(NamedTuple):
    """A root, and what the ids of some folder or file in it begin with."""

    root: str
    """The root's name."""
    below: str
    """The path from the root with "/" between folders; "" is the root itself."""


@dataclass(frozen=True)
class Roots:
    """Roots by their names: the first one has none, later ones are called as folders.

    The id of a file is its path below the first root, or ``name//path`` below another
    one: equal paths below two roots are two ids.

    Example:
        >>> roots = Roots().with_folder("/home/a/photos").with_folder("/mnt/photos")
        >>> roots.names, roots.id_of("", "cat/1.jpg"), roots.id_of("photos", "1.jpg")
        (('', 'photos'), 'cat/1.jpg', 'photos//1.jpg')
        >>> str(roots.path_of("photos//1.jpg"))
        '/mnt/photos/1.jpg'
    """

    by_name: Mapping[str, Root] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order the roots were added; the first is ""."""
        return tuple(self.by_name)

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def place_of(self, path: str | os.PathLike[str]) -> Place | None:
        """The root that a folder or file lies in, the nearest one; None if in none."""
        full = os.path.abspath(path)
        found: list[tuple[int, Place]] = []
        for name, root in self.by_name.items():
            for given, top in (
                (full, root.folder),
                (os.path.realpath(full), os.path.realpath(root.folder)),
            ):
                if _is_below(given, top):
                    below = Path(os.path.relpath(given, top)).as_posix()
                    below = "" if below == "." else below
                    found.append((len(below), Place(name, below)))
        return min(found)[1] if found else None

    def with_folder(
        self, folder: str | os.PathLike[str], links: Iterable[str] = ()
    ) -> "Roots":
        """These and one more, unless the folder lies in one of them already.

        Args:
            folder: the new root.
            links: real folders outside of it that links in it lead to.
        """
        place = self.place_of(folder)
        name = self._free_name(os.path.abspath(folder)) if place is None else place.root
        new = Root(os.path.abspath(folder))
        root = self.by_name.get(name, new)
        known = tuple(sorted({*root.links, *links}))
        return Roots({**self.by_name, name: root._replace(links=known)})

    def moved(self, name: str, folder: str | os.PathLike[str]) -> "Roots":
        """The same where a root lies elsewhere now."""
        if name not in self.by_name:
            known = ", ".join(repr(one) for one in self.by_name) or "none"
            raise InputError(f"the index has no root {name!r}; its roots are {known}")
        return replace(
            self, by_name={**self.by_name, name: Root(os.path.abspath(folder))}
        )

    def id_of(self, name: str, below: str) -> str:
        """The id of the file ``below`` a root, by their names."""
        return f"{name}{BETWEEN}{below}" if name else below

    def path_of(self, identity: str) -> Path | None:
        """The file of an id, there or not; None if it is outside of its root.

        An id with ".." in it, an absolute one, and a link that leads elsewhere than
        when the root was indexed are outside.
        """
        name, between, below = identity.partition(BETWEEN)
        if not between:
            name, below = "", identity
        root = self.by_name.get(name)
        parts = below.split("/")
        if root is None or os.path.isabs(below) or {"", ".", ".."} & set(parts):
            return None
        path = os.path.join(root.folder, *parts)
        return Path(path) if "\0" not in path and root.holds(path) else None

    def shown(self, identity: str) -> str:
        """The full path of an id for people to read; nothing is looked up on disk."""
        name, between, below = identity.partition(BETWEEN)
        if not between:
            name, below = "", identity
        root = self.by_name.get(name)
        return identity if root is None else os.path.join(root.folder, below)

    def to_json(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            name: {"folder": root.folder, "links": list(root.links)}
            for name, root in self.by_name.items()
        }

    @classmethod
    def from_json(cls, content: Any) -> "Roots":
        """What ``to_json`` gave.

        Raises:
            FileFormatError: it is something else.
        """
        try:
            return cls(
                {
                    str(name): Root(str(one["folder"]), tuple(map(str, one["links"])))
                    for name, one in content.items()
                }
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise FileFormatError(f"the roots cannot be read: {error!r}") from error

    def _free_name(self, folder: str) -> str:
        """No name for the first root, then the folder's own, numbered if taken."""
        if not self.by_name:
            return ""
        own = os.path.basename(folder) or "root"
        names = [
            own,
            *(f"{own}-{number}" for number in range(2, len(self.by_name) + 3)),
        ]
        return next(name for name in names if name not in self.by_name)


def _is_below(path: str, folder: str) -> bool:
    """Whether an absolute path is the folder or in it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
