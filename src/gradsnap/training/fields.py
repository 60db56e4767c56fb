"""Kinds of settings: what a field may be, and how it says so."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from gradsnap.data.dataset import MOST_WORKERS

Options = dict[str, Any]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1, lt=2**63)]
Length = Annotated[int, Field(ge=1, le=2**20)]
Side = Annotated[int, Field(ge=1, le=2**14)]
Number = Annotated[int, Field(ge=0, lt=2**63)]
Workers = Annotated[int, Field(ge=0, le=MOST_WORKERS)]
AtLeastZero = Annotated[float, Field(ge=0, le=1e30)]
Factor = Annotated[float, Field(ge=0, le=1e6)]
"""What a rate is multiplied by: the product fits into the numbers of a network."""


def one_of(choices: Iterable[str] | Callable[[], Iterable[str]]) -> AfterValidator:
    """Refuses a word, or one of several, that is not among the choices.

    Asked for anew at each check, so that a part that a program of yours registers is a
    choice too.
    """

    def check(value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        known = tuple(choices() if callable(choices) else choices)
        for word in (value,) if isinstance(value, str) else value:
            if word not in known:
                raise ValueError(f"cannot be {word!r}; choose from {', '.join(known)}")
        return value

    return AfterValidator(check)


def _split_words(value: object) -> object:
    """``flip,crop`` from a command line, and lists from TOML, as tuples."""
    if isinstance(value, str):
        return tuple(word for word in value.split(",") if word)
    return tuple(value) if isinstance(value, list) else value


SeveralWords = BeforeValidator(_split_words)


class Section(BaseModel):
    """A table of settings; nothing is guessed from a value of another type."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False
    )


def setting(about: str, default: Any = None, **more: Any) -> Any:
    """A field with its documentation."""
    return Field(default=default, description=about, **more)


def own_options(about: str) -> Any:
    """A field that is a table of options, empty by default."""
    factory: Callable[[], Options] = dict
    return Field(default_factory=factory, description=about)
