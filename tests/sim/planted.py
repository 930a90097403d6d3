"""Bugs to plant: what each breaks, in which kinds of groups it can show, and what is said of it when it is found.

They are of the kinds that coordinators and clients have had. What must not live here: how they are looked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.groups import sticky_assignors
from penstock.interfaces.node import Replayed
from penstock.model import Committed, Partition
from penstock.protocols.kafka.client.classic_member import KafkaMembership
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups import consumer_coordinator as newer_coordinator
from penstock.protocols.kafka.groups import consumer_group, consumer_transitions
from penstock.protocols.kafka.groups import consumer_transitions as newer_steps
from penstock.protocols.kafka.groups.classic_coordinator import Coordinator
from penstock.protocols.kafka.server.consumer_group_service import ConsumerGroupLog
from penstock.snode import committed_offsets as offsets_service
from penstock.store.log import PartitionLog

__all__ = ["PLANTS", "Plant"]

Target = tuple[object, str, Any]


@dataclass(frozen=True, slots=True)
class Plant:
    """``make``: what is put where instead of what, for ``patch.object``. ``kinds``: of groups where it can show.

    ``said``: words of which one is in what is told of it.
    """

    make: Callable[[], Target]
    kinds: tuple[str, ...]
    said: tuple[str, ...]


def _anything_goes(*_: Any, **__: Any) -> ErrorCode:
    return ErrorCode.NONE


def _forgetful() -> Callable[..., list[Replayed]]:
    turn = itertools.cycle([True, True, True, False])

    def commits(group: str, offsets: Mapping[Partition, Committed]) -> list[Replayed]:
        kept = next(turn)
        return [Replayed(group, partition, committed, None) for partition, committed in offsets.items() if kept]

    return commits


def _as_they_are(shares: Any, members: Any) -> Any:
    return shares


def _none_to_give_up(self: KafkaMembership, owned: Collection[Partition]) -> frozenset[Partition]:
    return frozenset()


async def _written_later(self: ConsumerGroupLog, group_id: str) -> None:
    """Heartbeats are answered before anything of them is written."""


def _group_only() -> Callable[..., Any]:
    real = consumer_group.entry_of

    def entry_of(group_id: str, member_id: str | None, group: Any) -> Any:
        gone = group is not None and member_id is not None and member_id not in group.members
        return real(group_id, member_id, group) if not gone else real(group_id, None, group)

    return entry_of


_CLASSIC = ("kafka",)
_NEWER = ("kafka-newer",)

PLANTS = {
    "a dropped fence": Plant(lambda: (Coordinator, "_commit_answer", _anything_goes), _CLASSIC, ("is accepted",)),
    "a lost commit": Plant(
        lambda: (offsets_service, "_commits", _forgetful()),
        ("kafka", "rocketmq", "tubemq"),
        ("after its crash the node knows", "goes back from", "nobody wrote it down"),
    ),
    "a double owner in a cooperative group": Plant(
        lambda: (sticky_assignors, "withhold", _as_they_are), _CLASSIC, ("has not given up",)
    ),
    "a double owner in an eager group": Plant(
        lambda: (KafkaMembership, "must_revoke", _none_to_give_up), _CLASSIC, ("has not given up", "goes back from")
    ),
    "an acknowledgement before the disk has it": Plant(
        lambda: (PartitionLog, "sync_needed", False),
        ("kafka", "rocketmq", "tubemq"),
        ("after its crash", "is answered after", "handed out is up to"),
    ),
    "a dropped fence in a newer group": Plant(
        lambda: (newer_coordinator, "commit_fault", _anything_goes), _NEWER, ("is accepted", "goes back from")
    ),
    "a double owner in a newer group": Plant(
        lambda: (consumer_transitions, "_held", lambda *_: False),
        ("kafka-newer", "kafka-mixed"),
        ("both own", "has not given up"),
    ),
    "an answer that nothing stands behind": Plant(
        lambda: (ConsumerGroupLog, "save", _written_later), _NEWER, ("after its crash",)
    ),
    "members that left come back with the node": Plant(
        lambda: (newer_steps, "entry_of", _group_only()), _NEWER, ("both own",)
    ),
}
