"""A node in the test's own process: in a thread with its own event loop, ready in milliseconds, for any client.

A killed node restarts on the same port with the same store. With ``memory:`` a kill loses everything.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

from msgspec import Struct

from penstock.config import OptionValue, snode_config
from penstock.errors import RequestTimeout, UsageError
from penstock.interfaces import Frame, Peer, Pieces
from penstock.interfaces.front import Handle, Wording
from penstock.net.loops import new_loop
from penstock.protocols import USUAL, configs, protocol
from penstock.snode import Node

# Fault injection: delays, errors and dropped connections by API, between a client and the node's front.
#
# Rules are tried in the order in which they were added; each is used up after ``times`` requests. A protocol's
# ``Wording`` finds a request's API and encodes error responses.
Moment = Literal["before", "after"]


class Rule(Struct):
    """One fault: the API ("" for any), how often (None: always), and its effect."""

    api: str
    times: int | None
    moment: Moment
    delay_s: float = 0.0
    error: str = ""
    drop: bool = False
    used: int = 0

    @property
    def final(self) -> bool:
        """Whether the fault replaces the real response."""
        return bool(self.error) or self.drop


class Faults:
    """The rules of one broker. Safe to call from the test's thread while the node runs in its own.

    APIs have the protocol's names ("Produce"), "" is any of them. With ``moment`` "before" the request has no effect,
    with "after" it has its effect first. ``times`` None is always.

    >>> broker.faults.error("Fetch", "NOT_LEADER_OR_FOLLOWER", times=2)        # doctest: +SKIP
    >>> broker.faults.delay("Produce", 0.2)                                    # doctest: +SKIP
    >>> broker.faults.drop("Heartbeat", moment="after")                        # doctest: +SKIP
    >>> broker.faults_of("tubemq").drop("send message", moment="after")        # doctest: +SKIP
    """

    def __init__(self, wording: Wording) -> None:
        self._wording = wording
        self._lock = threading.Condition()
        self._rules: list[Rule] = []
        self._seen: Counter[str] = Counter()

    def delay(self, api: str, seconds: float, *, times: int | None = 1, moment: Moment = "before") -> None:
        """Serve ``api`` so much later, or with "after" respond later; later requests of the connection wait for it."""
        self._add(Rule(api, times, moment, delay_s=seconds))

    def error(self, api: str, error: str, *, times: int | None = 1, moment: Moment = "before") -> None:
        """Respond to ``api`` with the named error."""
        self._add(Rule(api, times, moment, error=error))

    def drop(self, api: str, *, times: int | None = 1, moment: Moment = "before") -> None:
        """Close the connection instead of responding."""
        self._add(Rule(api, times, moment, drop=True))

    def clear(self) -> None:
        """Forget all rules."""
        with self._lock:
            self._rules.clear()

    def seen(self, api: str) -> int:
        """The number of requests of ``api`` since the broker was created, including those with faults."""
        self._wording.check(api)
        with self._lock:
            return self._count(api)

    def wait_seen(self, api: str, count: int, timeout_s: float = 30.0) -> None:
        """Wait until ``seen(api)`` is at least ``count``; use it instead of a sleep. Raises RequestTimeout."""
        self._wording.check(api)
        with self._lock:
            if not self._lock.wait_for(lambda: self._count(api) >= count, timeout_s):
                raise RequestTimeout(f"{self._count(api)} of {count} requests of {api or 'any API'} in {timeout_s} s")

    def tap(self) -> FaultTap:
        """The hook to pass to a node."""
        return FaultTap(self, self._wording)

    def _count(self, api: str) -> int:
        return self._seen[api] if api else self._seen.total()

    def _add(self, rule: Rule) -> None:
        self._wording.check(rule.api, rule.error)
        if rule.times is not None and rule.times < 1:
            raise UsageError(f"a fault that happens {rule.times} times")
        if rule.delay_s < 0:
            raise UsageError(f"a delay of {rule.delay_s} s")
        if rule.moment not in ("before", "after"):
            raise UsageError(f"a fault happens before or after the effect, not {rule.moment!r}")
        with self._lock:
            self._rules.append(rule)

    def take(self, api: str) -> list[Rule]:
        """The rules that a request of ``api`` uses up: every matching delay, and the first matching error or drop."""
        taken: list[Rule] = []
        with self._lock:
            self._seen[api] += 1
            self._lock.notify_all()
            for rule in self._rules:
                fits = rule.api in ("", api) and (rule.times is None or rule.used < rule.times)
                if fits and not (rule.final and any(other.final for other in taken)):
                    rule.used += 1
                    taken.append(rule)
        return taken


class FaultTap:
    """Intercepts frames between a node's connections and their sessions."""

    def __init__(self, faults: Faults, wording: Wording) -> None:
        self._faults = faults
        self._wording = wording
        self._over = asyncio.Event()

    def end_delays(self) -> None:
        """End all delays, because a node that stops would wait for them. Must be called in the node's event loop."""
        self._over.set()

    async def __call__(self, peer: Peer, frame: Frame, handle: Handle) -> Pieces | None:
        rules = self._faults.take(self._wording.api_of(frame))
        final = next((rule for rule in rules if rule.final), None)
        await self._wait(rules, "before")
        if final is None:
            answer = await handle(frame)
        elif final.moment == "after":
            answer = await handle(frame)
            if answer is not None and final.error:
                answer = self._wording.spoilt(frame, answer, final.error)
        else:
            answer = await self._wording.refusal(frame, final.error, handle) if final.error else None
        await self._wait(rules, "after")
        if final is not None and (final.drop or answer is None):
            # Also for an error if the protocol has no error response for this request, as servers do.
            peer.hang_up()
            return None
        return answer

    async def _wait(self, rules: list[Rule], moment: Moment) -> None:
        seconds = sum(rule.delay_s for rule in rules if rule.moment == moment)
        if seconds:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), seconds)


