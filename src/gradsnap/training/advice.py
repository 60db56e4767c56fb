"""What a finished run's figures mean, and what to try next."""

from collections.abc import Iterator, Mapping
from typing import Any

LOST = 0.02
"""What codes lose to floats before it is worth looking for more."""
POOR = 0.5
"""MAP of floats below which the embedding, not the code, is what is short."""


def advice(card: Mapping[str, Any], asked: int | None = None) -> list[str]:
    """Sentences about a finished run, the most useful first.

    Args:
        card: of a model that was scored on its queries.
        asked: bits that were asked for, where the codes may have fewer.

    Example:
        >>> advice(
        ...     {
        ...         "bits": 8,
        ...         "figure": "map",
        ...         "figures": {"float_map": 0.9, "code_map": 0.8},
        ...     }
        ... )
        ['codes lose 0.100 to floats: try --bits 16, or gradsnap tune --bits 8']
    """
    figure = card.get("figure", "map")
    figures = card.get("figures", {})
    if f"code_{figure}" not in figures:
        return []
    floats, codes = figures.get(f"float_{figure}"), figures[f"code_{figure}"]
    bits = asked or card["bits"]
    return [*_of_codes(floats, codes, bits, card), *_of_floats(floats, figure, card)]


def _of_codes(
    floats: float | None, codes: float, bits: int, card: Mapping[str, Any]
) -> Iterator[str]:
    if floats is None:
        return
    if codes < floats - LOST:
        rotated = ", --coder opq" if card.get("coder") == "pq" else ""
        yield (
            f"codes lose {floats - codes:.3f} to floats: try --bits {2 * bits}"
            f"{rotated}, or gradsnap tune --bits {bits}"
        )
    elif bits // 2 >= _shortest(card):
        yield f"codes rank as floats do: --bits {bits // 2} may be enough"


def _shortest(card: Mapping[str, Any]) -> int:
    """Bits that can name a class and say a little more; half a byte at least."""
    return max(4, len(card.get("classes", ())).bit_length() + 1)


def _of_floats(
    floats: float | None, figure: str, card: Mapping[str, Any]
) -> Iterator[str]:
    if floats is not None and figure == "map" and floats < POOR:
        yield (
            "floats rank poorly themselves: more labelled items, more steps "
            "(run.steps) or a network that trains further (network.trainable_blocks=2) "
            "help more than more bits"
        )
    kept = card.get("beside", {}).get("kept")
    if kept == "snapped":
        yield "codes are scarce here, and snapped codes rank better than soft ones"
    if kept == "plain":
        yield (
            "training for the codes did not pay here, so the plain network was kept; "
            "it pays where codes are scarce: fewer bits, or more classes"
        )
    if card.get("snapped") is False:
        yield "nothing was snapped: nothing was left to learn when the warm-up ended"
