"""``gradsnap evaluate``: how well a model ranks, with its protocol card."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradsnap.cli.options import AsJson, NetworkFrom, On, Quiet, Root

if TYPE_CHECKING:
    from torch import Tensor

    from gradsnap.data import Dataset
    from gradsnap.evaluation import RankingRules, Run
    from gradsnap.inference.model import Model
    from gradsnap.training.defaults import Settled
    from gradsnap.training.scoring import Scores

    Score = Callable[[Model, Settled, RankingRules], Scores]

EXAMPLES = """
Examples:

`gradsnap evaluate model` – the data and split it was trained with

`gradsnap evaluate model --root /elsewhere/MNIST --length 1000 --divisor found --json`

`gradsnap evaluate model --on ray` – embedded and ranked by a worker a core
"""


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for JSON, CSV and plots; MODEL/evaluation if not."),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="The data, if they were moved.")
    ] = None,
    root: Root = None,
    pairs: Annotated[
        str | None, typer.Option(help="Its table of pairs, if that was moved.")
    ] = None,
    triplets: Annotated[
        str | None, typer.Option(help="Its table of triplets, if that was moved.")
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(help="Results that count; the protocol's if not given."),
    ] = None,
    divisor: Annotated[
        str, typer.Option(help="AP is divided by the items relevant, or found.")
    ] = "relevant",
    no_hit: Annotated[
        str, typer.Option(help="A query without a hit counts zero, or skip it.")
    ] = "zero",
    on: On = None,
    workers: Annotated[
        int,
        typer.Option(help="Processes that decode images; with --on, workers in all."),
    ] = 0,
    network_from: NetworkFrom = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Scores floats and codes on the test queries, and writes what compare reads.

    Prints every choice a figure rests on: the split, the counts, the length of the
    ranking, the divisor, queries without a hit, ties. A model that was trained with
    pairs or triplets is scored on those that were held out.
    """
    from gradsnap.cli.output import say
    from gradsnap.errors import InputError
    from gradsnap.inference.model import load
    from gradsnap.training.by_labels import ByLabels

    opened = load(model, network_from)
    places = {"source": source, "root": root, "workers": workers}
    places |= {"pairs": pairs, "triplets": triplets}
    folder = out or model / "evaluation"
    known = _known(opened, places)
    if on is not None and not isinstance(known.supervision, ByLabels):
        raise InputError("--on is for models that were trained with labels")
    if not isinstance(known.supervision, ByLabels):
        facts = _figures(opened, known, folder)
        say(known.dataset.name, facts, as_json=as_json, quiet=quiet)
        return
    rules = _rules(known.config.data.protocol, (length, divisor, no_hit))
    with _scorer(model, (on, workers), network_from) as score:
        runs, error = _runs(opened, model.name, known, rules, score)
    _write(runs, folder)
    facts = {}
    for run in runs:
        found = run.evaluations[0]
        low, high = found.interval()
        facts[f"MAP of {run.name}"] = found.map
        facts[f"95 % over queries, {run.name}"] = f"{low:.4f} to {high:.4f}"
    if error is not None:
        facts["relative quantization error"] = error
    facts["rules"] = str(runs[0].card.rules)
    facts |= {"card": runs[-1].card.record()} if as_json else _card(runs[-1])
    facts["written to"] = str(folder)
    say(f"{runs[0].card.dataset}", facts, as_json=as_json, quiet=quiet)


def _known(model: "Model", places: dict[str, Any]) -> "Settled":
    """What the model was trained with, its data where the places say."""
    from gradsnap.errors import InputError
    from gradsnap.training.defaults import Settled
    from gradsnap.training.former import read_config
    from gradsnap.training.opening import open_items
    from gradsnap.training.settings import changed
    from gradsnap.training.supervision import supervision_of

    if model.folder is None:
        raise InputError("a coder's file alone has no data to score by: give a model")
    trained = read_config(model.folder)
    given = {key: value for key, value in places.items() if value is not None}
    config = changed(trained, data=given)
    _check_source(config.data.source, "source" in given)
    dataset = open_items(config.data)
    supervision = supervision_of(dataset, config.data)
    return Settled(config, dataset, supervision.split(config.data), supervision)


def _check_source(source: str, is_given: bool) -> None:
    """Refuses data that are not where the training found them, and says what to do."""
    from gradsnap.data import DATASETS
    from gradsnap.errors import InputError

    known = source in DATASETS or "://" in source or Path(source).exists()
    if not is_given and not known:
        raise InputError(
            f"the model was trained on {source}, which is not there from here: say "
            "where it is with --source"
        )


