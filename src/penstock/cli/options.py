"""Arguments that several verbs share, with one wording each."""

from __future__ import annotations

from typing import Annotated

import typer

Address = Annotated[
    str, typer.Argument(help="Where the log is: scheme://host:port[/topic], for example kafka://127.0.0.1:9092/flights")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
Option = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="A client option as name=value; may be repeated."),
]
