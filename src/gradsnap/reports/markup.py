"""Elements of HTML and SVG; whatever is not yet markup is escaped."""

from html import escape

VOID = {"br", "img", "meta"}
"""Elements of HTML that have no end tag."""
CLOSED = {"circle", "path", "rect"}
"""Elements of SVG that hold nothing and close themselves."""


class Markup(str):
    """Text that stands in a page as it is; any other string is escaped first."""

    __slots__ = ()


def markup(*parts: str) -> Markup:
    """The parts one after the other, those that are not markup escaped.

    Example:
        >>> markup(tag("b", "a < b"), " & c")
        '<b>a &lt; b</b> &amp; c'
    """
    return Markup(
        "".join(one if isinstance(one, Markup) else escape(one) for one in parts)
    )


def tag(name: str, /, *parts: str, **attributes: str | float | None) -> Markup:
    """An element with its attributes and what stands in it.

    Args:
        name: of the element.
        parts: markup, or text to escape.
        attributes: ``data_name`` is written ``data-name``, ``class_`` is ``class``;
            fractions get one digit; what is None is left out.

    Example:
        >>> tag("rect", class_="bar", width=2.25, rx=None)
        '<rect class="bar" width="2.2"/>'
    """
    start = name + "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{start}>")
    if name in CLOSED:
        return Markup(f"<{start}/>")
    return Markup(f"<{start}>{markup(*parts)}</{name}>")


def _attribute(value: str | float) -> str:
    return f"{value:.1f}" if isinstance(value, float) else escape(str(value))
