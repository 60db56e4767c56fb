"""The page of the study, made anew from its rows: tables, verdicts and the picture.

    python -m benchmarks.study_page

What is typed by hand in ``docs/study.md`` stays; what stands between the marks
``<!-- study:NAME -->`` and ``<!-- /study:NAME -->`` is replaced.
"""

import json
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path

from benchmarks.report import RESULTS, Record
from benchmarks.study_cells import KEPT, PLAIN, TASKS
from benchmarks.study_cells import cells as every_cell
from benchmarks.study_picture import picture_of
from benchmarks.study_rows import CellRows, StudyRow, kept_row
from gradsnap.experiments.means import Mean
from gradsnap.files import write_text

DOCS = Path(__file__).parent.parent / "docs"
LOST = 0.02
"""MAP that plain codes must lose to floats for a gain to be worth looking for."""
SURE = 4.3
"""Standard errors that three seeds need: 5 % of Student's t, two-sided."""


def write_page(records: list[Record]) -> None:
    """Replaces the made parts of the page, and the picture."""
    cells = cells_of(records)
    blocks = {name: make(cells) for name, make in BLOCKS.items()}
    page = DOCS / "study.md"
    write_text(page, renewed(page.read_text(encoding="utf-8"), blocks))
    write_text(DOCS / "pictures" / "study.svg", picture_of(cells))


