"""What the demo's figures allow to be said, and no more."""

from collections.abc import Iterable, Mapping

from gradsnap.demo.measured import Row, Side
from gradsnap.demo.settings import SIDES, length_in_words
from gradsnap.reports.findings import Contrast, Range

Rows = Mapping[str, Row]
"""Of the sides at one length, by their layer."""


def verdict(rows: Rows, seeds: int) -> list[str]:
    """Sentences on MAP, on quantization error, and on codes beside floats."""
    plain, *others = rows.values()
    sides = [(Contrast(plain.name, row.name, seeds), row) for row in reversed(others)]
    error = plain.relative_error
    return [
        *(
            one.sentence("MAP of codes", plain.code_map, row.code_map, _on_map)
            for one, row in sides
        ),
        *(
            one.sentence("Quantization error", error, row.relative_error, _on_error)
            for one, row in sides
        ),
        _on_floats(rows.values()),
    ]


def verdict_on_lengths(sides: Mapping[str, Side], seeds: int) -> list[str]:
    """At which lengths each snapping side ranks better or worse than the plain one."""
    plain, *others = sides.values()
    return [
        Contrast(plain.name, side.name, seeds).on_bits(
            plain.code_maps(), side.code_maps()
        )
        for side in reversed(others)
    ]


def gains(before: Mapping[int, Range], after: Mapping[int, Range]) -> list[int]:
    """Bits at which every seed of ``after`` ranks better than every one of ``before``.

    >>> gains({4: Range(0.5, 0.4, 0.6)}, {4: Range(0.8, 0.7, 0.9)})
    [4]
    """
    return [bits for bits in before if after[bits].least > before[bits].most]


def heading(rows: Rows, bits: int, seeds: int) -> str:
    """The gain in large letters, where there is one."""
    plain, codes = rows["plain"].code_map, rows["codes"].code_map
    told = f"Codes of {length_in_words(bits)}"
    if seeds == 1 or not gains({bits: plain}, {bits: codes}):
        return f"{told}, trained in three ways"
    return (
        f"{told} rank with MAP {codes.mean:.2f} instead of {plain.mean:.2f} "
        "when the network is trained through them"
    )


def where_it_ends(
    plain: Mapping[int, Range], codes: Mapping[int, Range], seeds: int
) -> str:
    """One sentence on the lengths with a gain through codes, and those without.

    Args:
        plain: MAP of codes without snapping, by bits.
        codes: the same, trained through codes.
        seeds: how many there are.
    """
    if seeds == 1:
        return "One seed cannot tell where there is a gain."
    with_gain = gains(plain, codes)
    if not with_gain:
        return "At no length here does every seed through codes rank better."
    rest = [bits for bits in plain if bits not in with_gain]
    told = f"The gain is larger than what seeds differ by at {_listed(with_gain)} bits"
    return f"{told}, and is not at {_listed(rest)}." if rest else f"{told}."


def on_length(bits: int, rows: Rows) -> str:
    """The sides' figures at one length, in one line."""
    maps = ", ".join(f"{row.code_map.mean:.3f} {row.name}" for row in rows.values())
    return f"{bits} bits: code MAP {maps}"


def at_length(sides: Mapping[str, Side], bits: int) -> dict[str, Row]:
    """The sides' rows of one length."""
    return {layer: side.rows[bits] for layer, side in sides.items()}


def _on_error(before: float, after: float) -> str:
    word = "less" if after < before else "more"
    return f"codes lose {abs(1 - after / before):.0%} {word}"


def _on_map(before: float, after: float) -> str:
    return f"codes rank {'better' if after > before else 'worse'}"


def _on_floats(rows: Iterable[Row]) -> str:
    """Codes beside the same network's floats, and when there is nothing to gain."""
    beside = {row.name: row.code_map.mean - row.float_map.mean for row in rows}
    told = ", ".join(f"{one:+.3f} {name}" for name, one in beside.items())
    said = f"MAP of codes less MAP of the same network's floats: {told}."
    if beside[SIDES["plain"]] < 0:
        return said
    return (
        f"{said} Plain codes rank as well as floats or better: with few, seen classes "
        "quantization removes noise, and little is left to gain in MAP."
    )


def _listed(lengths: Iterable[int]) -> str:
    """``4``, ``4 and 8``, ``4, 8 and 16``."""
    *most, last = map(str, lengths)
    return f"{', '.join(most)} and {last}" if most else last
