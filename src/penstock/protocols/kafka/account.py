"""A group's account of its rebalances on its way from our node to our client: JSON in a group's option.

Kafka has no request for it, and one of our own would be seen, and tried, by every client that asks what a broker can
do. An option of the group that only who asks for it by name is told (DescribeConfigs v4, whose texts may be long) is
seen by nobody else, passes through whatever stands between, and a real broker simply has no such option.
What must not live here: what is remembered (`groups.rebalances`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from penstock.errors import ProtocolViolation
from penstock.model import Partition
from penstock.seams.rebalances import Rebalance, RebalanceCause, RebalanceEnding, RebalanceMove, RebalanceReason

__all__ = ["OPTION", "SINCE", "read", "written"]

OPTION: Final = "penstock.rebalances"
SINCE: Final = 4
"""Of DescribeConfigs: texts before are of 32,767 bytes at most."""


def written(rebalances: Sequence[Rebalance]) -> str:
    """As JSON: a list of objects, fields by their names."""
    return json.dumps([each.as_fields() for each in rebalances], separators=(",", ":"))


def read(text: str) -> list[Rebalance]:
    """What ``written`` wrote. Raises ProtocolViolation; fields that are not known yet are left out."""
    try:
        return [_rebalance(each) for each in json.loads(text)]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ProtocolViolation(f"an account of rebalances cannot be read: {error}") from error


def _rebalance(row: dict[str, Any]) -> Rebalance:
    plain = {name: row[name] for name in _PLAIN if name in row}
    return Rebalance(
        ending=RebalanceEnding(row["ending"]),
        reasons=tuple(_reason(each) for each in row["reasons"]),
        moved=tuple(_moved(each) for each in row["moved"]),
        **plain,
    )


_PLAIN: Final = tuple(name for name in Rebalance.__slots__ if name not in ("ending", "reasons", "moved"))


def _reason(row: dict[str, Any]) -> RebalanceReason:
    return RebalanceReason(RebalanceCause(row["why"]), row["member"], row["client"], row["after_ms"], row["said"])


def _moved(row: dict[str, Any]) -> RebalanceMove:
    lost, gained = (tuple(Partition(**each) for each in row[name]) for name in ("lost", "gained"))
    return RebalanceMove(row["member"], lost, gained, row["lost_total"], row["gained_total"])
