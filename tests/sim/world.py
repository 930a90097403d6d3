"""The world of one schedule: clock, dice, network, one node on one disk, and what happened when.

The stack runs as it is; what it asks of the machine (time, random numbers, sockets, the disk) it is given by the seed.
What must not live here: what goes wrong (`schedule`), what must hold (`watch`).
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
import os
import random
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import penstock._clock
import penstock.store.store
from penstock.client.runtime import imports
from penstock.config import snode_config
from penstock.net.runtime import AsyncioRuntime
from penstock.protocols import configs, protocol
from penstock.snode import Node
from tests.sim.disk import SimDisk
from tests.sim.loop import SimLoop, Stuck
from tests.sim.shapes import Shape
from tests.sim.terms import TERMS
from tests.sim.wire import HOST, Net

__all__ = ["NODE", "Trace", "World", "ready_to_simulate"]

NODE = "node"
_BEGAN_NS = 1_700_000_000_000_000_000
_DRAIN_MS = 200
_ASKED_TO_END = 12


def ready_to_simulate(*kinds: str) -> None:
    """Import everything that clients would have a thread import while time passes."""
    for scheme in {TERMS[kind].scheme or kind: kind for kind in kinds}:
        imports.load(protocol(scheme), "consumer", "member", "columns", "producer")
    if not imports.functions_there():
        imports._load_functions(lists=True)


class Trace:
    """What happened when; ``digest`` tells two runs apart."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.lines: list[str] = []

    def tell(self, who: str, what: str) -> None:
        self.lines.append(f"{self._now():10.4f}  {who:<9} {what}")

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()[:16]


class World:
    """Made for one run of one seed; ``kind`` of group, ``scheme`` is what the node speaks."""

    def __init__(self, seed: int, *, kind: str, shape: Shape, flush: str, last_s: float) -> None:
        self.dice = Random(f"world {seed}")
        self.failed: list[str] = []
        self.loop = SimLoop(last_s, self._call_failed)
        self.trace = Trace(self.loop.time)
        self.tell = self.trace.tell
        self.net = self.loop.net = Net(self.loop, Random(f"net {seed}"), self.tell)
        self.disk = SimDisk()
        self.kind = kind
        self.shape = shape
        self.scheme = TERMS[kind].scheme or kind
        self.node: Node | None = None
        self.crashes = 0
        self.recoveries = 0
        self._flush = flush
        self._port = 0
        self._dying: list[asyncio.Task[None]] = []

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Until it is through; raises what it raises, or Stuck."""
        with _given(self), _unswept():
            try:
                self.loop.run_until_complete(work)
            finally:
                _end_tasks(self.loop)

    # The node.

    async def start_node(self) -> None:
        """Also again, after `kill_node`: on the same port, over what is left."""
        for dying in self._dying:
            await dying
        self._dying.clear()
        HOST.set(NODE)
        again = self._port != 0
        try:
            self.net.revive(NODE)
            runtime = AsyncioRuntime(self._node_failed, random_bytes=self.dice.randbytes)
            config = snode_config(
                {
                    "store": "memory:",
                    "listen": f"{self.scheme}://127.0.0.1:{self._port}",
                    "flush": self._flush,
                    "offsets_partitions": 2,
                    "auto_create_topics": False,
                    "drain_ms": _DRAIN_MS,
                    **TERMS[self.kind].node_options(self.shape),
                },
                configs(),
            )
            node = Node(config, runtime=runtime)
            await node.start()
        finally:
            HOST.set("test")
        self.node = node
        self._port = node.address(self.scheme).port
        self.recoveries += again
        self.tell(NODE, "is back" if again else "listens")

    def kill_node(self, *, power: bool) -> None:
        """Now, in the middle of whatever it does. ``power``: what was not synced is lost, too."""
        if self.node is None:
            return
        self.tell(NODE, "loses its power" if power else "is killed")
        node, self.node = self.node, None
        self.net.kill(NODE)
        self.disk = self.disk.after(self.dice if power else None)
        self.crashes += 1
        self._dying.append(self.loop.create_task(node.abort()))

    def _call_failed(self, error: BaseException) -> None:
        self.failed.append(f"what the loop called raised {error!r}")

    def _node_failed(self, error: BaseException) -> None:
        if self.node is not None:
            self.failed.append(f"a task of the node ended with {error!r}")


@contextmanager
def _given(world: World) -> Iterator[None]:
    """Time and dice of the machine are the world's."""
    dice = Random(world.dice.random())
    random.seed(dice.random())

    def time_ns() -> int:
        return _BEGAN_NS + int(world.loop.now * 1e9)

    def uuid4() -> uuid.UUID:
        return uuid.UUID(bytes=dice.randbytes(16), version=4)

    with ExitStack() as stack:
        for what, name, instead in (
            (time, "time_ns", time_ns),
            (time, "time", lambda: time_ns() / 1e9),
            (penstock._clock, "monotonic", world.loop.time),
            (os, "urandom", dice.randbytes),
            (uuid, "uuid4", uuid4),
            (penstock.store.store, "MemoryDirectory", lambda: world.disk),
        ):
            stack.enter_context(patch.object(what, name, instead))
        logging.disable(logging.ERROR)
        stack.callback(logging.disable, logging.NOTSET)
        yield


@contextmanager
def _unswept() -> Iterator[None]:
    """No garbage is looked for meanwhile, which would end generators and references at any moment; then the young."""
    swept = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if swept:
            gc.enable()
        gc.collect(0)


def _end_tasks(loop: SimLoop) -> None:
    """Whatever still runs belongs to the dead."""
    loop.last_s = float("inf")
    for _ in range(_ASKED_TO_END):
        left = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=5))
    if left:
        raise Stuck(f"tasks that cannot be cancelled: {left}")
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
