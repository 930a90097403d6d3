"""``penstock groups``: list, and what is changed about groups; describing and resetting have files of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import group_describe, group_reset
from penstock.cli.given import client_options
from penstock.cli.group_choice import (
    AllGroups,
    Group,
    Groups,
    Topics,
    chosen_groups,
    chosen_partitions,
    tell_unreachable,
)
from penstock.cli.group_rebalances import EXAMPLES, explain
from penstock.cli.options import Address, Csv, Header, Json, Option, examples
from penstock.cli.output import Cell, note, show, with_nodes
from penstock.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from penstock.client import Admin
    from penstock.model import Partition

app = typer.Typer(help="Consumer groups.", no_args_is_help=True)
app.command("explain", epilog=EXAMPLES)(explain)


@app.command(
    "list",
    epilog=examples(
        "penstock groups list kafka://127.0.0.1:9092", "penstock groups list kafka://127.0.0.1:9092 --state empty"
    ),
)
def list_groups(
    address: Address,
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only those in this state; may be repeated.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--type", help="Only those of this type: classic, consumer, …; may be repeated.")
    ] = None,
    option: Option = None,
    json: Json = False,
    csv: Csv = False,
    header: Header = False,
) -> None:
    """List groups with their states and types."""
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


app.command("describe", epilog=group_describe.EXAMPLES)(group_describe.describe)
app.command("reset-offsets", epilog=group_reset.EXAMPLES)(group_reset.reset_offsets)


@app.command("delete")
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


@app.command("delete-offsets")
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
        raise UsageError("which partitions?", hint="Give --topic, for example --topic flights or --topic flights:0,2")
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
        raise typer.Exit(1)


def _at_once(partitions: list[Partition]) -> list[list[Partition]]:
    """One by one, so that each has an outcome; a topic at a time where partitions belong to nodes (TubeMQ)."""
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


@app.command("remove-members")
def remove_members(
    address: Address,
    group: Group,
    instance: Annotated[
        list[str] | None, typer.Option("--instance", "-i", help="A static member's instance id; may be repeated.")
    ] = None,
    all_members: Annotated[bool, typer.Option("--all-members", help="Everybody who is there.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="For the server's log.")] = "removed by an operator",
    option: Option = None,
) -> None:
    """Throw members out of a group. Who still runs joins again."""
    from penstock.client import Admin

    if bool(instance) == all_members:
        raise UsageError("name members by --instance, or say --all-members")
    with Admin(address, **client_options(address, option)) as admin:
        admin.remove_members(group, instance or None, reason=reason)
    note(f"removed {', '.join(instance) if instance else 'all members'} from group {group}")
