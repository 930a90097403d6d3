"""``penstock groups``: list, describe, explain, delete, remove members; `group_reset` has ``reset-offsets``."""

from __future__ import annotations

import json as jsons
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from penstock.cli.arguments import Address, Argument, Csv, Header, Json, Option, client_options
from penstock.cli.group_reset import (
    AllGroups,
    Group,
    Groups,
    Topics,
    chosen_groups,
    chosen_partitions,
    tell_unreachable,
)
from penstock.cli.output import Cell, note, show, with_nodes
from penstock.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from penstock.client import Admin
    from penstock.interfaces import GroupDescription, GroupMember, Rebalance
    from penstock.model import Partition

# ``penstock groups describe``: a group's offsets, members and state.
Row = Mapping[str, Cell]


class View(NamedTuple):
    """One view of a group: the function that makes its rows, its columns, and further columns for ``--verbose``."""

    rows: Callable[[Admin, GroupDescription, bool], Iterator[Row]]
    columns: Sequence[str]
    verbose: Sequence[str]
    title: str


def describe(
    address: Address,
    groups: Groups = None,
    all_groups: AllGroups = False,
    offsets: Annotated[bool, Argument("--offsets", help="Partitions: this is the default.")] = False,
    members: Annotated[bool, Argument("--members", help="Members instead of partitions.")] = False,
    state: Annotated[bool, Argument("--state", help="A line for each group.")] = False,
    verbose: Annotated[bool, Argument("--verbose", "-v", help="More columns.")] = False,
    no_seconds: Annotated[
        bool, Argument("--no-seconds", help="Without lag in seconds, for which a batch is read of each partition.")
    ] = False,
    option: Option = None,
    json: Json = False,
    csv: Csv = False,
    header: Header = False,
) -> None:
    """Show who owns each partition and how far behind the group is.

    Lag in seconds is the age of the oldest record not yet committed: 0 when there is none. What is not known is "-".

    Examples:
      penstock groups describe kafka://127.0.0.1:9092 stats
      penstock groups describe kafka://127.0.0.1:9092 stats --members --verbose
      penstock groups describe kafka://127.0.0.1:9092 --all-groups --state --json
    """
    from penstock.client import Admin

    if offsets + members + state > 1:
        raise UsageError("--offsets, --members and --state contradict each other", hint="Give one of them")
    view = _MEMBERS if members else _STATE if state else _OFFSETS_ALONE if no_seconds else _OFFSETS
    quiet = json or csv or view is _STATE
    rows: list[Row] = []
    absent = []
    with Admin(address, **client_options(address, option)) as admin:
        found = admin.describe_groups(chosen_groups(admin, groups, all_groups))
        for name, described in found.items():
            if described.state == "Dead":
                absent.append(name)
                continue
            if not quiet:
                note(_summary(described))
            rows += view.rows(admin, described, verbose)
    columns = [*view.columns, *(view.verbose if verbose else ())]
    if rows or not (absent or found.failed):
        shown = with_nodes(rows, columns) if "partition" in columns else columns
        show(rows, shown, as_json=json, as_csv=csv, header=header, title=view.title)
    _report_failed(found.failed)
    if absent:
        raise UsageError(f"no group named {', '.join(absent)}", hint="`penstock groups list` shows what there is")


def _report_failed(failed: Mapping[str, PenstockError]) -> None:
    """Print the groups that could not be described, and raise the first one's error; the others have been shown."""
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
    """Partitions in the form of Kafka's tool: ``flights:0,1;orders:2``."""
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

# ``penstock groups explain``: the reasons of rebalances, slow members, and moved partitions.


def explain(
    address: Address,
    group: Annotated[str, Argument(help="Group name.")],
    option: Option = None,
    json: Json = False,
    header: Header = False,
) -> None:
    """Say why a group was rebalanced: its last rebalances, oldest first.

    Nodes of penstock remember 20 a group, since they were started. JSON has all that is known of each.

    Examples:
      penstock groups explain kafka://127.0.0.1:9092 stats
    """
    from penstock.client import Admin

    with Admin(address, **client_options(address, option)) as admin:
        found = admin.rebalances(group)
    if found is None:
        raise UsageError(
            f"nothing is known of the rebalances of {group}",
            hint="Nodes of penstock remember them, and no other server does; `penstock groups list` shows what"
            " groups there are",
        )
    if json:
        for each in found:
            sys.stdout.write(jsons.dumps({**each.as_fields(), "took_ms": each.took_ms}) + "\n")
        return
    if not found:
        note(f"group {group} has not been rebalanced since the node was started")
        return
    show([_row(each) for each in found], ("began", "rebalance"), as_json=False, header=header, title=f"Group {group}")


