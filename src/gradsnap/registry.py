"""One way to build a part by its name: a loss, network, layer, coder or selector."""

import difflib
import inspect
import types
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from numbers import Integral, Real
from typing import Literal, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints

from gradsnap.errors import InputError

T = TypeVar("T")
Parameters = dict[str, inspect.Parameter]

BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def chosen(
    registry: Mapping[str, T], name: str, what: str, also: Iterable[str] = ()
) -> T:
    """What the registry holds under that name.

    Args:
        registry: the parts by their short names.
        name: the wanted one.
        what: kind of part, for the error: "loss", "network".
        also: further choices for the error to name.

    Raises:
        InputError: there is none; the message names those there are.
    """
    if name in registry:
        return registry[name]
    near = difflib.get_close_matches(name, registry, n=1)
    raise InputError(
        f"unknown {what} {name!r}; choose one of {', '.join([*registry, *also])}"
        + (f" (did you mean {near[0]!r}?)" if near else "")
    )


def options_of(builder: Callable[..., object]) -> list[str]:
    """The names that a class or function takes as keywords, in order.

    Behind ``**common: Unpack[SomeTypedDict]`` stand the keys of that dictionary; behind
    a bare ``**common`` of a class, the options of its parents. A bare ``**`` of a
    function names nothing, so it counts for nothing.

    Example:
        >>> def halve(value: int, exactly: bool = True) -> float: ...
        >>> options_of(halve)
        ['value', 'exactly']
    """
    return list(_parameters(builder))


def build(
    registry: Mapping[str, Callable[..., T]],
    name: str,
    what: str,
    sizes: Mapping[str, object],
    options: Mapping[str, object],
) -> T:
    """Calls what the registry holds under that name.

    Args:
        registry: classes or functions by their short names.
        name: the wanted one.
        what: kind of part, for errors: "loss", "network".
        sizes: what the surroundings know, such as ``dim`` or ``seed``; each part gets
            those it takes.
        options: what the user chose; wins over sizes. Lists, which files hold, become
            the tuples that constructors take.

    Raises:
        InputError: the name, an option or the value of an option cannot be used.
    """
    builder = chosen(registry, name, what)
    part = f"{what} {name!r}"
    given = {key: as_tuple(value) for key, value in options.items()}
    known = _parameters(builder)
    _check_names(part, known, sizes, given)
    _check_values(part, known, given)
    fitting = {key: value for key, value in sizes.items() if key in known}
    try:
        return builder(**(fitting | given))
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        shown = ", ".join(f"{key}={value!r}" for key, value in given.items())
        raise InputError(
            f"cannot build the {part} with {shown or 'no options'}: {error}"
        ) from error


def check_options(
    builder: Callable[..., object],
    part: str,
    options: Mapping[str, object],
    sizes: Container[str] = (),
) -> None:
    """Refuses options that a builder does not have, or values of another type.

    Args:
        builder: a class or function.
        part: what it is, for the error: "coder 'pq'".
        options: what the user chose.
        sizes: names that the surroundings give, which are no options.
    """
    known = {k: one for k, one in _parameters(builder).items() if k not in sizes}
    _check_names(part, known, sizes, options)
    _check_values(part, known, options)


def as_tuple(value: object) -> object:
    """The value, or the tuple of a list; also of lists within it.

    >>> as_tuple([1, [2, 3]])
    (1, (2, 3))
    """
    return tuple(map(as_tuple, value)) if isinstance(value, list) else value


def _check_names(
    part: str, known: Parameters, sizes: Container[str], given: Collection[str]
) -> None:
    own = [key for key in known if key not in sizes]
    there_are = f"it has {', '.join(own) or 'none'}"
    unknown = [key for key in given if key not in known]
    if unknown:
        near = difflib.get_close_matches(unknown[0], own, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise InputError(
            f"the {part} has no option {', '.join(unknown)}; {there_are}{hint}"
        )
    needed = [key for key in own if known[key].default is inspect.Parameter.empty]
    missing = [key for key in needed if key not in given]
    if missing:
        raise InputError(
            f"the {part} needs the option {', '.join(missing)}; {there_are}"
        )


def _check_values(part: str, known: Parameters, given: Mapping[str, object]) -> None:
    for key, value in given.items():
        wanted = known[key].annotation
        if not _fits(value, wanted):
            raise InputError(
                f"the option {key} of the {part} must be {_readable(wanted)}, "
                f"got {value!r}"
            )
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise InputError(
                f"the option {key} of the {part} must fit into 64 bits, got {value}"
            )


def _parameters(builder: Callable[..., object]) -> Parameters:
    """What a builder takes by name, inherited options included."""
    found: Parameters = {}
    for function in _constructors(builder):
        own = list(inspect.signature(function).parameters.values())
        named = [one for one in own if one.kind in BY_NAME]
        rest = [one for one in own if one.kind is one.VAR_KEYWORD]
        for one in [*named, *_unpacked(rest)]:
            found.setdefault(one.name, one)
        if not rest or get_origin(rest[0].annotation) is Unpack:
            break
    found.pop("self", None)
    return found


def _constructors(builder: Callable[..., object]) -> list[Callable[..., object]]:
    """A function alone, or the constructors of a class and its parents, in order."""
    if not isinstance(builder, type):
        return [builder]
    own = [vars(one)["__init__"] for one in builder.__mro__ if "__init__" in vars(one)]
    return [one for one in own if one is not object.__init__]


def _unpacked(rest: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """The keys of the typed dictionary behind ``**``, as options with a default."""
    if not rest or get_origin(rest[0].annotation) is not Unpack:
        return []
    (keys,) = get_args(rest[0].annotation)
    return [
        inspect.Parameter(
            key, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind
        )
        for key, kind in get_type_hints(keys).items()
    ]


def _fits(value: object, wanted: object) -> bool:
    """Whether a value is of an annotated type; true of types that are not simple."""
    kind, inner = get_origin(wanted), get_args(wanted)
    if kind in (Union, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if kind is Literal:
        return value in inner
    if kind is tuple and inner[1:] == (...,):
        return isinstance(value, tuple) and all(_fits(one, inner[0]) for one in value)
    if wanted in (int, float):
        number = Integral if wanted is int else Real
        return isinstance(value, number) and not isinstance(value, bool)
    if wanted in (str, bool):
        return isinstance(value, wanted)
    return value is None if wanted in (None, types.NoneType) else True


def _readable(wanted: object) -> str:
    """An annotation as it is written.

    >>> _readable(int), _readable(str | None), _readable(tuple[int, ...])
    ('int', 'str | None', 'tuple[int, ...]')
    """
    is_plain = isinstance(wanted, type) and not get_args(wanted)
    return inspect.formatannotation(wanted) if is_plain else str(wanted)


def default_options(builder: Callable[..., object]) -> dict[str, object]:
    """The options a builder has a default for, with those defaults.

    >>> def halve(value: int, exactly: bool = True) -> float: ...
    >>> default_options(halve)
    {'exactly': True}
    """
    known = inspect.signature(builder).parameters.values()
    return {
        one.name: one.default
        for one in known
        if one.kind in BY_NAME and one.default is not inspect.Parameter.empty
    }
