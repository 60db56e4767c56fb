"""Pages, charts and pictures of any report: looks, escaping, nothing from outside."""

import base64
import io
import itertools
import re
from dataclasses import replace

import pytest
import torch
from PIL import Image

from gradsnap.reports import page, svg
from gradsnap.reports.findings import Contrast, Range, added_up, mean_curve
from gradsnap.reports.gallery import Pictures, gallery, hard_queries, image
from gradsnap.reports.markup import Markup, markup, tag
from gradsnap.reports.panels import ACROSS, PANEL_HEIGHT, Panel, panels_picture
from gradsnap.reports.scatter import flatten, scatter
from gradsnap.reports.svg import Frame, Look, Series
from tests.conftest import gaussian
from tests.parsed_html import Parsed

HOSTILE = "<img src=x onerror=alert(1)>\"'&</script>"
FRAME = Frame((0, 10), (0, 1), ("bytes", "MAP"))


def many(count: int, name: str = "method") -> list[Series]:
    return [
        Series(f"{name} {n}", [(0, n / count), (10, 1)], Look.numbered(n))
        for n in range(count)
    ]


def a_page(name: str) -> str:
    """A page that uses every part there is, with the name wherever one may stand."""
    lines = many(3, name)
    pictures = Pictures(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), [name, "other"])
    ranking = {name: torch.tensor([[0, 1], [1, 0]])}
    rows = gaussian(20, 4)
    flat = flatten(rows, rows + 0.1)
    frame = Frame((0, 10), (0, 1), (name, name))
    body = markup(
        page.table([name, "MAP", "k"], [[name, Range(0.5, 0.4, 0.6), name]]),
        page.definitions({name: name}),
        page.bullets([name]),
        page.words(name),
        page.note(name),
        page.beside(
            page.words(name),
            markup(svg.legend(lines), svg.line_chart(name, frame, lines)),
        ),
        page.side_by_side(
            [
                page.figure(name, scatter(name, flat, [name, "b"] * 10), name),
                page.figure(
                    name, svg.histogram(name, [1, 3], (0, 1), (name, name), Look(0))
                ),
            ]
        ),
        gallery(pictures, pictures, ranking, [0, 1]),
    )
    sections = [page.Section("one", name, body), page.Section(name, "two", Markup())]
    return page.page(name, name, name, sections, name)


# --- looks --------------------------------------------------------------------------


def test_a_dozen_methods_are_told_apart_without_colour() -> None:
    looks = [Look.numbered(number) for number in range(28)]
    assert len({(look.dash, look.marker) for look in looks}) == 28
    assert len({Look.numbered(number) for number in range(140)}) == 140
    assert len({look.colour for look in looks[: svg.COLOURS]}) == svg.COLOURS


def strokes(parsed: Parsed) -> list[tuple[str | None, str | None]]:
    lines = parsed.of_class("line")
    return [(one["class"], one.get("stroke-dasharray")) for one in lines]


def test_a_chart_draws_each_series_by_its_look() -> None:
    lines = many(12)
    chart = Parsed(svg.line_chart("MAP", FRAME, lines))
    drawn = strokes(chart)
    assert len(drawn) == 12
    outlines = [one["d"] for one in chart.of_class("mark")][::2]
    assert len(set(zip(drawn, outlines, strict=True))) == 12
    legend = Parsed(svg.legend(lines))
    assert legend.texts == [f"method {n}" for n in range(12)]
    assert strokes(legend) == drawn
    assert [one["d"] for one in legend.of_class("mark")] == outlines


def test_quiet_lines_lie_below_the_others() -> None:
    loud, pale = many(2)
    pale = replace(pale, look=pale.look._replace(quiet=True))
    drawn = strokes(Parsed(svg.line_chart("MAP", FRAME, [loud, pale])))
    assert [css for css, _ in drawn] == ["line colour1 quiet", "line colour0"]


def test_panels_that_share_a_legend_go_on_below() -> None:
    lines = many(2)
    row, both = (
        panels_picture("MAP", [Panel(f"panel {n}", FRAME, lines) for n in range(count)])
        for count in (ACROSS, ACROSS + 1)
    )
    assert row.count(">method 1</text>") == both.count(">method 1</text>") == 1
    sizes = [Parsed(one).elements[0][1]["viewbox"] for one in (row, both)]
    (wide, low), (same, high) = (str(size).split()[2:] for size in sizes)
    assert (same, int(high)) == (wide, int(low) + PANEL_HEIGHT)


def test_every_colour_is_in_the_style_sheet() -> None:
    html = a_page("x")
    light, dark = html.split("prefers-color-scheme: dark")
    for number in range(svg.COLOURS):
        assert f"--colour{number}: #" in light
        assert f"--colour{number}: #" in dark
        assert f".{Look(number).css} {{" in html


