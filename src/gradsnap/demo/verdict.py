"""What may be said of the figures: what was measured, and no more."""

from gradsnap.demo.figures import Range, Row


def verdict(plain: Row, snapped: Row, seeds: int) -> list[str]:
    """Sentences on quantization error, on MAP, and on codes beside floats.

    A difference is only stated where the seeds of the two sides do not overlap.
    """
    return [
        _on_error(plain.relative_error, snapped.relative_error, seeds),
        _on_map(plain.code_map, snapped.code_map, seeds),
        _on_floats(plain),
    ]


def on_lengths(plain: dict[int, Range], snapped: dict[int, Range], seeds: int) -> str:
    """At which bits every seed of one side ranks better than all of the other."""
    if seeds == 1:
        return _undecided(seeds)
    apart = [bits for bits in plain if not plain[bits].overlaps(snapped[bits])]
    ahead = [bits for bits in apart if snapped[bits].mean > plain[bits].mean]
    behind = [bits for bits in apart if bits not in ahead]
    said = [
        f"At {', '.join(map(str, some))} bits every seed {word} snapping ranks better "
        "than every seed of the other side."
        for some, word in ((ahead, "with"), (behind, "without"))
        if some
    ]
    rest = "At the other lengths" if said else "At every length"
    if len(apart) < len(plain):
        said.append(f"{rest} the seeds overlap and do not tell the sides apart.")
    return " ".join(said)


def _on_error(before: Range, after: Range, seeds: int) -> str:
    figures = f"Quantization error: {_both(before, after)}"
    if seeds == 1 or before.overlaps(after):
        return f"{figures}. {_undecided(seeds)}"
    change = 1 - after.mean / before.mean
    word = "less" if change > 0 else "more"
    return f"{figures}: codes lose {abs(change):.0%} {word} with snapping."


def _on_map(before: Range, after: Range, seeds: int) -> str:
    figures = f"MAP of codes: {_both(before, after)}"
    if seeds == 1 or before.overlaps(after):
        return f"{figures}. {_undecided(seeds)}"
    word = "better" if after.mean > before.mean else "worse"
    return f"{figures}: codes rank {word} with snapping."


def _on_floats(plain: Row) -> str:
    if plain.code_map.mean < plain.float_map.mean:
        return (
            "Without snapping, codes rank worse than floats, by "
            f"{plain.float_map.mean - plain.code_map.mean:.3f} of MAP."
        )
    return (
        "Without snapping, codes already rank as well as floats or better: with few, "
        "seen classes quantization removes noise, and little is left to gain in MAP."
    )


def _both(before: Range, after: Range) -> str:
    return f"{before.mean:.3f} without snapping, {after.mean:.3f} with it"


def _undecided(seeds: int) -> str:
    if seeds == 1:
        return "One seed cannot tell a difference from chance."
    return f"The {seeds} seeds of both sides overlap and do not tell them apart."
