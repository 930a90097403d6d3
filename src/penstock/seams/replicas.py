"""Replicas: reading a partition elsewhere than where it was led, where a log's servers say so."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from penstock.model import Node, Partition

__all__ = ["HasReplicas", "HearsOfMoves"]


@runtime_checkable
class HasReplicas(Protocol):
    """A LogClient of a log that may be read elsewhere than where it is led."""

    def reads_at(self, partition: Partition) -> Node | None:
        """Whom to read it from now; else as ``LogClient.leader``. ``LogClient.distrust`` is for both."""
        ...


@runtime_checkable
class HearsOfMoves(Protocol):
    """A LogClient of a log whose servers may say, where they refuse a partition, who leads it instead."""

    def moved(self, partition: Partition) -> bool:
        """Whether the last refusal named who leads it, who is believed: no need to distrust, ask or wait. Once."""
        ...
