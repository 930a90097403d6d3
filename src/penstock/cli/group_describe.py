"""``penstock groups describe``: where groups stand, who is in them, and how they are.

What must not live here: what a group is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from penstock.cli.given import client_options
from penstock.cli.group_choice import AllGroups, Groups, chosen_groups
from penstock.cli.options import Address, Csv, Header, Json, Option, examples
from penstock.cli.output import Cell, note, show, with_nodes
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.client import Admin
    from penstock.errors import PenstockError
    from penstock.model import Partition
    from penstock.seams import GroupDescription, GroupMember

Row = Mapping[str, Cell]


class View(NamedTuple):
    """What is shown of a group: how, in which columns, and in which more with ``--verbose``."""

    rows: Callable[[Admin, GroupDescription, bool], Iterator[Row]]
    columns: Sequence[str]
    verbose: Sequence[str]
    title: str


EXAMPLES: Final = examples(
    "penstock groups describe kafka://127.0.0.1:9092 stats",
    "penstock groups describe kafka://127.0.0.1:9092 stats --members --verbose",
    "penstock groups describe kafka://127.0.0.1:9092 --all-groups --state --json",
)


def describe(
    address: Address,
    groups: Groups = None,
    all_groups: AllGroups = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Partitions: this is the default.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Members instead of partitions.")] = False,
    state: Annotated[bool, typer.Option("--state", help="A line for each group.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="More columns.")] = False,
    no_seconds: Annotated[
        bool, typer.Option("--no-seconds", help="Without lag in seconds, for which a batch is read of each partition.")
    ] = False,
    option: Option = None,
    json: Json = False,
    csv: Csv = False,
    header: Header = False,
) -> None:
    """Show who owns each partition and how far behind the group is.

    Lag in seconds is the age of the oldest record not yet committed: 0 when there is none. What is not known is "-".
    """
    from penstock.client import Admin

    if offsets + members + state > 1:
        raise UsageError("--offsets, --members and --state contradict each other", hint="Give one of them")
    view = _MEMBERS if members else _STATE if state else _OFFSETS_ALONE if no_seconds else _OFFSETS
    quiet = json or csv or view is _STATE
    rows: list[Row] = []
    absent = []
    with Admin(address, **client_options(address, option)) as admin:
        told = admin.describe_groups(chosen_groups(admin, groups, all_groups))
        for name, described in told.items():
            if described.state == "Dead":
                absent.append(name)
                continue
            if not quiet:
                note(_summary(described))
            rows += view.rows(admin, described, verbose)
    columns = [*view.columns, *(view.verbose if verbose else ())]
    if rows or not (absent or told.failed):
        shown = with_nodes(rows, columns) if "partition" in columns else columns
        show(rows, shown, as_json=json, as_csv=csv, header=header, title=view.title)
    _tell_failed(told.failed)
    if absent:
        raise UsageError(f"no group named {', '.join(absent)}", hint="`penstock groups list` shows what there is")


def _tell_failed(failed: Mapping[str, PenstockError]) -> None:
    """Name all that could not be described, and end with the first one's error; the others have been shown."""
    for group, error in failed.items():
        note(f"group {group} is not described: {error.message}")
    for error in failed.values():
        raise error


def _summary(described: GroupDescription) -> str:
    where = f", coordinator {described.coordinator.endpoint}" if described.coordinator else ""
    return f"group {described.group}: {described.state}, {len(described.members)} members{where}"


def _offset_rows(admin: Admin, described: GroupDescription, _: bool) -> Iterator[Row]:
    return _offsets(admin, described, seconds=True)


def _offset_rows_alone(admin: Admin, described: GroupDescription, _: bool) -> Iterator[Row]:
    return _offsets(admin, described, seconds=False)


def _offsets(admin: Admin, described: GroupDescription, *, seconds: bool) -> Iterator[Row]:
    for each in admin.group_offsets(described, seconds=seconds):
        member = each.member
        yield {
            "group": described.group,
            "topic": each.partition.topic,
            "node": each.partition.node,
            "partition": each.partition.id,
            "committed": each.committed,
            "end": each.end,
            "lag": each.lag,
            "lag_seconds": each.seconds,
            "member": member.member_id if member else None,
            "host": member.host if member else None,
            "client": member.client_id if member else None,
            "epoch": each.leader_epoch,
            "metadata": each.metadata if each.committed is not None else None,
            "instance": member.instance_id if member else None,
        }


def _member_rows(_: Admin, described: GroupDescription, verbose: bool) -> Iterator[Row]:
    for each in sorted(described.members, key=lambda member: member.member_id):
        yield {
            "group": described.group,
            "member": each.member_id,
            "instance": each.instance_id,
            "host": each.host,
            "client": each.client_id,
            "partitions": len(each.partitions),
            **(_more_of(described, each) if verbose else {}),
        }


def _more_of(described: GroupDescription, member: GroupMember) -> Row:
    return {
        "epoch": member.epoch,
        "assignment": assignment(member.partitions),
        "target_epoch": described.target_epoch,
        "target": None if member.target is None else assignment(member.target),
        "upgraded": member.upgraded,
    }


def _state_rows(_: Admin, described: GroupDescription, __: bool) -> Iterator[Row]:
    at = described.coordinator
    yield {
        "group": described.group,
        "state": described.state,
        "type": described.type or None,
        "coordinator": str(at.endpoint) if at else None,
        "node": at.name if at else None,
        "assignor": described.assignor or None,
        "members": len(described.members),
        "epoch": described.epoch,
        "target_epoch": described.target_epoch,
    }


def assignment(partitions: Iterable[Partition]) -> str:
    """Partitions as Kafka's tool writes them: ``flights:0,1;orders:2``."""
    from penstock.client.admin.groups import partition_text

    found: dict[str, list[str]] = {}
    for each in sorted(partitions):
        found.setdefault(each.topic, []).append(partition_text(each))
    return ";".join(f"{topic}:{','.join(those)}" for topic, those in found.items())


_PLACE: Final = ("group", "topic", "partition", "committed", "end", "lag")
_READER: Final = ("member", "host", "client")
_MORE: Final = ("epoch", "metadata", "instance")
_OFFSETS: Final = View(_offset_rows, (*_PLACE, "lag_seconds", *_READER), _MORE, "Offsets")
_OFFSETS_ALONE: Final = View(_offset_rows_alone, (*_PLACE, *_READER), _MORE, "Offsets")
_MEMBERS: Final = View(
    _member_rows,
    ("group", "member", "instance", "host", "client", "partitions"),
    ("epoch", "assignment", "target_epoch", "target", "upgraded"),
    "Members",
)
_STATE: Final = View(
    _state_rows,
    ("group", "state", "type", "coordinator", "node", "assignor", "members"),
    ("epoch", "target_epoch"),
    "Groups",
)
