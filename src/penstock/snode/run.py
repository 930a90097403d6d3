"""A process around one node: from configuration to ready line to signal."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable

from penstock.config import SnodeConfig
from penstock.errors import PenstockError
from penstock.net.descriptors import raise_limit, tell_of_accept_once
from penstock.net.doors import TcpThrough
from penstock.snode.node import Node
from penstock.snode.processes import Place

__all__ = ["run"]

_log = logging.getLogger("penstock.node")


async def run(
    config: SnodeConfig,
    *,
    ready: Callable[[Node], None],
    stop: asyncio.Event | None = None,
    place: Place | None = None,
) -> None:
    """Run a node until SIGTERM, SIGINT or ``stop``; ``ready`` is called once, when it listens.

    With a ``place`` it is one process among several, and ends with the one that watches them.

    Raises the error that kept it from starting, or that ended a task which must not end.
    """
    stop = stop or asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    raise_limit()
    tell_of_accept_once(loop)
    network = None
    if place is not None:
        loop.add_reader(place.lives, stop.set)
        network = TcpThrough([each for door in place.doors.values() for each in door.sockets])
    async with Node(config, network=network, place=place) as node:
        ready(node)
        _log.info("the node listens at %s", ", ".join(node.listening))
        failed = asyncio.ensure_future(_wait(node, stop))
        await stop.wait()
        _log.info("the node stops, requests in progress have %d ms", config.drain_ms)
        failed.cancel()
        if node.failure.done:
            raise PenstockError("the node ended because one of its tasks failed") from await node.failure


async def _wait(node: Node, stop: asyncio.Event) -> None:
    await node.failure
    stop.set()
