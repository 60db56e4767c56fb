"""``gradsnap train``: from data to a model folder."""

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradsnap.cli.options import AsJson, NetworkFrom, Quiet, Root, SkipBad

if TYPE_CHECKING:
    from gradsnap.training import TrainingConfig

EXAMPLES = """
Examples:

`gradsnap train photos/ --bits 32 --out model` – a folder with a folder for each class

`gradsnap train mnist --root data/MNIST --bits 48 --out model run.steps=3000`

`gradsnap train vectors.npz --coder itq --bits 64 --out model` – hashes instead of codes

`gradsnap train photos/ --pairs pairs.csv --bits 32 --out model` – pairs, not classes

`gradsnap train vectors.npy --triplets triplets.csv --bits 32 --out model`

`gradsnap train photos/ --method dhn --bits 48 --out model` – a deep hashing network

`torchrun --nproc-per-node 2 -m gradsnap train photos/ --out model`

`torchrun --nproc-per-node 4 -m gradsnap train tars/ --out model` – each has some shards

`gradsnap train photos/ --out model --on ray --workers 8` – processes of a cluster
"""


def train(
    source: Annotated[
        str | None,
        typer.Argument(
            help="A folder of classes, a file of vectors, a table, or a name: digits, "
            "mnist, cifar10, nuswide, ilsvrc2012; tar, Parquet or Lance files of "
            "images, or an address, of which each process holds a part.",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            help="Settings as section.key=value; --show-config lists them.",
            show_default=False,
        ),
    ] = None,
    *,
    out: Annotated[
        Path | None, typer.Option(help="The model folder to write.", show_default=False)
    ] = None,
    bits: Annotated[int | None, typer.Option(help="Length of a code.")] = None,
    coder: Annotated[
        str | None,
        typer.Option(help="What makes codes: pq, opq, rvq, aq, …, or a hasher: itq, …"),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="What is learned: snapping, plain, dhn, …")
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            help="Table to learn from in place of labels: a,b,similar (.csv, .parquet)."
        ),
    ] = None,
    triplets: Annotated[
        str | None,
        typer.Option(help="Table to learn from: anchor,positive,negative."),
    ] = None,
    root: Root = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file of settings.")
    ] = None,
    network_from: NetworkFrom = None,
    skip_bad: SkipBad = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write for TensorBoard.")
    ] = False,
    show_config: Annotated[
        bool,
        typer.Option("--show-config", help="Print every setting as TOML, and stop."),
    ] = False,
    beside_plain: Annotated[
        bool,
        typer.Option(
            help="Also train a plain network where that is quick, and one with snapped "
            "codes where codes are scarce, say what their codes would have given, and "
            "keep the best."
        ),
    ] = True,
    on: Annotated[
        str | None,
        typer.Option(
            help="Train over processes on ray, or ray://HOST:PORT.", metavar="RAY"
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes on Ray; one a core or GPU.", min=1)
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Trains a network and its coder, and writes them as a model folder.

    A run that was interrupted goes on where it stood when the same command is given
    again.
    """
    words = [word for word in (source, *(settings or ())) if word is not None]
    _check_words(words, out, config, show_config)  # before torch, which takes seconds
    from gradsnap.training import run_beside_plain, run_training, to_toml

    flags = {
        "data.root": root,
        "data.skip_bad": True if skip_bad else None,
        "data.pairs": pairs,
        "data.triplets": triplets,
        "method.name": method,
        "coder.kind": coder,
        "coder.bits": bits,
    }
    made = _config(config, flags, words)
    if show_config:
        sys.stdout.write(to_toml(made))
        return
    logging.getLogger("gradsnap").setLevel("WARNING" if quiet else "INFO")
    run = run_beside_plain if beside_plain else run_training
    if on is not None or workers is not None:
        run = _run_on(on, workers, beside_plain)
    try:
        model = run(
            made, out or Path(), tensorboard=tensorboard, network_from=network_from
        )
    except KeyboardInterrupt:
        typer.echo("interrupted: the same command goes on from here", err=True)
        raise typer.Exit(130) from None
    if model is not None and (as_json or not quiet):
        _report(model.card, made.coder.bits, out, as_json)


def _run_on(on: str | None, workers: int | None, beside_plain: bool) -> Any:
    """Trains over processes of a Ray cluster; the model is read from its folder."""
    from gradsnap.errors import InputError
    from gradsnap.scale.workers import check_on

    if on is None:
        raise InputError("--workers is for --on ray; torchrun --nproc-per-node N else")
    check_on(on)

    def run(
        config: "TrainingConfig",
        out: Path,
        *,
        tensorboard: bool,
        network_from: str | None,
    ) -> Any:
        from gradsnap.inference.model import load
        from gradsnap.scale.training import Run, train_on_ray
        from gradsnap.training.run import check_free

        check_free(out)
        whole = str(out.resolve())
        more = (tensorboard, network_from, beside_plain)
        train_on_ray(on, Run(config, whole, os.getcwd(), *more), workers)
        return load(out, network_from)

    return run


def _check_words(
    words: list[str], out: Path | None, config: Path | None, only_shown: bool
) -> None:
    """Refuses a command that cannot be carried out, whatever the data are."""
    from gradsnap.errors import InputError

    sources = [word for word in words if not _is_setting(word)]
    if len(sources) > 1:
        raise InputError(f"expected one data set, got {', '.join(sources)}")
    named = sources or any(word.startswith("data.source=") for word in words)
    if not (named or config or only_shown):
        raise InputError("name a data set, such as: gradsnap train digits --out model")
    if out is None and not only_shown:
        raise InputError("name the folder to write: --out model")


def _config(
    file: Path | None, flags: dict[str, Any], words: list[str]
) -> "TrainingConfig":
    """The configuration of file, flags and settings."""
    from gradsnap.training import make_config, read_toml

    sources = [word for word in words if not _is_setting(word)]
    if sources:
        flags = flags | {"data.source": sources[0]}
    tables: dict[str, Any] = {} if file is None else read_toml(file)
    for key, value in flags.items():
        section, _, name = key.partition(".")
        if value is not None:
            tables.setdefault(section, {})[name] = value
    return make_config(tables, [word for word in words if _is_setting(word)])


def _is_setting(text: str) -> bool:
    return "=" in text and not os.path.exists(text)


def _report(card: dict[str, Any], bits: int, out: Path | None, as_json: bool) -> None:
    from gradsnap.cli.output import as_facts, say
    from gradsnap.training.advice import advice

    if as_json:
        say("", card, as_json=True, quiet=False)
        return
    facts = {
        **as_facts(card["figures"], card["figure"], card["title"]),
        **_beside(card),
        **card.get("facts", {}),
        "method": f"{card['method']}: {card['loss']} loss, {card['layer']}",
        "coder": _coder(card, bits),
        "bytes a vector": card["bits"] / 8,
        "queries": card["card"]["queries"],
        "database": card["card"]["database"],
        "protocol": card["protocol"]["name"],
        "split": card["card"]["split_hashes"][0],
        "rules": card["rules"],
        "model folder": str(out),
    }
    title = f"{card['data']}, {card['bits']}-bit codes"
    say(title, facts, as_json=False, quiet=False)
    for sentence in advice(card, bits):
        typer.echo(sentence)


def _coder(card: dict[str, Any], asked: int) -> str:
    """The coder, its codebooks, and the bits where they are fewer than asked for."""
    told = str(card["coder"])
    if "codebook_size" in card:
        told += f", {card['num_codebooks']} x {card['codebook_size']:,} codewords"
    if card["bits"] < asked:
        told += f": {card['bits']} bits, of at most {asked}"
    return told


OTHERS = {
    "plain": "a plain network's codes",
    "snapped": "snapped codes",
    "trained": "codes of the network trained for them",
}
"""What is trained in one command, in words."""

BEFORE = "these codes, trained once"
"""What is kept, as it was compared with the others: without the validation part."""


def _beside(card: dict[str, Any]) -> dict[str, Any]:
    """How the networks of the run did when the best was chosen."""
    beside = card.get("beside", {"figures": {}})
    names = OTHERS | {beside.get("kept", ""): BEFORE}
    return {
        f"{card['title']} of {names[name]}": figures.get(
            f"code_{card['figure']}", "not measured"
        )
        for name, figures in beside["figures"].items()
        if name != beside["kept"] or figures != card["figures"]
    }
