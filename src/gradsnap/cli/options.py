"""Options that several verbs share."""

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="Print nothing but errors and what --json asks for."
    ),
]
Root = Annotated[str | None, typer.Option(help="Folder of a data set given by name.")]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out bad images and count them.")
]
Where = Annotated[
    str | None,
    typer.Option(
        help='Only what fulfils a condition, such as label = "cat" and year > 2020.'
    ),
]
Html = Annotated[Path | None, typer.Option(help="Write a page with small pictures.")]
Open = Annotated[bool, typer.Option("--open", help="Open such a page in the browser.")]
Workers = Annotated[int, typer.Option(help="Processes that decode images.")]
Engine = Annotated[
    str,
    typer.Option(
        help="What embeds images: auto, torch, openvino, or openvino-bf16, nearly "
        "twice as fast on processors that compute in bfloat16, and less exact."
    ),
]
NetworkFrom = Annotated[
    str | None,
    typer.Option(
        help="package.module:function that builds the network; it is imported and "
        "called, because you name it here.",
        metavar="PATH",
    ),
]
On = Annotated[
    str | None,
    typer.Option(
        help="Where to work: ray, for workers on this machine or on the cluster of "
        "RAY_ADDRESS, or ray://HOST:PORT. This process if not given.",
        metavar="ray[://HOST:PORT]",
    ),
]