T = TypeVar("T")
_PATIENCE_SECONDS = 30.0


class Broker:
    """A running node.

    ``store`` is ``memory:`` or ``file:DIRECTORY``; further options are those of ``SnodeConfig``: ``listen`` names the
    protocols, only Kafka by default. ``faults`` injects delays, errors and dropped connections into Kafka's front,
    ``faults_of`` into that of another protocol, if it supports them.

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

    # Addresses for clients.

    @property
    def bootstrap(self) -> str:
        """``127.0.0.1:PORT``, for Kafka clients."""
        return self.address.partition("://")[2]

    @property
    def address(self) -> str:
        """``kafka://127.0.0.1:PORT``."""
        return self.url(USUAL)

    @property
    def faults(self) -> Faults:
        """The faults of Kafka's front."""
        return self.faults_of(USUAL)

    def faults_of(self, scheme: str) -> Faults:
        """The faults of a protocol's front. Raises UsageError for a protocol without fault injection."""
        wording = protocol(scheme).faults
        if wording is None:
            raise UsageError(f"there is no fault injection for {scheme}")
        if scheme not in self._faults:
            self._faults[scheme] = Faults(wording())
        return self._faults[scheme]

    def url(self, scheme: str) -> str:
        """The address of a protocol's front."""
        for address in self._addresses:
            if address.startswith(f"{scheme}://"):
                return address
        raise UsageError(f"nothing listens for {scheme}", hint="Was the broker started, and with that listener?")

    @property
    def store_folder(self) -> Path:
        """The directory of a ``file:`` store."""
        if not self.store.startswith("file:"):
            raise UsageError("a store in memory has no folder")
        return Path(self.store.removeprefix("file:"))

    @property
    def node(self) -> Node:
        """The node itself; use it only through ``call``, since it belongs to its own event loop."""
        if self._node is None:
            raise UsageError("the broker is not running")
        return self._node

    # Lifecycle.

    def start(self) -> None:
        """Start, on the same port as before. Raises ConfigError, StoreError, and UsageError if it runs."""
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
        """Stop if it runs, and start again on the same port; a ``file:`` store keeps its records."""
        if self._node is not None:
            self.stop()
        self.start()

    def stop(self) -> None:
        """Drain and stop, as on SIGTERM."""
        self._leave(self._drain(self.node))

    def kill(self) -> None:
        """Stop as SIGKILL would: connections are cut, nothing is flushed, no request gets a response."""
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

    # Setup without clients.

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic without a client."""
        self.call(lambda node: node.enode.create_topic(name, partitions, dict(config or {})))

    def delete_topic(self, name: str) -> None:
        """Delete a topic while clients use it."""
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
            running.cancel()  # no effect if it has ended
            raise

    def _end_thread(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE_SECONDS)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """The thread's function: run the loop until it is stopped, and then close it."""
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