def test_looks_beyond_the_last_begin_anew() -> None:
    far = Look(svg.COLOURS + 2, len(svg.DASHES) + 1, len(svg.MARKERS) + 3)
    assert far.line("M0 0") == Look(2, 1, 3).line("M0 0")
    assert far.mark((1, 2)) == Look(2, 1, 3).mark((1, 2))


# --- charts -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0.913, 0.957, [0.92, 0.93, 0.94, 0.95]),
        (-1, 1, [-1, -0.5, 0, 0.5, 1]),
        (0, 40_000, [0, 10_000, 20_000, 30_000, 40_000]),
        (3, 3, [3]),
    ],
)
def test_ticks_are_round_and_within(least, most, expected) -> None:
    assert svg.ticks(least, most) == pytest.approx(expected)


@pytest.mark.parametrize("scale", [1e-6, 0.03, 1, 77, 1e9])
def test_ticks_are_few_and_equally_far_apart(scale: float) -> None:
    for least, most in [(0, 1), (-0.3, 0.9), (0.11, 0.13), (2, 9)]:
        found = svg.ticks(least * scale, most * scale)
        assert 2 <= len(found) <= 7
        steps = [b - a for a, b in itertools.pairwise(found)]
        assert steps == pytest.approx([steps[0]] * len(steps), rel=1e-3)


def test_the_frame_places_its_corners() -> None:
    assert FRAME.place((0, 0)) == (svg.LEFT, svg.HEIGHT - svg.BOTTOM)
    assert FRAME.place((10, 1)) == (svg.WIDTH - svg.RIGHT, svg.TOP)
    flat = Frame((5, 5), (1, 1), ("", ""))
    assert flat.place((5, 1)) == (svg.LEFT, svg.HEIGHT - svg.BOTTOM)


def test_bars_fill_the_axis_by_their_share() -> None:
    bars = Parsed(svg.histogram("t", [1, 0, 3], (-1, 1), ("", ""), Look(4)))
    found = bars.of_class("bar")
    heights = [float(one["height"] or 0) for one in found]
    assert heights == pytest.approx([heights[2] / 3, 0, heights[2]], abs=0.1)
    assert len({one["width"] for one in found}) == 1
    assert all("colour4" in (one["class"] or "") for one in found)
    nothing = svg.histogram("t", [0], (0, 1), ("", ""), Look(0))
    assert len(Parsed(nothing).of_class("bar")) == 1


def test_a_chart_says_its_values() -> None:
    points = [(float(n), n / 100) for n in range(50)]
    long = Series("long", points, Look(1), marked=False)
    lines = [*many(2), long, Series("empty", [], Look(2))]
    chart = Parsed(svg.line_chart("MAP against bytes", FRAME, lines))
    said = chart.elements[0][1]["aria-label"]
    assert said == (
        "MAP against bytes. method 0: 0.000 at 0, 1.000 at 10; method 1: 0.500 at 0, "
        "1.000 at 10; long: 0.490 at 49; empty: nothing"
    )
    assert len(chart.of_class("line")) == 3


# --- the page -----------------------------------------------------------------------


def test_the_page_parses_and_asks_for_nothing() -> None:
    html = a_page("a name")
    parsed = Parsed(html)
    assert html.startswith("<!DOCTYPE html>")
    assert "url(" not in html
    assert "@import" not in html
    assert not re.search(r"(https?:)?//", re.sub(r'src="data:[^"]*"', "", html))
    for name, attributes in parsed.elements:
        assert name not in {"script", "link", "iframe", "object", "base", "form"}
        assert not {"href", "action", "srcset", "style"} & attributes.keys()
    assert parsed.sources
    assert all(one.startswith("data:image/png") for one in parsed.sources)
    policy = [one for name, one in parsed.elements if "http-equiv" in one]
    assert "default-src 'none'" in (policy[0]["content"] or "")


def test_hostile_names_are_text_everywhere() -> None:
    harmless, hostile = Parsed(a_page("name")), Parsed(a_page(HOSTILE))
    shape = [(name, sorted(given)) for name, given in harmless.elements]
    assert [(name, sorted(given)) for name, given in hostile.elements] == shape
    assert not any("onerror" in given for _, given in hostile.elements)
    assert sum(HOSTILE in one for one in hostile.texts) >= 15
    assert any(HOSTILE in (given["alt"] or "") for given in hostile.images)


def test_sections_have_anchors_and_titles() -> None:
    parsed = Parsed(a_page("a name"))
    assert parsed.ids == ["one", "a name"]
    assert parsed.texts.count("a name") >= 3


