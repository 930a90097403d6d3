"""Which groups, and which of their partitions, a command line is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.output import note
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.client import Admin
    from penstock.model import Partition
    from penstock.seams import GroupListing, GroupListings

Group = Annotated[str, typer.Argument(help="Group name.")]
Groups = Annotated[list[str] | None, typer.Argument(help="Group names.")]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="All groups of consumers.")]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", help="A topic, or partitions of it as topic:0,1; may be repeated."),
]

_CONSUMERS: Final = frozenset({"", "consumer"})
_OTHER_TYPES: Final = frozenset({"share", "streams"})


def chosen_groups(admin: Admin, names: Sequence[str] | None, all_groups: bool) -> list[str]:
    """Those that were named, or all; raises UsageError for neither and both."""
    if bool(names) == all_groups:
        raise UsageError("name groups, or say --all-groups", hint="`penstock groups list` shows what there is")
    if names:
        return list(dict.fromkeys(names))
    found = admin.groups()
    tell_unreachable(found)
    return sorted(each.group for each in found if _of_consumers(each))


def tell_unreachable(found: GroupListings) -> None:
    """Say whose groups are missing from a list."""
    for node in found.unreachable:
        note(f"node {node.name} ({node.endpoint}) does not answer: groups that it coordinates are not listed")


def _of_consumers(each: GroupListing) -> bool:
    """Not Connect's workers, nor what brokers call share or streams groups: their offsets are their own business."""
    return each.protocol_type in _CONSUMERS and each.type not in _OTHER_TYPES


def chosen_partitions(admin: Admin, given: Iterable[str]) -> list[Partition]:
    """The partitions of ``--topic``; where they belong to nodes, ``topic:0`` is that of every node, ``topic:0@node``
    of one. Raises UsageError for what is not there."""
    asked = [_read(each) for each in given]
    topics = admin.topics({topic for topic, _ in asked})
    found: dict[Partition, None] = {}
    for topic, wanted in asked:
        if topic not in topics:
            raise UsageError(f"no topic named {topic}", hint="`penstock topics list` shows what there is")
        there = [info.partition for info in topics[topic].partitions]
        found |= dict.fromkeys(there if wanted is None else _matching(there, wanted))
    return sorted(found)


def _read(given: str) -> tuple[str, list[Partition] | None]:
    from penstock.client.admin.groups import read_partition

    topic, colon, numbers = given.partition(":")
    if not colon:
        return given, None
    wanted = [read_partition(topic, each) for each in numbers.split(",")]
    partitions = [each for each in wanted if each is not None]
    if not topic or len(partitions) < len(wanted):
        raise UsageError(f"{given!r} is no topic with partitions", hint="for example flights:0,2")
    return topic, partitions


def _matching(there: Sequence[Partition], wanted: Iterable[Partition]) -> Iterable[Partition]:
    for each in wanted:
        fitting = [at for at in there if at.id == each.id and each.node in ("", at.node)]
        if not fitting:
            raise UsageError(f"there is no partition {each}", hint="`penstock topics describe` shows what there is")
        yield from fitting