def _figures(model: "Model", known: "Settled", folder: Path) -> dict[str, Any]:
    """Figures of a model without labels, also written to a file."""
    import json

    from gradsnap.cli.output import as_facts
    from gradsnap.files import make_folder, write_text

    config, dataset, split, told = known
    supervision = told.looking_at(_seen(model, known))
    workers = config.data.workers

    def embed(indices: "Tensor") -> "Tensor":
        rows = model.embed(dataset, indices=indices, workers=workers)
        return rows.to(model.coder.fitted.device)

    figures = supervision.score(model.coder, embed, split.queries, split.database)
    card = supervision.card(config, split, model.coder.bits)
    make_folder(folder)
    text = json.dumps({"figures": figures, **card}, indent=2)
    write_text(folder / "figures.json", text + "\n")
    facts = as_facts(figures, supervision.figure, supervision.title)
    facts |= card.get("facts", {}) | {"rules": card["rules"]} | card["card"]
    return facts | {"written to": str(folder)}


def _seen(model: "Model", known: "Settled") -> "Dataset":
    """The items as training looked at them: the outputs of a trunk that it kept."""
    from gradsnap.inference.trunk import (
        trunk_file,
        with_trunk_outputs,
        write_trunk_outputs,
    )
    from gradsnap.networks import Network
    from gradsnap.training.learner import trunk_is_kept

    config, dataset, network = known.config, known.dataset, model.network
    kept = config.network.start == "kept-axes" and trunk_is_kept(config)
    if not kept or not isinstance(network, Network) or model.folder is None:
        return dataset
    folder = Path(config.data.cache or model.folder / "cache")
    path = trunk_file(dataset, network, folder)
    engine, workers = config.network.engine, config.data.workers
    write_trunk_outputs(dataset, network, path, workers, engine)
    return with_trunk_outputs(dataset, path)


def _runs(
    model: "Model",
    name: str,
    known: "Settled",
    rules: "RankingRules",
    score: "Score",
) -> tuple[list["Run"], float | None]:
    """The runs of floats and of codes, and the relative quantization error."""
    from gradsnap.evaluation import Run
    from gradsnap.training.scoring import protocol_card

    config, dataset, split, _ = known
    scores = score(model, known, rules)
    found = {"floats": scores.floats, "codes": scores.codes}
    lengths = {"floats": None, "codes": model.coder.bits}
    cards = {
        kind: protocol_card(config, dataset.name, split, rules, bits)
        for kind, bits in lengths.items()
    }
    runs = [Run(f"{name} {kind}", cards[kind], (found[kind],)) for kind in found]
    return runs, scores.relative_error


@contextlib.contextmanager
def _scorer(
    folder: Path, where: tuple[str | None, int], network_from: str | None
) -> "Iterator[Score]":
    """What embeds and ranks: this process, or workers on Ray."""
    from gradsnap.scale.workers import check_on

    on, count = where
    check_on(on)
    if on is None:
        yield _scored_here
        return
    from gradsnap.scale.evaluating import score_on
    from gradsnap.scale.packed_model import PackedModel
    from gradsnap.scale.ray_cluster import workers_on

    packed = PackedModel.of(folder, network_from)
    with workers_on(on, count or None) as workers:
        yield lambda model, known, rules: score_on(workers, packed, known, rules)


def _scored_here(model: "Model", known: "Settled", rules: "RankingRules") -> "Scores":
    from gradsnap.errors import InputError
    from gradsnap.training.scoring import Labelled, score

    config, dataset, split, _ = known
    labels = dataset.labels
    if labels is None:
        raise InputError(f"{dataset.name} has no labels to score by")
    options = {"workers": config.data.workers}
    queries, database = (
        Labelled(model.embed(dataset, indices=part, **options), labels[part])
        for part in (split.queries, split.database)
    )
    return score(model.coder, queries, database, rules)


def _rules(
    protocol: str | None, choices: tuple[int | None, str, str]
) -> "RankingRules":
    from gradsnap.evaluation import RankingRules
    from gradsnap.training.scoring import rules_of

    length, divisor, no_hit = choices
    own = rules_of(protocol).length
    return RankingRules(length or own, divisor, no_hit)  # type: ignore[arg-type]


def _write(runs: list["Run"], folder: Path) -> None:
    """JSON and CSV of each run, and both in one plot where matplotlib is."""
    import importlib.util

    from gradsnap.evaluation import plot_precision_at, plot_precision_recall
    from gradsnap.files import make_folder

    make_folder(folder)
    for run in runs:
        kind = run.name.rpartition(" ")[2]
        run.save(folder / f"{kind}.json")
        run.save_curves(folder / f"{kind}.csv")
    if importlib.util.find_spec("matplotlib") is not None:
        plot_precision_at(runs, folder / "precision_at.png")
        plot_precision_recall(runs, folder / "precision_recall.png")


def _card(run: "Run") -> dict[str, Any]:
    shown = ("queries", "training", "database", "training_in_database", "split_hashes")
    return {name: run.card.record()[name] for name in shown}
