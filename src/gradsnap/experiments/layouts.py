"""How a code is divided into codebooks."""

import math
from typing import NamedTuple

from gradsnap.coders.quantizers.quantizer import size_of_codebooks, split_bits


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
    """The layout that ``gradsnap train`` has for so many bits and rows.

    As few codebooks as bits and rows allow: up to 8 bits a single one, which is free to
    put its codewords anywhere.

    Example:
        >>> [str(layout_of(bits, 4500)) for bits in (4, 8, 12, 24, 32, 48)]
        ['1 × 16', '1 × 256', '2 × 64', '3 × 256', '4 × 256', '6 × 256']
        >>> str(layout_of(32, 400))
        '8 × 16'
    """
    return Layout(*split_bits(bits, size_of_codebooks(bits, training_rows)))
