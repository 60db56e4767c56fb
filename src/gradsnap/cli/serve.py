"""``gradsnap serve``: a search page and an API over indexes."""

from pathlib import Path
from typing import Annotated

import typer

from gradsnap.cli.options import NetworkFrom

EXAMPLES = """
Examples:

`gradsnap serve photos.index` – then open http://127.0.0.1:8000

`gradsnap serve cats=a.index dogs=b.index --port 9000` – several, by name

`gradsnap serve photos.lance` – a table; `gradsnap serve big.index --on ray` – shards

`gradsnap serve photos.index --host 0.0.0.0 --token-file token` – for other machines
"""


def serve(
    indexes: Annotated[
        list[str],
        typer.Argument(
            help="Index folders, folders of shards, .lance tables; or NAME=FOLDER.",
            metavar="INDEX...",
        ),
    ],
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)
    ] = 8000,
    token_file: Annotated[
        Path | None, typer.Option(help="File of the token every request must show.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Let other machines ask without a token.")
    ] = False,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="A host name the server is reached by."),
    ] = None,
    writable: Annotated[
        bool, typer.Option("--writable", help="Let items be added and removed.")
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="The model folder, if it was moved.")
    ] = None,
    root: Annotated[
        str | None, typer.Option(help="The folder of the images, if it was moved.")
    ] = None,
    queue: Annotated[
        int, typer.Option(help="Queries that may wait before 429.", min=1)
    ] = 1024,
    window: Annotated[
        float,
        typer.Option(help="Milliseconds a batch waits for more.", min=0, max=1000),
    ] = 2.0,
    upload_mib: Annotated[
        int, typer.Option("--upload-mib", help="Largest body, in MiB.", min=1)
    ] = 20,
    seconds: Annotated[
        float, typer.Option(help="Longest time of a request.", min=0.1)
    ] = 30.0,
    on: Annotated[
        str | None,
        typer.Option(help="Search shards on ray, or ray://HOST:PORT.", metavar="RAY"),
    ] = None,
    partial: Annotated[
        float | None,
        typer.Option(help="Seconds to wait for shards that do not answer.", min=0.0),
    ] = None,
    network_from: NetworkFrom = None,
) -> None:
    """Serves a search page and an API, until Ctrl-C or SIGTERM.

    Only this machine can ask, unless --host says otherwise; then a token is needed.
    """
    from gradsnap.serve import ServeSettings, require_extra, run_server
    from gradsnap.serve.settings import MIB, read_token

    require_extra()
    settings = ServeSettings(
        host=host,
        port=port,
        token=None if token_file is None else read_token(token_file),
        public=public,
        names=tuple(name or ()),
        writable=writable,
        model=model,
        network_from=network_from,
        root=root,
        window_milliseconds=window,
        queue=queue,
        upload_bytes=upload_mib * MIB,
        seconds=seconds,
        on=on,
        partial=partial,
    )
    run_server(_named(indexes), settings)


def _named(indexes: list[str]) -> dict[str, str]:
    """Folders by name: what stands before "=", or the folder's own."""
    from gradsnap.errors import InputError

    folders: dict[str, str] = {}
    for given in indexes:
        name, sign, path = given.partition("=")
        if not sign or "/" in name:
            path = given
            name = Path(given.rstrip("/")).resolve().name
            name = name.removesuffix(".index").removesuffix(".lance")
        if name in folders or not name:
            raise InputError(
                f"two indexes are called {name!r}: name them, as in one=A two=B"
            )
        folders[name] = path
    return folders
