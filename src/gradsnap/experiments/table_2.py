"""Table 2: the methods by their parts, as the registry has them."""

from collections.abc import Callable, Mapping
from functools import partial

from gradsnap.coders import CODERS, Hasher
from gradsnap.experiments.bench import Bench
from gradsnap.experiments.paper import table_2 as paper
from gradsnap.experiments.paper.systems import SYSTEMS, system_of
from gradsnap.experiments.plan import Experiment, Plan, Request
from gradsnap.experiments.results import Axes, Cell
from gradsnap.methods import METHODS, Recipe, every_loss, every_regularizer
from gradsnap.methods.method import Part
from gradsnap.registry import chosen

COLUMNS = ("loss", "regularization", "search")


def plan(bench: Bench, request: Request) -> Plan:
    """A row for every method; nothing is run."""
    names = request.methods or tuple(METHODS)
    recipes = {name: chosen(METHODS, name, "method") for name in names}
    cells = [cell for name in names for cell in _row(name, recipes[name])]
    met = {system_of(name) for name in names}
    for system, parts in paper.PARTS.items():
        if not met.intersection((system, *_variants(system))):
            cells += _cells(f"({system})", system, parts, ("", "", ""))
    notes = [*paper.NOTES, "In brackets: systems of the paper that are not registered."]
    return Plan([], Axes("", ""), None, "", notes, cells)


def parts_of(name: str, recipe: Recipe) -> tuple[str, str, str]:
    """Loss, regularization and search of a method, in words of the registry.

    Example:
        >>> _, _, search = parts_of("dhn", METHODS["dhn"])
        >>> search
        'sign, Hamming'
    """
    loss = _told(name, recipe.loss, every_loss())
    terms = []
    if recipe.regularizer != "none":
        terms.append(_told(name, recipe.regularizer, every_regularizer()))
    layer = recipe.layer_for(CODERS[recipe.coder])
    if layer != "plain":
        terms.append(f"layer {layer}")
    return (
        loss,
        "; ".join(terms) or "none",
        f"{recipe.coder}, {search_of(recipe.coder)}",
    )


def search_of(kind: str) -> str:
    """How codes of a coder are compared with a query.

    >>> search_of("pq"), search_of("weighted")
    ('ADC', 'weighted Hamming')
    """
    coder = CODERS[kind].of_bits(16, 16)
    if coder.hamming_levels is not None:
        return "Hamming"
    return "weighted Hamming" if isinstance(coder, Hasher) else "ADC"


def _row(name: str, recipe: Recipe) -> list[Cell]:
    system = system_of(name)
    theirs = [
        paper.PARTS[one] for one in (system, *_roots(system)) if one in paper.PARTS
    ]
    published = theirs[0] if theirs else paper.Parts("", "", "")
    return _cells(name, system, published, parts_of(name, recipe))


def _cells(
    row: str, system: str, theirs: paper.Parts, ours: tuple[str, str, str]
) -> list[Cell]:
    columns = zip(COLUMNS, theirs, ours, strict=True)
    return [
        Cell(row, column, (), None, system, published, {}, words or "–")
        for column, published, words in columns
    ]


def _variants(system: str) -> list[str]:
    """Systems that are variants of this one: CNNH* of CNNH."""
    return [one for one in SYSTEMS if system in _roots(one)]


def _roots(system: str) -> list[str]:
    return [system.removesuffix("*")] if system.endswith("*") else []


def _told(name: str, part: Part, registry: Mapping[str, Callable[..., object]]) -> str:
    """A part by its name and the first line of its documentation."""
    known = part if isinstance(part, str) else name
    builder = registry[part] if isinstance(part, str) else part
    if isinstance(builder, partial):  # whose own documentation is Python's
        builder = builder.func
    return f"{known}: {(builder.__doc__ or '').splitlines()[0].rstrip('.')}"


EXPERIMENT = Experiment(
    "table-2",
    "the methods by their parts: loss, regularization, search; nothing is run",
    paper.LABEL,
    "cifar10",
    plan,
    trains=False,
)
