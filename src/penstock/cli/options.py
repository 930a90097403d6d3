"""Arguments that several verbs share, with one wording each."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.errors import ConfigError

Address = Annotated[
    str, typer.Argument(help="Where the log is: scheme://host:port[/topic], for example kafka://127.0.0.1:9092/flights")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
Option = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="A client option as name=value; may be repeated."),
]


def pairs(given: list[str] | None) -> dict[str, str]:
    """``name=value`` arguments as a mapping. Raises ConfigError for one without "="."""
    found: dict[str, str] = {}
    for item in given or ():
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise ConfigError(f"'{item}' is not of the form name=value")
        found[name] = value
    return found
