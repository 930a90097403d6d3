"""Replicas: reading a partition elsewhere than where it is led, where a log's servers say so."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from penstock.model import Node, Partition

__all__ = ["HasReplicas"]


@runtime_checkable
class HasReplicas(Protocol):
    """A LogClient of a log that may be read elsewhere than where it is led."""

    def reads_at(self, partition: Partition) -> Node | None:
        """Whom to read it from now; else as ``LogClient.leader``. ``LogClient.distrust`` is for both."""
        ...
