"""A server to try the same at: a node of ours, or a real broker of the newest version. No tests here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.testing import Broker
from tools.peers import kafka
from tools.peers.maven import Unavailable

__all__ = ["WHERE", "node_or_kafka"]

WHERE = pytest.mark.parametrize("where", ["node", "kafka"])


@contextmanager
def node_or_kafka(where: str, home: Path, settings: Mapping[str, int | str] | None = None) -> Iterator[str]:
    """The bootstrap address of one on files in ``home`` until the block ends.

    ``settings`` are a broker's; a node's options have the same names, with underscores.
    """
    settings = settings or {}
    if where == "node":
        with Broker(f"file:{home}", **{name.replace(".", "_"): each for name, each in settings.items()}) as node:
            yield node.bootstrap
        return
    try:
        with kafka.broker(home, settings={name: f"{each}" for name, each in settings.items()}) as real:
            yield real.bootstrap
    except Unavailable as reason:
        pytest.skip(f"no Kafka {kafka.NEWEST} to test with: {reason}")
