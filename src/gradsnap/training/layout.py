"""How many codewords a codebook has, where the settings leave it open."""

import logging
from typing import NamedTuple

from gradsnap.coders import CODERS, Coder, Quantizer
from gradsnap.coders.packing import bits_of
from gradsnap.coders.quantizers import AdditiveQuantizer, ResidualQuantizer
from gradsnap.coders.quantizers.quantizer import size_of_codebooks
from gradsnap.coders.quantizers.summed import MOST_CODEWORDS
from gradsnap.training.by_neighbors import MOST_ROWS
from gradsnap.training.config import TrainingConfig
from gradsnap.training.settings import changed

logger = logging.getLogger(__name__)

USUAL = 256
"""Codewords in a codebook, of as many bits as a byte has."""

LARGEST = 4096
"""Codewords in a codebook where all rows learn, of which ``MOST_ROWS`` can."""

LARGEST_FOR_OTHERS = 1024
"""The same where most of what is searched is new to the codebooks. Larger ones of fewer
bits know by heart what they have seen, and err more on other rows."""

ROWS_A_LARGE = 3
"""Training rows for each codeword of a large codebook. Fewer than a usual one asks for:
what is searched are these rows, so that knowing them by heart is no loss."""

MOST_GIVEN_UP = 0.25
"""Share of the bits and of the axes that larger codebooks may cost."""


class Layout(NamedTuple):
    """Codebooks of long codewords, and how long they are."""

    bits: int
    codebook_size: int
    dim: int


def with_layout(config: TrainingConfig, rows: int) -> TrainingConfig:
    """The size of codebooks, where it is open, by bits and training rows."""
    coder = config.coder
    if coder.codebook_size is not None or not issubclass(CODERS[coder.kind], Quantizer):
        return config
    size = size_of_codebooks(coder.bits, rows)
    length = config.network.options.get("input_dim")
    if config.network.start != "kept-axes" or not length or size != USUAL:
        return changed(config, coder={"codebook_size": size})
    return _with_shared_room(config, rows, int(length))


def layout_of(coder: Coder) -> dict[str, int]:
    """How many codebooks a coder has and how many codewords each, for its card."""
    if not isinstance(coder, Quantizer):
        return {}
    return {
        "num_codebooks": coder.num_codebooks,
        "codebook_size": coder.codebook_size,
    }


def _with_shared_room(config: TrainingConfig, rows: int, length: int) -> TrainingConfig:
    """Larger codebooks where codewords are shorter than the vectors."""
    coder, dim = config.coder, config.network.dim
    sums = issubclass(CODERS[coder.kind], (ResidualQuantizer, AdditiveQuantizer))
    if not sums or dim is None:
        return changed(config, coder={"codebook_size": USUAL})
    bits, size, dim = large_codebooks(coder.bits, rows, length, dim)
    if size > USUAL:
        shape = f"{bits // bits_of(size)} x {size}"
        logger.info("codes have %d bits, %s, of %d asked for", bits, shape, coder.bits)
    settings = {"bits": bits, "codebook_size": size}
    return changed(config, coder=settings, network={"dim": dim})


def large_codebooks(bits: int, rows: int, length: int, dim: int) -> Layout:
    """The largest codebooks in the memory that usual ones of whole vectors would take.

    Few large codebooks keep far more of a vector's neighbours than many small ones of
    as many bits or more (docs/neighbors.md). What they cost is memory for codewords;
    but these are as long as the projection, not as the vectors.

    Args:
        bits: of a code, at most.
        rows: to learn from.
        length: of the vectors.
        dim: of the projection, at most.

    Example:
        >>> large_codebooks(32, rows=18_000, length=784, dim=128)
        Layout(bits=24, codebook_size=4096, dim=98)
        >>> large_codebooks(32, rows=10**6, length=784, dim=128)
        Layout(bits=30, codebook_size=1024, dim=128)
        >>> large_codebooks(32, rows=18_000, length=128, dim=128)
        Layout(bits=32, codebook_size=256, dim=128)
    """
    room = bits // bits_of(USUAL) * USUAL * length
    size = LARGEST if rows <= MOST_ROWS else LARGEST_FOR_OTHERS
    while size > USUAL:
        books = bits // bits_of(size)
        words = books * size
        axes = min(dim, room // max(1, words))
        kept = min(books * bits_of(size) / bits, axes / dim)
        fits = words <= MOST_CODEWORDS and rows >= ROWS_A_LARGE * size
        if books > 1 and fits and kept >= 1 - MOST_GIVEN_UP:
            return Layout(books * bits_of(size), size, axes)
        size //= 2
    return Layout(bits, USUAL, dim)
