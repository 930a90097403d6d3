"""A node in the test's own process: in a thread with its own event loop, ready in milliseconds, for any client.

Kill and restart happen in place: the same port, the same store. On ``memory:`` a kill loses everything, as it would.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from penstock.config import OptionValue, snode_config
from penstock.errors import UsageError
from penstock.net.loops import new_loop
from penstock.protocols import USUAL, configs, protocol
from penstock.snode import Node
from penstock.testing.faults import Faults, FaultTap

T = TypeVar("T")
_PATIENCE_SECONDS = 30.0


class Broker:
    """A running node.

    ``store`` is ``memory:`` or ``file:DIRECTORY``; further options are those of ``SnodeConfig``: ``listen`` names the
    protocols, Kafka alone if it is left out. ``faults`` injects delays, errors and dropped connections (into Kafka's;
    ``faults_of`` into another protocol's that knows how).

    >>> from penstock.testing import Broker
    >>> with Broker() as broker:                       # doctest: +SKIP
    ...     broker.create_topic("t", partitions=2)
    ...     producer = Producer(broker.address)        # or any Kafka client on broker.bootstrap
    >>> with Broker(listen=["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]) as broker:    # doctest: +SKIP
    ...     consumer = Consumer(f"{broker.url('tubemq')}/t", group="readers")
    """

    def __init__(self, store: str = "memory:", **options: OptionValue) -> None:
        self.store = store
        self._options: dict[str, OptionValue] = {"listen": f"{USUAL}://127.0.0.1:0", **options}
        self._addresses: list[str] = []
        self._faults: dict[str, Faults] = {}
        self._taps: list[FaultTap] = []
        self._node: Node | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    # What tests connect to.

    @property
    def bootstrap(self) -> str:
        """``127.0.0.1:PORT``, as Kafka clients want it."""
        return self.address.partition("://")[2]

    @property
    def address(self) -> str:
        """``kafka://127.0.0.1:PORT``."""
        return self.url(USUAL)

    @property
    def faults(self) -> Faults:
        """Those of Kafka's front."""
        return self.faults_of(USUAL)

    def faults_of(self, scheme: str) -> Faults:
        """Delays, errors and dropped connections of a protocol's front. Raises UsageError for one that has none."""
        wording = protocol(scheme).faults
        if wording is None:
            raise UsageError(f"there is no fault injection for {scheme}")
        if scheme not in self._faults:
            self._faults[scheme] = Faults(wording())
        return self._faults[scheme]

    def url(self, scheme: str) -> str:
        """Where the front of a protocol listens."""
        for address in self._addresses:
            if address.startswith(f"{scheme}://"):
                return address
        raise UsageError(f"nothing listens for {scheme}", hint="Was the broker started, and with that listener?")

    @property
    def store_folder(self) -> Path:
        """Where a ``file:`` store is."""
        if not self.store.startswith("file:"):
            raise UsageError("a store in memory has no folder")
        return Path(self.store.removeprefix("file:"))

    @property
    def node(self) -> Node:
        """The node itself; touch it only through ``call``."""
        if self._node is None:
            raise UsageError("the broker is not running")
        return self._node

    # Life.

    def start(self) -> None:
        """Start; after the first time on the same port. Raises ConfigError, StoreError, and UsageError if it runs."""
        if self._node is not None:
            raise UsageError("the broker is running already")
        again = {"listen": self._addresses} if self._addresses else {}
        config = snode_config({"store": self.store, **self._options, **again}, configs())
        wanted = [listen.scheme for listen in config.listen if protocol(listen.scheme).faults is not None]
        taps = {scheme: self.faults_of(scheme).tap() for scheme in wanted}
        self._taps = list(taps.values())
        node = Node(config, taps=taps)
        self._loop = new_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop,), name="penstock broker", daemon=True)
        self._thread.start()
        try:
            self._run(node.start())
        except BaseException:
            self._end_thread()
            raise
        self._node = node
        self._addresses = node.listening

    def restart(self) -> None:
        """Stop if it runs, and start: the same port; the same records, too, on a ``file:`` store."""
        if self._node is not None:
            self.stop()
        self.start()

    def stop(self) -> None:
        """Drain and stop, as on SIGTERM."""
        self._leave(self._drain(self.node))

    def kill(self) -> None:
        """Stop as SIGKILL would: clients are cut off, nothing is flushed or answered."""
        self._leave(self.node.abort())

    async def _drain(self, node: Node) -> None:
        for tap in self._taps:
            tap.end_delays()
        await node.stop()

    def _leave(self, how: Coroutine[Any, Any, None]) -> None:
        try:
            self._run(how)
        finally:
            self._node = None
            self._end_thread()

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._node is not None:
            self.stop()

    # What tests arrange.

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic without a client."""
        self.call(lambda node: node.enode.create_topic(name, partitions, dict(config or {})))

    def delete_topic(self, name: str) -> None:
        """Delete a topic under its clients' feet."""
        self.call(lambda node: node.enode.delete_topic(name))

    def call(self, work: Callable[[Node], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the node, in its own loop, and wait for its result."""
        return self._run(work(self.node))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result(_PATIENCE_SECONDS)
        except BaseException:
            running.cancel()  # does nothing to what has ended by itself
            raise

    def _end_thread(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE_SECONDS)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """The thread: the loop until it is stopped, and nothing of it afterwards."""
    try:
        loop.run_forever()
        loop.run_until_complete(_end_what_is_left())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


async def _end_what_is_left() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
