"""An answer's error code as one of our errors: how every protocol's table of codes is turned into what is raised.

What must not live here: any code. The tables are the protocols' own.
"""

from __future__ import annotations

from typing import Protocol, TypedDict, Unpack

from penstock.errors import ErrorKind, ServerError

__all__ = ["CodedRow", "Where", "server_error"]


class CodedRow(Protocol):
    """One code of a table: its number and name, what a person can do, and whether trying again can help."""

    @property
    def code(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def advice(self) -> str: ...
    @property
    def retriable(self) -> bool: ...


class Where(TypedDict, total=False):
    """What an answer was about, as far as it is known; ``node`` is who answered."""

    topic: str | None
    partition: int | None
    offset: int | None
    node: str | None


def server_error(
    row: CodedRow,
    kind: ErrorKind | None,
    said: str = "",
    *,
    doing: str = "",
    raised: type[ServerError] = ServerError,
    **where: Unpack[Where],
) -> ServerError:
    """Return the error for ``row``; ``said`` is the server's own text, ``doing`` what it was asked."""
    text = f"{doing}: " if doing else ""
    text += f"{row.name} ({row.code})" + (f": {said}" if said else "")
    hint = row.advice[:1].upper() + row.advice[1:]
    return raised(text, code=row.code, name=row.name, kind=kind, retriable=row.retriable, hint=hint, **where)