def _row(rebalance: Rebalance) -> dict[str, Cell]:
    from penstock.groups.rebalance_history import sentence

    began = datetime.fromtimestamp(rebalance.began_ms / 1_000).astimezone()
    return {"began": began.isoformat(" ", "milliseconds"), "rebalance": sentence(rebalance)}


def list_groups(
    address: Address,
    state: Annotated[list[str] | None, Argument("--state", help="Only those in this state; may be repeated.")] = None,
    kind: Annotated[
        list[str] | None, Argument("--type", help="Only those of this type: classic, consumer, …; may be repeated.")
    ] = None,
    option: Option = None,
    json: Json = False,
    csv: Csv = False,
    header: Header = False,
) -> None:
    """List groups with their states and types.

    Examples:
      penstock groups list kafka://127.0.0.1:9092
      penstock groups list kafka://127.0.0.1:9092 --state empty
    """
    from penstock.client import Admin

    with Admin(address, **client_options(address, option)) as admin:
        found = admin.groups(states=state or None, types=kind or None)
    tell_unreachable(found)
    rows: list[dict[str, Cell]] = [
        {
            "group": each.group,
            "state": each.state or None,
            "protocol": each.protocol_type,
            "type": each.type or None,
        }
        for each in sorted(found, key=lambda each: each.group)
    ]
    columns = ("group", "state", "protocol", "type")
    show(rows, columns, as_json=json, as_csv=csv, header=header, title="Groups")


def delete(address: Address, groups: Groups = None, all_groups: AllGroups = False, option: Option = None) -> None:
    """Delete groups without members and their committed offsets. One that has members keeps no other from it."""
    from penstock.client import Admin

    refused: list[PenstockError] = []
    with Admin(address, **client_options(address, option)) as admin:
        for name in chosen_groups(admin, groups, all_groups):
            try:
                admin.delete_groups([name])
                note(f"deleted group {name}")
            except PenstockError as error:
                if refused:
                    note(f"penstock: {error}")
                refused.append(error)
    if refused:
        raise refused[0]


def delete_offsets(
    address: Address,
    group: Group,
    topic: Topics = None,
    option: Option = None,
    json: Json = False,
    csv: Csv = False,
    header: Header = False,
) -> None:
    """Forget where a group stands in topics that its members do not read. Ends 1 if a partition was refused."""
    from penstock.client import Admin

    if not topic:
        raise UsageError(
            "no partitions are given", hint="Give --topic, for example --topic flights or --topic flights:0,2"
        )
    rows: list[dict[str, Cell]] = []
    with Admin(address, **client_options(address, option)) as admin:
        for those in _at_once(chosen_partitions(admin, topic)):
            error = _deleted(admin, group, those)
            rows += (
                {
                    "group": group,
                    "topic": at.topic,
                    "node": at.node,
                    "partition": at.id,
                    "deleted": not error,
                    "error": error,
                }
                for at in those
            )
    columns = with_nodes(rows, ("group", "topic", "partition", "deleted", "error"))
    show(rows, columns, as_json=json, as_csv=csv, header=header, title="Deleted offsets")
    if any(row["error"] for row in rows):
        raise SystemExit(1)


def _at_once(partitions: list[Partition]) -> list[list[Partition]]:
    """The partitions in parts: one by one, so that each has its own result; by topic if nodes own them (TubeMQ)."""
    if not any(each.node for each in partitions):
        return [[each] for each in partitions]
    topics = sorted({each.topic for each in partitions})
    return [[each for each in partitions if each.topic == topic] for topic in topics]


def _deleted(admin: Admin, group: str, partitions: list[Partition]) -> str | None:
    try:
        admin.delete_offsets(group, partitions)
    except UsageError:
        raise
    except PenstockError as error:
        return str(error)
    return None


def remove_members(
    address: Address,
    group: Group,
    instance: Annotated[
        list[str] | None, Argument("--instance", "-i", help="A static member's instance id; may be repeated.")
    ] = None,
    all_members: Annotated[bool, Argument("--all-members", help="All members.")] = False,
    reason: Annotated[str, Argument("--reason", help="For the server's log.")] = "removed by an operator",
    option: Option = None,
) -> None:
    """Remove members from a group. Members that are still running join again."""
    from penstock.client import Admin

    if bool(instance) == all_members:
        raise UsageError("give either --instance or --all-members")
    with Admin(address, **client_options(address, option)) as admin:
        admin.remove_members(group, instance or None, reason=reason)
    note(f"removed {', '.join(instance) if instance else 'all members'} from group {group}")
