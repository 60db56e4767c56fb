"""What all indexes share: how items are added, removed and saved; the contract."""

import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.arrays import Given
from gradsnap.coders.checks import checked_codes
from gradsnap.coders.coder import Coder
from gradsnap.coders.packing import pack
from gradsnap.errors import InputError
from gradsnap.index.changing import rename_items, update_items
from gradsnap.index.metadata import Metadata, checked_metadata
from gradsnap.index.rerank import Refiner
from gradsnap.index.searching import Searchable
from gradsnap.index.segments import (
    GivenIds,
    Segment,
    new_ids,
    sorted_by_list,
)
from gradsnap.registry import build

if TYPE_CHECKING:
    from gradsnap.index.folder_reading import Origin

Array = NDArray[Any]
Config = dict[str, Any]
"""Plain arguments of a constructor."""


class Index(Searchable):
    """Items that are found by their codes.

    ``add`` gives the items ids, whole numbers or strings, ``search`` returns them.
    Distances are added up in float32, in the order of the codebooks; equal distances
    are ordered by id (strings: by when they were added), so results do not depend on
    how items were added or on which engine scans.

    Args:
        coder: what makes codes of vectors; fitted, or fitted by ``fit``.
        refiner: ``HalfPrecision`` or ``LongerCode``, to re-rank the best; None for no
            re-ranking.
    """

    kind: ClassVar[str]
    """The short name, in the registry and in manifests."""
    takes_vectors: ClassVar[bool] = True
    """Whether a coder makes the codes of vectors; else codes come ready."""
    num_lists: int | None = None
    """Into how many lists items are sorted; None for one sequence."""

    def __init__(self, coder: Coder, *, refiner: Refiner | None = None) -> None:
        super().__init__(coder, refiner=refiner)
        self.origin: Origin | None = None
        self.notes: dict[str, str] = {}
        """Words kept with the index, such as where its model lies."""
        self.fingerprint: str | None = None

    # --- what a child writes ------------------------------------------------

    @classmethod
    def of_size(
        cls,
        coder: Coder,
        count: int,
        *,
        num_lists: int | None = None,
        residual: bool = False,
        refiner: Refiner | None = None,
    ) -> Self:
        """An empty index whose sizes suit so many items.

        Args:
            coder: what makes codes of vectors.
            count: how many items there will be.
            num_lists: how many lists, for a kind that has them; by ``count`` if None.
            residual: whether codes are of what a list's centroid leaves of a vector.
            refiner: to re-rank the best; None for no re-ranking.

        Raises:
            InputError: an option is given that this kind has no use for.
        """
        sizes = cls._sizes(count, num_lists, residual)
        return cls(coder, refiner=refiner, **sizes)

    @classmethod
    def _sizes(cls, count: int, num_lists: int | None, residual: bool) -> Config:
        """The constructor's arguments for so many items; here there are none."""
        for flag, given in (
            ("--lists", num_lists is not None),
            ("--residual", residual),
        ):
            if given:
                raise InputError(
                    f"{flag} is for an index with lists; this one is {cls.kind}"
                )
        return {}

    @classmethod
    def from_config(
        cls, coder: Coder | None, config: Config, refiner: Refiner | None
    ) -> Self:
        """The empty index of such a ``config``."""
        if coder is None:
            raise InputError(f"an index of kind {cls.kind} needs a coder, got none")
        own = {"coder": coder, "refiner": refiner}
        return build({cls.kind: cls}, cls.kind, "index", own, config)

    @abstractmethod
    def config(self) -> Config:
        """The constructor's plain arguments."""

    def state(self) -> dict[str, Tensor]:
        """Tensors the index learned beside the coder."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Takes back what ``state`` gave."""
        if state:
            raise InputError(f"this index has no place for {', '.join(state)}")

    def _encode(self, vectors: Tensor) -> tuple[Tensor, Tensor | None]:
        """Codes (n, M) of checked vectors, and their lists (n,) where there are any."""
        return self.coder.encode(vectors), None

    # --- the verbs ----------------------------------------------------------

    @property
    def learns(self) -> bool:
        """Whether ``fit`` still has anything to learn."""
        return not self.coder.fitted

    def fit(self, x: Given, labels: Given | None = None) -> Self:
        """Learns from x (n, dim) whatever is not learned yet.

        Args:
            x: (n, dim).
            labels: (n,) or (n, L), for a coder that needs them.
        """
        if not self.coder.fitted:
            self.coder.fit(x, labels)
        return self

    @torch.no_grad()
    def add(
        self,
        vectors: Given,
        ids: GivenIds | None = None,
        metadata: Metadata | None = None,
    ) -> Self:
        """Encodes vectors and keeps their codes.

        Args:
            vectors: (n, dim).
            ids: n whole numbers of at least 0, or n strings, all new; the next free
                numbers if not given.
            metadata: columns of n values by name, or a pyarrow table.

        Raises:
            InputError: vectors hold NaN or have another length, or an id is known.
        """
        vectors = self._checked(vectors)
        fine = None if self.refiner is None else self.refiner.encode(vectors)
        codes, lists = self._encode(vectors)
        self._append(codes, lists, ids, metadata, fine)
        return self

    def add_codes(
        self,
        codes: Given,
        ids: GivenIds | None = None,
        metadata: Metadata | None = None,
        *,
        lists: Given | None = None,
    ) -> Self:
        """Keeps ready codes (n, M), in lists (n,) if the index has lists."""
        if self.refiner is not None:
            raise InputError(
                "this index re-ranks, and codes alone leave nothing to re-rank by: use "
                "add"
            )
        own = self.coder
        checked = checked_codes(codes, own.num_codebooks, own.codebook_size)
        self._append(checked, self._checked_lists(lists, len(codes)), ids, metadata)
        return self

    def remove(self, ids: GivenIds) -> Self:
        """Removes items; memory and disk are freed by ``compact``.

        Raises:
            InputError: an id is not in the index; nothing is removed then.
        """
        positions = [part.positions for part in self.items.allowed(ids)]
        for segment, at in zip(self.items.segments, positions, strict=True):
            segment.remove(at)
        return self

    def rename(self, renames: Mapping[str, str]) -> Self:
        """Gives items other string ids, new by old; codes and order stay.

        Raises:
            InputError: an id is not in the index, or a new one is taken; nothing is
                renamed then.
        """
        rename_items(self.items, renames)
        return self

    def update(self, ids: GivenIds, metadata: Metadata) -> Self:
        """Replaces columns of metadata of some items; all others stay.

        Args:
            ids: n of them.
            metadata: columns of n values by name, or a pyarrow table.

        Raises:
            InputError: an id is not in the index, or a column holds another kind of
                values.
        """
        update_items(self.items, ids, metadata)
        return self

    def compact(self) -> Self:
        """Puts all items that count into one segment."""
        self.items.compact()
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index to a folder; see ``load_index``.

        A folder that is new is written beside and renamed. One this index was loaded
        from gets what was added and removed since; any other index there is replaced.
        A crash at any moment leaves the old index or the new one.

        Raises:
            InputError: it cannot be written there, another process is writing there,
                or has done so since this index was loaded.
        """
        from gradsnap.index.folder_writing import save_index

        save_index(self, path)

    def verify(self) -> Self:
        """Compares every file the index was loaded from with its checksum.

        Raises:
            FileFormatError: a file was changed.
        """
        if self.origin is None:
            raise InputError(
                "this index was not loaded from files: there is none to verify"
            )
        self.origin.verify()
        return self

    def check_codebooks(self) -> None:
        """Refuses a coder that is not the one the items were encoded with."""
        current = self.coder.fingerprint()
        if len(self.items.segments) == 0:
            self.fingerprint = current
        elif self.fingerprint != current:
            raise InputError(
                f"the {type(self.coder).__name__} changed since items were added: "
                "their codes mean something else now; make a new index and add the "
                "vectors again"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} items, {self.coder!r})"

    # --- the parts ----------------------------------------------------------

    def _checked_lists(self, lists: Given | None, count: int) -> Tensor | None:
        if (lists is None) != (self.num_lists is None):
            need = "no lists" if self.num_lists is None else "lists=lists_of(vectors)"
            raise InputError(f"codes of an index of kind {self.kind} need {need}")
        if lists is None or self.num_lists is None:
            return None
        if len(lists) != count:
            raise InputError(f"{count} codes need as many lists, got {len(lists)}")
        return checked_codes(lists[:, None], 1, self.num_lists)[:, 0]

    def _append(
        self,
        codes: Tensor,
        lists: Tensor | None,
        ids: GivenIds | None,
        metadata: Metadata | None,
        fine: Array | None = None,
    ) -> None:
        count = len(codes)
        checked = None if ids is None else new_ids(ids, count)
        table = None if metadata is None else checked_metadata(metadata, count)
        if count == 0:
            return
        self.check_codebooks()
        packed = pack(codes.cpu().numpy(), self.coder.codebook_size)
        segment = Segment(packed, fine=fine, stored=table)
        self.items.identify(segment, checked)
        if lists is not None and self.num_lists is not None:
            segment = sorted_by_list(segment, lists.cpu().numpy(), self.num_lists)
        self.items.append(segment)
