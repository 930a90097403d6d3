"""Arguments that several verbs share, each with the same help text everywhere."""

from __future__ import annotations

from typing import Annotated

import typer


def examples(*lines: str) -> str:
    """Command lines for the end of a help text, one per line; the tests run them as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


Address = Annotated[
    str, typer.Argument(help="Where the log is: scheme://host:port[/topic], for example kafka://127.0.0.1:9092/flights")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, the columns' names first; what is unknown is empty.")]
Header = Annotated[bool, typer.Option("--header", help="In a pipe: print the columns' names first.")]
Option = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="A client option as name=value; may be repeated."),
]