def put_table(name: str, shown: list[dict[str, str]]) -> None:
    """Puts a table between the marks of its name; the first column is of words."""
    heads = list(shown[0])
    marks = ["---", *["--:"] * (len(heads) - 1)]
    lines = [heads, marks, *(list(one.values()) for one in shown)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    page = DOCS / "study.md"
    write_text(page, renewed(page.read_text(encoding="utf-8"), {name: table}))


def cells_of(records: list[Record]) -> list[CellRows]:
    """The rows by cell, without data that were skipped and cells half done."""
    rows = [StudyRow(**one) for one in records if "code_maps" in one]
    by_cell = groupby(rows, key=lambda row: (row.data, row.layout))
    cells = [{row.method: row for row in group} for _, group in by_cell]
    whole = max((len(one) for one in cells), default=0)
    cells = [one for one in cells if len(one) == whole]
    kept = [with_kept(one) for one in cells]
    return kept if all(KEPT in one for one in kept) else cells


def with_kept(rows: CellRows) -> CellRows:
    """The rows of a cell, and what `gradsnap train` keeps of them."""
    choice = [rows[name] for name in recipes_of(rows) if name in rows]
    kept = kept_row(KEPT, choice)
    return rows if kept is None else {**rows, KEPT: kept}


def renewed(page: str, blocks: Mapping[str, str]) -> str:
    """The page with each block between its marks.

    >>> renewed("a <!-- study:n --> old <!-- /study:n --> b", {"n": "new"})
    'a <!-- study:n -->\\n\\nnew\\n\\n<!-- /study:n --> b'
    """
    for name, block in blocks.items():
        start, end = f"<!-- study:{name} -->", f"<!-- /study:{name} -->"
        if start not in page or end not in page:
            raise ValueError(f"the page has no marks {start} and {end}")
        before, _, rest = page.partition(start)
        after = rest.partition(end)[2]
        page = f"{before}{start}\n\n{block}\n\n{end}{after}"
    return page


def summary(cells: list[CellRows]) -> str:
    """One line a cell: floats, plain codes, and who is above them."""
    lines = [
        "| data | layout | bits | floats, plain | plain + PQ | codes − floats | "
        "best by codes | code MAP | above plain + PQ | standard errors |",
        "|---|---|--:|--:|--:|--:|---|--:|--:|--:|",
    ]
    for rows in cells:
        plain, best = rows[PLAIN], best_of(rows)
        lost = Mean.of_gain(plain.code_maps, plain.float_maps)
        gain = gain_of(rows, best.method)
        above = ("–", "–") if best is plain else (str(gain), f"{gain.errors:.1f}")
        lines.append(
            f"| {plain.data} | {plain.layout} | {plain.bits} "
            f"| {Mean.of(plain.float_maps)} | {Mean.of(plain.code_maps)} | {lost} "
            f"| {best.method} | {Mean.of(best.code_maps)} | {' | '.join(above)} |"
        )
    return "\n".join(lines)


def gains(cells: list[CellRows]) -> str:
    """What each method gains over plain codes, a column for each cell."""
    return _compared(cells, PLAIN, lambda rows, method: gain_of(rows, method))


def recipe(cells: list[CellRows]) -> str:
    """What the recipe gains over each of the others, a column for each cell."""
    return _compared(
        cells, KEPT, lambda rows, method: gain_of(rows, recipe_of(rows), method)
    )


def recipe_of(rows: CellRows) -> str:
    """The row of a cell that `gradsnap train` leaves by default."""
    return KEPT if KEPT in rows else recipes_of(rows)[0]


def recipes_of(rows: CellRows) -> tuple[str, ...]:
    """The methods of a cell that `gradsnap train` chooses from."""
    first = rows[PLAIN]
    names = {(task.name, str(one)): task.recipes(one) for task, one in every_cell()}
    return names[first.data, first.layout]


def _compared(
    cells: list[CellRows], with_: str, gain: Callable[[CellRows, str], Mean]
) -> str:
    names = [_cell_name(rows) for rows in cells]
    lines = [f"| | {' | '.join(names)} |", f"|---|{'--:|' * len(names)}"]
    for method in cells[0] if cells else ():
        if method != with_:
            shown = [_marked(gain(rows, method)) for rows in cells]
            lines.append(f"| {method} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _marked(gain: Mean) -> str:
    """The gain, bold where three seeds are enough to be sure of it; – with itself."""
    if gain.value == gain.error == 0:
        return "–"
    value = f"{gain.value:+.3f}".replace("-", "−")
    bold = "**" if abs(gain.errors) >= SURE else ""
    return f"{bold}{value}{bold} ± {gain.error:.3f}"


def tables(cells: list[CellRows]) -> str:
    """Every figure, a table for each cell."""
    return "\n\n".join(_table(rows) for rows in cells)


def _table(rows: CellRows) -> str:
    first = rows[PLAIN]
    lines = [
        f"### {first.data}, {first.layout} words ({first.bits} bits)",
        "",
        "| method | rate | strength | code MAP | float MAP | precision@10 | "
        "codebooks |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for row in (row for name, row in rows.items() if name != KEPT):
        strength = "–" if row.strength is None else f"{row.strength:g}"
        sources = ", ".join(
            f"{WORDS[name]} {count}" for name, count in sorted(row.fitted_to.items())
        )
        lines.append(
            f"| {row.method} | {row.rate:g} | {strength} | {Mean.of(row.code_maps)} "
            f"| {Mean.of(row.float_maps)} | {Mean.of(row.precisions)} | {sources} |"
        )
    return "\n".join([*lines, *_kept_line(rows)])


def _kept_line(rows: CellRows) -> list[str]:
    """What `gradsnap train` keeps, where that is known."""
    if KEPT not in rows:
        return []
    row = rows[KEPT]
    chosen = ", ".join(f"{name} {count}" for name, count in row.fitted_to.items())
    return [
        f"| {KEPT}: {chosen} | | | {Mean.of(row.code_maps)} "
        f"| {Mean.of(row.float_maps)} | {Mean.of(row.precisions)} | |"
    ]


WORDS = {"none": "kept", "train": "training part", "database": "database"}
"""What codebooks were fitted to, as the page says it."""


def verdicts(cells: list[CellRows]) -> str:
    """In how many cells each method gains, loses, and is as good as the best."""
    scarce = [rows for rows in cells if lost_by(rows) >= LOST]
    lines = [
        f"Plain codes lose {LOST:g} or more to floats in {len(scarce)} of "
        f"{len(cells)} cells: "
        f"{', '.join(_cell_name(rows) for rows in scarce) or 'none'}.",
        "",
        "| method | above plain + PQ in these | surely "
        "| below plain + PQ in the others | surely "
        "| within one standard error of the best, of all |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    others = [rows for rows in cells if lost_by(rows) < LOST]
    for method in cells[0] if cells else ():
        near = sum(is_near_best(rows, method) for rows in cells)
        up = [gain_of(rows, method) for rows in scarce if method != PLAIN]
        down = [gain_of(rows, method) for rows in others if method != PLAIN]
        counts = (
            f"{sum(one.value > 0 for one in up)} of {len(scarce)} "
            f"| {sum(one.errors >= SURE for one in up)} "
            f"| {sum(one.value < 0 for one in down)} of {len(others)} "
            f"| {sum(one.errors <= -SURE for one in down)}"
        )
        shown = "– | – | – | –" if method == PLAIN else counts
        lines.append(f"| {method} | {shown} | {near} of {len(cells)} |")
    own = sum(is_near_best(rows, recipe_of(rows)) for rows in cells)
    said = (
        f"What `gradsnap train` leaves is the best, or within one standard error of "
        f"it, in {own} of {len(cells)} cells."
    )
    return "\n".join([*lines, "", said])


def missing(cells: list[CellRows]) -> str:
    """Which cells have no figures, and how to make them."""
    known = {(rows[PLAIN].data, rows[PLAIN].layout) for rows in cells}
    absent = [
        f"{task.name} at {', '.join(gone)}"
        for task in TASKS
        if (
            gone := [
                str(one) for one in task.layouts if (task.name, str(one)) not in known
            ]
        )
    ]
    if not absent:
        return "No cell is missing."
    return (
        f"Not run yet: {'; '.join(absent)}. "
        "`python -m benchmarks study --data DIR` runs what is missing."
    )


BLOCKS: dict[str, Callable[[list[CellRows]], str]] = {
    "summary": summary,
    "gains": gains,
    "recipe": recipe,
    "verdicts": verdicts,
    "missing": missing,
    "tables": tables,
}
"""What is made anew, by the name in its marks."""


def best_of(rows: CellRows) -> StudyRow:
    """The row of one method whose codes rank best on the queries."""
    methods = [row for name, row in rows.items() if name != KEPT]
    return max(methods, key=lambda row: Mean.of(row.code_maps).value)


def gain_of(rows: CellRows, method: str, over: str = PLAIN) -> Mean:
    """Code MAP of a method less another's, seed by seed."""
    return Mean.of_gain(rows[method].code_maps, rows[over].code_maps)


def lost_by(rows: CellRows) -> float:
    """What plain codes lose to the same network's floats."""
    plain = rows[PLAIN]
    return -Mean.of_gain(plain.code_maps, plain.float_maps).value


def is_near_best(rows: CellRows, method: str) -> bool:
    """Whether a method is the best, or below it by one standard error at most."""
    best = best_of(rows)
    if best.method == method:
        return True
    below = gain_of(rows, best.method, over=method)
    return below.value <= below.error


def _cell_name(rows: CellRows) -> str:
    return f"{rows[PLAIN].data} {rows[PLAIN].layout}"


if __name__ == "__main__":
    text = (RESULTS / "study.json").read_text(encoding="utf-8")
    write_page(json.loads(text)["rows"])
