"""How a code is divided into codebooks."""

import math
from typing import NamedTuple

from gradsnap.coders.quantizers.quantizer import (
    MOST_BITS_A_CODEBOOK,
    ROWS_A_CODEWORD,
)
from gradsnap.errors import InputError


class Layout(NamedTuple):
    """How a code is divided."""

    num_codebooks: int
    codebook_size: int

    @property
    def bits(self) -> int:
        """Length of a code.

        >>> Layout(2, 4).bits, str(Layout(2, 4))
        (4, '2 × 4')
        """
        return self.num_codebooks * round(math.log2(self.codebook_size))

    def __str__(self) -> str:
        return f"{self.num_codebooks} × {self.codebook_size}"


def layout_of(bits: int, training_rows: int) -> Layout:
    """Two codebooks or more, of as many codewords as the bits and the rows allow.

    A single codebook would be plain k-means, and its codes no sum of several codewords;
    a codebook of more codewords than a quarter of the rows would learn single rows.

    Example:
        >>> [str(layout_of(bits, 4500)) for bits in (4, 8, 12, 24, 32, 48)]
        ['2 × 4', '2 × 16', '2 × 64', '3 × 256', '4 × 256', '6 × 256']
        >>> str(layout_of(32, 400))
        '8 × 16'
    """
    for each in range(MOST_BITS_A_CODEBOOK, 0, -1):
        several, size = bits > each and bits % each == 0, 1 << each
        if several and ROWS_A_CODEWORD * size <= max(training_rows, 8):
            return Layout(bits // each, size)
    raise InputError(f"a code needs 2 bits or more for two codebooks, got {bits}")
