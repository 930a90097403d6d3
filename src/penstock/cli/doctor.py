"""``penstock doctor``: is everything here that a fast and correct run needs, and if not, what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.findings import Finding, of_this_machine
from penstock.cli.given import client_options
from penstock.cli.options import Header, Json, Option, examples
from penstock.cli.output import show
from penstock.errors import ConfigError, PenstockError, UsageError

if TYPE_CHECKING:
    from penstock.client import Admin
    from penstock.model import TopicInfo

EXAMPLES: Final = examples(
    "penstock doctor",
    "penstock doctor kafka://127.0.0.1:9092/flights",
)
_ANY_TOPIC: Final = "penstock_doctor"
_PATIENCE: Final = {"api_timeout_ms": "3000"}
"""Somebody waits for the answer: three seconds are enough to find out whether the log is there."""


def doctor(
    address: Annotated[str, typer.Argument(help="A log to try to reach, for example kafka://127.0.0.1:9092.")] = "",
    option: Option = None,
    json: Json = False,
    header: Header = False,
) -> None:
    """Check Python, Java, Spark, kernels and (with an address) the log. Ends 1 if something is missing or broken."""
    found = [*of_this_machine(), *(_log(address, option) if address else ())]
    rows = ({"check": each.what, "status": each.status, "detail": each.detail} for each in found)
    show(rows, ("check", "status", "detail"), as_json=json, header=header, title="penstock doctor")
    raise typer.Exit(1 if any(each.status == "missing" for each in found) else 0)


def _log(address: str, option: list[str] | None) -> Iterator[Finding]:
    from penstock.client import Admin
    from penstock.protocols import address_of

    named = address_of(address).topics
    with Admin(address, **client_options(address, option, _PATIENCE)) as admin:
        try:
            topics, unlisted = _topics(admin, named)
        except ConfigError:
            raise
        except PenstockError as error:
            yield Finding("log", "missing", f"{error} `penstock snode` starts a log of your own")
            return
    partitions = [info for topic in topics.values() for info in topic.partitions]
    what = f"only the topics that the address names were checked: {unlisted}" if unlisted else f"{len(topics)} topics"
    yield Finding("log", "ok", f"{address}: {what}, {len(partitions)} partitions")
    if absent := [name for name in named if name not in topics]:
        names = ", ".join(absent)
        server = replace(address_of(address), topics=(), options={})
        yield Finding(
            "topics", "missing", f"no topic named {names}: `penstock topics create {server} {' '.join(absent)}`"
        )
    if leaderless := [str(info.partition) for info in partitions if info.leader is None]:
        few = ", ".join(leaderless[:5]) + (", …" if len(leaderless) > 5 else "")
        yield Finding(
            "leaders", "missing", f"{len(leaderless)} partitions have no leader: {few}; look at their servers"
        )


def _topics(admin: Admin, named: tuple[str, ...]) -> tuple[Mapping[str, TopicInfo], UsageError | None]:
    """All topics; if a protocol does not list them without more options, the named ones, and its error.

    Asks for a topic in any case, to find out whether anything answers.
    """
    try:
        return admin.topics(internal=True), None
    except UsageError as error:
        return admin.topics(named or (_ANY_TOPIC,)), error
