"""What may be said of the figures: what was measured, and no more."""

from gradsnap.demo.figures import Range, Row


def verdict(plain: Row, snapped: Row) -> list[str]:
    """Sentences on quantization error, on MAP, and on codes beside floats."""
    return [_on_error(plain, snapped), _on_map(plain, snapped), _on_floats(plain)]


def _on_error(plain: Row, snapped: Row) -> str:
    before, after = plain.relative_error, snapped.relative_error
    change = 1 - after.mean / before.mean
    if before.overlaps(after):
        return (
            f"Quantization error: {_both(before, after)}. The seeds of both sides "
            "overlap, so this run shows no difference."
        )
    word = "less" if change > 0 else "more"
    return (
        f"Quantization error: {_both(before, after)}; codes lose "
        f"{abs(change):.0%} {word} with snapping, in every seed."
    )


def _on_map(plain: Row, snapped: Row) -> str:
    before, after = plain.code_map, snapped.code_map
    if before.overlaps(after):
        return (
            f"MAP of codes: {_both(before, after)}. The seeds of both sides overlap: "
            "on these data snapping neither gains nor costs accuracy that can be told "
            "from chance."
        )
    word = "better" if after.mean > before.mean else "worse"
    return f"MAP of codes: {_both(before, after)}; codes rank {word} with snapping."


def _on_floats(plain: Row) -> str:
    if plain.code_map.mean < plain.float_map.mean:
        return (
            "Codes rank worse than floats without snapping, by "
            f"{plain.float_map.mean - plain.code_map.mean:.3f} of MAP."
        )
    return (
        "Without snapping, codes already rank at least as well as floats: with few, seen "
        "classes quantization removes noise. So a gain in MAP is not to be expected here."
    )


def _both(before: Range, after: Range) -> str:
    return f"{before.mean:.3f} without snapping, {after.mean:.3f} with it"
