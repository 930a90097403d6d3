"""``penstock groups``: list and describe, with lag in offsets and in seconds."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.given import client_options
from penstock.cli.options import Address, Header, Json, Option, examples
from penstock.cli.output import Cell, note, show, with_nodes
from penstock.errors import UsageError

app = typer.Typer(help="Consumer groups.", no_args_is_help=True)
Group = Annotated[str, typer.Argument(help="Group name.")]


@app.command("list", epilog=examples("penstock groups list kafka://127.0.0.1:9092"))
def list_groups(
    address: Address,
    option: Option = None,
    json: Json = False,
    header: Header = False,
) -> None:
    """List groups and their states."""
    from penstock.client import Admin

    with Admin(address, **client_options(address, option)) as admin:
        found = admin.groups()
    for node in found.unreachable:
        note(f"node {node.name} ({node.endpoint}) does not answer: groups that it coordinates are not listed")
    rows: list[dict[str, Cell]] = [
        {"group": each.group, "state": each.state, "protocol": each.protocol_type}
        for each in sorted(found, key=lambda each: each.group)
    ]
    show(rows, ("group", "state", "protocol"), as_json=json, header=header, title="Groups")


@app.command("describe", epilog=examples("penstock groups describe kafka://127.0.0.1:9092 stats"))
def describe(
    address: Address,
    group: Group,
    option: Option = None,
    json: Json = False,
    header: Header = False,
) -> None:
    """Show who owns each partition and how far behind the group is.

    Lag in seconds is the age of the oldest record not yet committed: 0 when there is none.
    """
    from penstock.client import Admin

    with Admin(address, **client_options(address, option)) as admin:
        described = admin.describe_group(group)
        lags = admin.lag(group)
    if described.state == "Dead" and not lags:
        raise UsageError(f"no group named {group}", hint="`penstock groups list` shows what there is")
    owners = {partition: member for member in described.members for partition in member.partitions}
    rows: list[dict[str, Cell]] = []
    for partition in sorted(set(lags) | set(owners)):
        lag, owner = lags.get(partition), owners.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "node": partition.node,
                "partition": partition.id,
                "committed": lag.committed if lag else None,
                "end": lag.end if lag else None,
                "lag": lag.offsets if lag else None,
                "lag_seconds": lag.seconds if lag else None,
                "member": owner.member_id if owner else None,
            }
        )
    if not json:
        where = f", coordinator {described.coordinator.endpoint}" if described.coordinator else ""
        note(f"group {group}: {described.state}, {len(described.members)} members{where}")
    columns = with_nodes(rows, ("topic", "partition", "committed", "end", "lag", "lag_seconds", "member"))
    show(rows, columns, as_json=json, header=header, title=f"Group {group}")


@app.command("delete")
def delete(address: Address, group: Group, option: Option = None) -> None:
    """Delete an empty group and its committed offsets."""
    from penstock.client import Admin

    with Admin(address, **client_options(address, option)) as admin:
        admin.delete_groups([group])
    note(f"deleted group {group}")
