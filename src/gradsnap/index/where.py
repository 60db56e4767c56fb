"""Conditions on metadata: ``label = "cat" and year > 2020`` to a mask over columns.

    condition  = all {"or" all}
    all        = one {"and" one}
    one        = "not" one | "(" condition ")" | test
    test       = column ("=" "!=" "<" "<=" ">" ">=") value
               | column ["not"] "in" "(" value {"," value} ")"
               | column ["not"] ("like" | "contains") text
               | column "is" ["not"] "null"

A column is a word, or anything between backquotes. A value is a number, ``true``,
``false``, or a text in single or double quotes. Nothing of it is ever run as Python.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gradsnap.errors import InputError
from gradsnap.index.comparing import LISTED, contained, fits, is_like, missing

Mask = NDArray[np.bool_]
Value = str | float | int | bool

LONGEST = 10_000
"""Letters of a condition."""
DEEPEST = 50
"""Brackets and ``not`` within each other."""
FLOAT_DIGITS = 308
"""A longer whole number is compared as infinity."""

TOKENS = re.compile(
    r"""\s*(?:
      (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w))
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<quoted>`[^`]+`)
    | (?P<sign>==|<>|!=|<=|>=|[=<>(),])
    | (?P<word>[^\W\d][\w.]*)
    )""",
    re.VERBOSE | re.DOTALL,
)
WORDS = {"and", "or", "not", "in", "like", "contains", "is", "null", "true", "false"}
SIGNS = {"==": "=", "<>": "!="}
ORDER = ("=", "!=", "<", "<=", ">", ">=")


class Condition(Protocol):
    """What items must fulfil."""

    def mask(self, columns: Mapping[str, Any]) -> Mask:
        """Which of n items do, bool (n,), by pyarrow columns of n values."""
        ...

    def names(self) -> Iterator[str]:
        """The columns it asks for."""
        ...


@dataclass(frozen=True)
class Test:
    """One column and one value, or several."""

    __test__ = False  # for pytest: not a test of ours
    column: str
    sign: str
    """One of ``ORDER``, or in, like, contains, null."""
    value: Any

    def mask(self, columns: Mapping[str, Any]) -> Mask:
        """An item without a value fits nothing but ``is null``."""
        column = columns[self.column]
        if self.sign == "null":
            return missing(column)
        if self.sign in LISTED:
            return contained(column, self.value, self.column)
        if self.sign in ("like", "contains"):
            return is_like(column, self.sign, self.value, self.column)
        return fits(column, self.sign, self.value, self.column)

    def names(self) -> Iterator[str]:
        """The column."""
        yield self.column


@dataclass(frozen=True)
class Not:
    """All items that do not fulfil a condition."""

    inner: Condition

    def mask(self, columns: Mapping[str, Any]) -> Mask:
        """The others."""
        return ~self.inner.mask(columns)

    def names(self) -> Iterator[str]:
        """Those of the condition."""
        yield from self.inner.names()


@dataclass(frozen=True)
class Joined:
    """Several conditions, of which all or any must be fulfilled."""

    parts: tuple[Condition, ...]
    every: bool

    def mask(self, columns: Mapping[str, Any]) -> Mask:
        """The masks of the parts, joined."""
        masks = [part.mask(columns) for part in self.parts]
        join = np.logical_and if self.every else np.logical_or
        return np.asarray(join.reduce(masks))

    def names(self) -> Iterator[str]:
        """Those of all parts."""
        for part in self.parts:
            yield from part.names()


def parse(text: str) -> Condition:
    """The condition a text says.

    Raises:
        InputError: it cannot be read; the message says where.

    Example:
        >>> sorted(set(parse('label = "cat" and not (year > 2020)').names()))
        ['label', 'year']
    """
    if len(text) > LONGEST:
        raise InputError(f"a condition has at most {LONGEST} letters, got {len(text)}")
    return _Reader(text).whole()


def check_columns(condition: Condition, known: Collection[str]) -> None:
    """Refuses a condition on columns that are not there, and names those that are."""
    for name in condition.names():
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f", did you mean {near[0]}?" if near else ";"
            raise InputError(
                f"there is no column {name!r} to filter by{hint} the columns are "
                f"{', '.join(known)}"
            )


class _Token(NamedTuple):
    kind: str
    """number, text, quoted, sign, word, keyword or end."""
    text: str
    at: int


class _Reader:
    """Reads tokens one after the other."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [*_tokens(text), _Token("end", "", len(text))]
        self.place = 0
        self.depth = 0

    def whole(self) -> Condition:
        condition = self._any()
        if self._next.kind != "end":
            raise self._wrong("and, or, or the end")
        return condition

    @property
    def _next(self) -> _Token:
        return self.tokens[self.place]

    def _take(self, *texts: str) -> bool:
        """Goes on if the next token is one of these signs or keywords."""
        found = self._next.kind in ("sign", "keyword") and self._next.text in texts
        self.place += found
        return found

    def _any(self) -> Condition:
        parts = [self._all()]
        while self._take("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Joined(tuple(parts), every=False)

    def _all(self) -> Condition:
        parts = [self._one()]
        while self._take("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else Joined(tuple(parts), every=True)

    def _one(self) -> Condition:
        self.depth += 1
        if self.depth > DEEPEST:
            raise InputError(
                f"a condition has at most {DEEPEST} brackets in each other"
            )
        condition = self._inner()
        self.depth -= 1
        return condition

    def _inner(self) -> Condition:
        if self._take("not"):
            return Not(self._one())
        if self._take("("):
            condition = self._any()
            self._need(")")
            return condition
        return self._test()

    def _test(self) -> Condition:
        token = self._next
        if token.kind not in ("word", "quoted"):
            raise self._wrong("the name of a column")
        self.place += 1
        name = token.text
        if self._take("is"):
            negated = self._take("not")
            self._need("null")
            found: Condition = Test(name, "null", None)
            return Not(found) if negated else found
        negated = self._take("not")
        found = self._listed(name) if negated else self._compared(name)
        return Not(found) if negated else found

    def _compared(self, name: str) -> Condition:
        sign = self._next.text
        if self._take(*ORDER):
            return Test(name, sign, self._value())
        return self._listed(name)

    def _listed(self, name: str) -> Condition:
        sign = self._next.text
        if self._take("like", "contains"):
            return Test(name, sign, str(self._value()))
        if not self._take("in"):
            raise self._wrong("=, !=, <, <=, >, >=, in, like, contains or is null")
        self._need("(")
        values = [self._value()]
        while self._take(","):
            values.append(self._value())
        self._need(")")
        return Test(name, "in", tuple(values))

    def _value(self) -> Value:
        token = self._next
        self.place += 1
        if token.kind == "number":
            return _number(token.text)
        if token.kind == "text":
            return token.text
        if token.kind == "keyword" and token.text in ("true", "false"):
            return token.text == "true"
        self.place -= 1
        quoted = f', such as "{token.text}"' if token.kind == "word" else ""
        raise self._wrong(f"a number, or text in quotes{quoted}")

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise self._wrong(text)

    def _wrong(self, expected: str) -> InputError:
        token = self._next
        got = "it ends" if token.kind == "end" else f"got {token.text!r}"
        return InputError(
            f"cannot read the condition {self.text!r}: expected {expected} at letter "
            f"{token.at + 1}, {got}"
        )


def _number(text: str) -> float:
    """A whole number as such, but for one longer than any float."""
    whole = text.lstrip("+-").isdecimal() and len(text) <= FLOAT_DIGITS
    return int(text) if whole else float(text)


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while text[at:].strip():
        found = TOKENS.match(text, at)
        if found is None or found.lastgroup is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise InputError(
                f"cannot read the condition {text!r} from letter {start + 1} on: "
                f"{text[start : start + 20]!r}"
            )
        kind, at = found.lastgroup, found.end()
        yield _token(kind, found[kind], found.start(kind))


def _token(kind: str, text: str, at: int) -> _Token:
    if kind == "text":
        return _Token(kind, re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL), at)
    if kind == "quoted":
        return _Token(kind, text[1:-1], at)
    if kind == "word" and text.lower() in WORDS:
        return _Token("keyword", text.lower(), at)
    return _Token(kind, SIGNS.get(text, text), at)
