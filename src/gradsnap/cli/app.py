"""The program: its verbs, and what becomes of an error."""

import functools
import os
from collections.abc import Callable
from typing import Annotated, Any

import typer

from gradsnap.cli import (
    compact,
    compare,
    demo,
    duplicates,
    encode,
    evaluate,
    export,
    index,
    info,
    plan,
    remove,
    reproduce,
    search,
    serve,
    sync,
    train,
    tune,
    update,
)

Verb = Callable[..., None]


def _quietly(verb: Verb) -> Verb:
    """The verb, drawing no progress bars where it is told ``--quiet``."""

    @functools.wraps(verb)
    def run(*arguments: Any, **options: Any) -> None:
        from gradsnap.cli.ending import ending
        from gradsnap.progress import silenced

        with ending(), silenced(bool(options.get("quiet"))):
            verb(*arguments, **options)

    return run


app = typer.Typer(
    name="gradsnap",
    help="Learn embeddings that survive quantization, then search them by short codes.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("demo", epilog=demo.EXAMPLES)(_quietly(demo.demo))
app.command("train", epilog=train.EXAMPLES)(_quietly(train.train))
app.command("tune", epilog=tune.EXAMPLES)(_quietly(tune.tune))
app.command("evaluate", epilog=evaluate.EXAMPLES)(_quietly(evaluate.evaluate))
app.command("compare", epilog=compare.EXAMPLES)(_quietly(compare.compare))
app.command("reproduce", epilog=reproduce.EXAMPLES)(_quietly(reproduce.reproduce))
app.command("encode", epilog=encode.EXAMPLES)(_quietly(encode.encode))
app.command("index", epilog=index.EXAMPLES)(_quietly(index.index))
app.command("search", epilog=search.EXAMPLES)(_quietly(search.search))
app.command("serve", epilog=serve.EXAMPLES)(serve.serve)
app.command("sync", epilog=sync.EXAMPLES)(_quietly(sync.sync))
app.command("remove", epilog=remove.EXAMPLES)(_quietly(remove.remove))
app.command("update", epilog=update.EXAMPLES)(_quietly(update.update))
app.command("duplicates", epilog=duplicates.EXAMPLES)(_quietly(duplicates.duplicates))
app.command("compact", epilog=compact.EXAMPLES)(_quietly(compact.compact))
app.command("plan", epilog=plan.EXAMPLES)(_quietly(plan.plan))
app.command("export", epilog=export.EXAMPLES)(_quietly(export.export))
app.command("info", epilog=info.EXAMPLES)(_quietly(info.info))


def _version(asked: bool) -> None:
    if asked:
        from gradsnap import __version__

        typer.echo(f"gradsnap {__version__}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Learn embeddings that survive quantization, then search them by short codes."""


def main() -> None:
    """Runs the program; an error of ours is one sentence, not a traceback.

    Exit codes: 0 done, 1 an error, 2 a command that cannot be read, 130 interrupted,
    141 nobody reads the output any more. See docs/reliability.md.
    """
    from gradsnap.cli.ending import Ended, begin, explain, stop
    from gradsnap.errors import GradsnapError
    from gradsnap.memory import keep_freed_memory

    # before torch is loaded: idle threads would spin, and slow down all that is busy
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    keep_freed_memory()
    try:
        begin()
        app()
    except Ended as end:
        stop(end.sentence, end.code)
    except KeyboardInterrupt:
        stop("interrupted", 130)
    except SystemExit as end:  # typer's or rich's, where no verb had begun
        explain(end)
        raise
    except (GradsnapError, OSError) as error:
        stop(f"error: {error}", 1)
    except (ImportError, MemoryError, RuntimeError) as error:
        if not _lacks_memory(error):
            raise
        first = (str(error).splitlines() or ["none left"])[0]
        stop(f"error: not enough memory for this ({first})", 1)


OUT_OF_MEMORY = (
    "can't allocate memory",
    "out of memory",
    "storage size calculation",
    "can't start new thread",
    "failed to map segment",
    "cannot allocate memory",
    "std::bad_alloc",
)
"""How torch, Python and the loader of libraries say that memory cannot be had."""


def _lacks_memory(error: Exception) -> bool:
    """Whether it is what libraries say where memory cannot be had."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or any(
        known in words for known in OUT_OF_MEMORY
    )
