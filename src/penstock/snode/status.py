"""The state of a node that its operators' page (`penstock.snode.monitoring`) reads."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from penstock.interfaces.front import Meters
from penstock.interfaces.node import Several
from penstock.net.server import Budget, Listener

if TYPE_CHECKING:
    from penstock.interfaces.node import OpenedEnode
    from penstock.net.asyncio_channel import AsyncioChannel

__all__ = ["Stage", "Watched"]


class Stage(StrEnum):
    """A node's lifecycle stage; the value is the text that a probe gets."""

    STARTING = "starting: what it keeps, or the cluster behind it, is being looked at"
    SERVING = "ready"
    DRAINING = "draining: no new clients are taken"
    FAILED = "failed: one of its tasks ended, see its log"


class Watched(Struct):
    """Everything the page reads; the node keeps it up to date."""

    budget: Budget
    meters: Meters = field(default_factory=Meters)
    listeners: Mapping[str, Listener] = field(default_factory=dict)
    channels: list[AsyncioChannel[Any]] = field(default_factory=list)
    enode: OpenedEnode | None = None
    stage: Stage = Stage.STARTING

    @property
    def standing(self) -> Mapping[str, str | None]:
        """For each of several logs, why it is away, or None; empty for a single log."""
        return _standing_of(self.enode)


def _standing_of(enode: object) -> Mapping[str, str | None]:
    return enode.standing() if isinstance(enode, Several) else {}
