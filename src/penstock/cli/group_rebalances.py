"""``penstock groups explain``: why a group was rebalanced, who was slow, what moved."""

from __future__ import annotations

import json as jsons
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.given import client_options
from penstock.cli.options import Address, Header, Json, Option, examples
from penstock.cli.output import Cell, note, show
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.seams import Rebalance

__all__ = ["EXAMPLES", "explain"]

EXAMPLES = examples("penstock groups explain kafka://127.0.0.1:9092 stats")


def explain(
    address: Address,
    group: Annotated[str, typer.Argument(help="Group name.")],
    option: Option = None,
    json: Json = False,
    header: Header = False,
) -> None:
    """Say why a group was rebalanced: its last rebalances, oldest first.

    Nodes of penstock remember 20 a group, since they were started. JSON has all that is known of each.
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


def _row(told: Rebalance) -> dict[str, Cell]:
    from penstock.groups.rebalances import sentence

    began = datetime.fromtimestamp(told.began_ms / 1_000).astimezone()
    return {"began": began.isoformat(" ", "milliseconds"), "rebalance": sentence(told)}
