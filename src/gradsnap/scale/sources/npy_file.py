"""Vectors of an ``.npy`` file, by ranges of rows, on any file system."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradsnap.data.mapped import check_matrix
from gradsnap.errors import FileFormatError, InputError
from gradsnap.places import place_of
from gradsnap.scale.shard import Chunk, Shard, shard_of

ROWS_AT_ONCE = 8192
SHARD_BYTES = 2**26
"""Of the vectors of a shard."""

HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class NpyFile:
    """Vectors (n, dim) whose ids are the numbers of their rows.

    Args:
        address: of the file.
        rows: of a shard; as many as make 64 MiB if not given.
    """

    holds_images = False

    def __init__(self, address: str, rows: int | None = None) -> None:
        self.address = address
        (self.count, self.dim), self.dtype, self.start = self._header()
        check_matrix((self.count, self.dim), self.dtype, address)
        row_bytes = self.dim * self.dtype.itemsize
        fitting = max(1, SHARD_BYTES // row_bytes // ROWS_AT_ONCE) * ROWS_AT_ONCE
        self.rows = rows or fitting

    def schema(self) -> Any:
        """Ids are whole numbers; there is nothing else."""
        import pyarrow as arrow

        return arrow.schema([("id", arrow.int64())])

    def shards(self) -> Sequence[Shard]:
        """Ranges of rows."""
        content = f"{self.count} {self.dim} {self.dtype}"
        return [
            shard_of(self.address, [start, stop], stop - start, content)
            for start in range(0, self.count, self.rows)
            for stop in [min(start + self.rows, self.count)]
        ]

    def read(self, shard: Shard) -> Iterator[Chunk]:
        """The vectors of a range, float32."""
        place = place_of(self.address)
        first, last = shard.part
        width = self.dim * self.dtype.itemsize
        with place.filesystem.open_input_file(place.path) as file:
            for start in range(first, last, ROWS_AT_ONCE):
                stop = min(start + ROWS_AT_ONCE, last)
                file.seek(self.start + start * width)
                data = file.read((stop - start) * width)
                rows = np.frombuffer(data, self.dtype).reshape(-1, self.dim)
                yield Chunk(np.arange(start, stop), rows.astype(np.float32))

    def _header(self) -> tuple[tuple[int, int], Any, int]:
        """Shape, type, and where the numbers begin."""
        place = place_of(self.address)
        if not place.is_file:
            raise InputError(f"there is no file {self.address}")
        with place.filesystem.open_input_file(place.path) as file:
            try:
                read = HEADERS[np.lib.format.read_magic(file)]
                shape, fortran, dtype = read(file)
            except (ValueError, KeyError) as error:
                raise FileFormatError(f"{self.address} is no .npy: {error}") from error
            begins, size = file.tell(), file.size()
        if len(shape) != 2 or fortran:
            raise InputError(
                f"{self.address} must hold rows (n, dim) one after the other, got "
                f"shape {shape}{' by columns' if fortran else ''}"
            )
        if size - begins < math.prod(shape) * dtype.itemsize:
            raise FileFormatError(f"{self.address} is truncated")
        return shape, dtype, begins
