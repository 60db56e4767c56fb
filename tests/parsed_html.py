"""HTML for tests: well formed, and what it is made of."""

from html.parser import HTMLParser

from gradsnap.reports.markup import CLOSED, VOID


class Parsed(HTMLParser):
    """Refuses tags that are not closed in order; collects elements and texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        assert tag in CLOSED
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.texts.append(data)

    def of_class(self, name: str) -> list[dict[str, str | None]]:
        return [
            attributes
            for _, attributes in self.elements
            if name in (attributes.get("class") or "").split()
        ]

    @property
    def ids(self) -> list[str | None]:
        return [given["id"] for _, given in self.elements if "id" in given]

    @property
    def images(self) -> list[dict[str, str | None]]:
        return [given for name, given in self.elements if name == "img"]

    @property
    def sources(self) -> list[str]:
        """Everything the page refers to."""
        pairs = [pair for _, given in self.elements for pair in given.items()]
        return [value or "" for key, value in pairs if key in ("src", "href")]
