"""Arguments that several verbs share, with one wording each."""

from __future__ import annotations

from typing import Annotated

import typer


def examples(*lines: str) -> str:
    """Command lines as the end of a help text, each in a line of its own; the tests run them as they stand there."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


Address = Annotated[
    str, typer.Argument(help="Where the log is: scheme://host:port[/topic], for example kafka://127.0.0.1:9092/flights")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
Header = Annotated[bool, typer.Option("--header", help="In a pipe: the columns' names in the first line.")]
Option = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="A client option as name=value; may be repeated."),
]