def test_markup_is_escaped_once() -> None:
    inner = tag("b", "1 < 2 & 3")
    assert tag("p", inner, " > 0", title='"quoted"') == (
        '<p title="&quot;quoted&quot;"><b>1 &lt; 2 &amp; 3</b> &gt; 0</p>'
    )
    assert not isinstance(inner + "<i>", Markup)


def test_a_table_needs_a_cell_for_each_column() -> None:
    shown = page.table(["method", "MAP"], [["PQ", Range(0.5, 0.25, 0.75)]])
    assert "<span>0.500 <small>0.250 – 0.750</small></span>" in shown
    assert 'data-name="MAP"' in shown
    with pytest.raises(ValueError, match="zip"):
        page.table(["method", "MAP"], [["PQ", "1", "2"]])


# --- pictures -----------------------------------------------------------------------


def test_images_are_inside_and_whole() -> None:
    for channels in (1, 3):
        generator = torch.Generator().manual_seed(0)
        size = (channels, 5, 9)
        pixels = torch.randint(256, size, generator=generator, dtype=torch.uint8)
        source = Parsed(image(pixels, "words")).elements[0][1]["src"] or ""
        read = Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2])))
        assert read.size == (9, 5)
        expected = pixels[0] if channels == 1 else pixels.permute(1, 2, 0)
        assert read.tobytes() == expected.contiguous().numpy().tobytes()
    assert 'class="tiny"' in image(torch.zeros(1, 8, 8, dtype=torch.uint8), "")
    assert "class" not in image(torch.zeros(3, 64, 64, dtype=torch.uint8), "")


def test_wrong_results_are_marked_and_counted() -> None:
    images = torch.zeros(3, 1, 8, 8, dtype=torch.uint8)
    database = Pictures(images, ["cat", "dog", "cat"])
    queries = Pictures(images[:1], ["cat"])
    shown = gallery(queries, database, {"codes": torch.tensor([[0, 1, 2]])}, [0])
    parsed = Parsed(shown)
    assert len(parsed.of_class("wrong")) == 1
    assert "✗ dog" in parsed.texts
    assert "1 wrong" in parsed.texts
    right = gallery(queries, database, {"codes": torch.tensor([[0, 2]])}, [0])
    assert "all right" in Parsed(right).texts


def test_hard_queries_are_one_of_each_class() -> None:
    classes = ["a"] * 10 + ["b"] * 10
    precision = torch.cat([torch.linspace(1, 0.1, 10), torch.linspace(0.1, 1, 10)])
    assert hard_queries(precision, classes) == [9, 10]
    assert hard_queries(precision, classes, harder_than=0.0) == [0, 19]


def test_a_scatter_stays_within_the_picture() -> None:
    rows = gaussian(1300, 5)
    flat = flatten(rows, rows.roll(1, 0))
    drawn = Parsed(scatter("t", flat, list("abcdefghijklm") * 100))
    assert len(drawn.of_class("dot")) == 13
    assert drawn.texts == list("abcdefghijklm")
    dots = "".join(one["d"] or "" for one in drawn.of_class("dot"))
    places = [float(x) for x in re.findall(r"-?[\d.]+(?= |h0)", dots)]
    assert 0 <= min(places) <= max(places) <= svg.WIDTH
    assert 250 <= dots.count("M") <= 700


# --- findings -----------------------------------------------------------------------


def test_only_differences_beyond_the_seeds_are_stated() -> None:
    sides = Contrast("by A", "by B", seeds=3)
    low, high, wide = Range(0.2, 0.1, 0.3), Range(0.6, 0.5, 0.7), Range(0.3, 0.1, 0.6)

    def say(before: float, after: float) -> str:
        return f"{after - before:+.1f}"

    assert sides.sentence("MAP", low, high, say) == (
        "MAP: 0.200 by A, 0.600 by B: +0.4 by B."
    )
    assert "do not tell them apart" in sides.sentence("MAP", low, wide, say)
    alone = sides._replace(seeds=1).sentence("MAP", low, high, say)
    assert alone.endswith("One seed cannot tell a difference from chance.")


def test_curves_are_means_over_runs_where_all_logged() -> None:
    first: list[dict[str, float]] = [
        {"step": 1, "loss": 1.0},
        {"step": 2, "loss": 3.0},
        {"step": 3},
    ]
    second: list[dict[str, float]] = [
        {"step": 2, "loss": 5.0},
        {"step": 4, "loss": 1.0},
    ]
    assert mean_curve([first, second], "loss") == [(2, 4.0)]
    assert mean_curve([first, second], "absent") == []
    assert added_up([first, second], "absent") == []
