"""A node: it assembles store, services and fronts, and starts and stops them in the right order.

`Node` uses neither signals nor standard output and knows no protocol by name. It runs in the event loop that starts
it. `run` is the process around one node: from configuration to ready line to signal.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from msgspec.structs import replace

from penstock import _clock
from penstock.concurrency.runtime import Promise
from penstock.config import ClientConfig, ListenAddress, SnodeConfig, parse_listener
from penstock.errors import ConfigError, PenstockError, UsageError
from penstock.interfaces.channel import Channel, Dialect
from penstock.interfaces.enode import Enode
from penstock.interfaces.front import Front, Meters, Refusals
from penstock.interfaces.node import (
    OWN_TOPICS,
    BackendContext,
    EnodeIdentity,
    Journals,
    KeepsOffsets,
    NodeIdentity,
    OffsetsCodec,
    OpenedEnode,
    Services,
)
from penstock.model import Endpoint
from penstock.net.connecting import ListenerOptions, TransportOptions, client_context
from penstock.net.loops import connections_for, raise_limit, tell_of_accept_once
from penstock.net.network import Network, TcpThrough
from penstock.net.runtime import AsyncioRuntime
from penstock.net.server import Budget, FaultHook, Listener, serve
from penstock.protocols import USUAL, default_port, protocol, schemes
from penstock.snode.committed_offsets import OffsetsService, kept_offsets
from penstock.snode.journals import JournalService
from penstock.snode.local_enode import open_enode
from penstock.snode.processes import ProcessPart
from penstock.snode.status import Stage, Watched

__all__ = ["Node", "run"]

_log = logging.getLogger("penstock.node")
_LEAST_S = 1.0
"""The store always gets this much time to close cleanly, even if requests used up ``drain_ms``."""


class Node:
    """``store``, ``enodes``, ``topics`` and ``listen`` override the same settings of ``config``.

    ``network`` None is TCP.

    ``taps``, by scheme, see every frame and may delay, change or refuse it; they are for tests. ``place`` is set if
    this node is one process of several.

    >>> async with Node(store="memory:", listen=("kafka://127.0.0.1:0",)) as node:    # doctest: +SKIP
    ...     print(node.address("kafka"))
    """

    def __init__(
        self,
        config: SnodeConfig | None = None,
        *,
        store: str | None = None,
        enodes: Sequence[str] | None = None,
        topics: Sequence[str] | None = None,
        listen: Sequence[str | ListenAddress] | None = None,
        network: Network | None = None,
        taps: Mapping[str, FaultHook] | None = None,
        runtime: AsyncioRuntime | None = None,
        place: ProcessPart | None = None,
    ) -> None:
        config = config or SnodeConfig(listen=(ListenAddress(USUAL, Endpoint("127.0.0.1", 0)),))
        if store is not None or enodes is not None or topics is not None:
            config = replace(
                config,
                store=config.store if store is None else store,
                enodes=config.enodes if enodes is None else tuple(enodes),
                topics=config.topics if topics is None else tuple(topics),
            )
        if listen is not None:
            parsed = tuple(parse_listener(each, default_port) if isinstance(each, str) else each for each in listen)
            config = replace(config, listen=parsed)
        self.config = config
        self._network = network
        self._place = place
        self._taps = dict(taps or {})
        self._runtime = self._given_runtime = runtime
        self._enode: OpenedEnode | None = None
        self._journals: OpenedEnode | None = None
        self._fronts: list[Front] = []
        self._listeners: dict[str, Listener] = {}
        self._own_doors: list[Listener] = []
        self._advertised: dict[str, Endpoint] = {}
        self._reached: dict[str, Endpoint] = {}
        self._failure: Promise[BaseException] | None = None
        self._budget = Budget(config.memory_bytes)
        self._watched = Watched(self._budget)
        self._ops: tuple[Listener, Front] | None = None

    def address(self, scheme: str) -> Endpoint:
        """The address for a protocol's clients, with the real port even if port 0 was configured."""
        if scheme not in self._advertised:
            raise UsageError(f"nothing listens for {scheme}", hint="Is the node started?")
        return self._advertised[scheme]

    def url(self, scheme: str) -> str:
        """The same as an address string, ``kafka://127.0.0.1:9092``."""
        return f"{scheme}://{self.address(scheme)}"

    @property
    def listening(self) -> list[str]:
        """Addresses of all listeners, as in ``url``."""
        return [self.url(scheme) for scheme in self._listeners]

    @property
    def metrics_url(self) -> str | None:
        """The operators' page, as ``http://127.0.0.1:9400``; None without one."""
        return None if self._ops is None else f"http://{self._ops[0].endpoint}"

    @property
    def store_url(self) -> str:
        """Where data is kept: ``memory:``, ``file:`` with the absolute path, or a cluster's address."""
        return self.config.store if self._enode is None else self._enode.url

    @property
    def enode(self) -> Enode:
        """The log that keeps the data; for code that manages topics without a client."""
        if self._enode is None:
            raise UsageError("the node is not started")
        return self._enode

    @property
    def failure(self) -> Promise[BaseException]:
        """Set to the error if a task ends that must not end. The node must then be stopped."""
        assert self._failure is not None
        return self._failure

    # Starting.

    async def start(self) -> None:
        """Open the store, load its state, listen. Raises ConfigError or StoreError, and then leaves nothing open."""
        if self._enode is not None:
            raise UsageError("the node is already started")
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        config = self.config
        runtime = self._runtime = self._runtime or AsyncioRuntime(self._failed)
        self._failure = runtime.promise()
        # Finer than the loop's clock. With a given runtime (simulated time in tests), that runtime's clock.
        now = _clock.monotonic if self._given_runtime is None else runtime.monotonic
        self._watched = Watched(self._budget, Meters(now, Refusals(now, runtime.call_later)), listeners=self._listeners)
        await self._open_ops(runtime)
        separate = await self._open_journals(runtime)
        enode = self._enode = self._open_enode(runtime, separate)
        for found in await enode.start():
            _log.warning("%s", found)
        own = enode.identity
        keeper = enode if isinstance(enode, KeepsOffsets) and separate is None else None
        kept_in = enode if keeper is None else open_enode("memory:", BackendContext(runtime, config, self._channel_of))
        journals = separate or _journals_in(kept_in, runtime, own)
        own_offsets = OffsetsService(
            journals,
            _offsets_codec(),
            partitions=config.offsets_partitions,
            kept=kept_offsets(config.max_committed_offsets, self._budget, config.address_share_percent),
        )
        if enode.abilities.records:
            await own_offsets.load()
        offsets = own_offsets if keeper is None else keeper.offsets_with(own_offsets)
        siblings: dict[str, Sequence[Endpoint]] = {}
        if self._place is not None and self._place.again:
            siblings.update(self._place.siblings)
        identity = NodeIdentity(own.node_id, own.cluster_id, self._advertised, own.epoch, self._reached, siblings)
        services = Services(identity, runtime, enode, offsets, journals, self._budget, self._watched.meters)
        for listen in config.listen:
            await self._open(listen, services)
        await self._open_doors()
        # Only now: processes that start at the same moment would wait for each other.
        if self._place is not None:
            siblings.update(self._place.siblings)
        enode.keep_up()
        self._watched.enode, self._watched.stage = enode, Stage.SERVING

    def _open_enode(self, runtime: AsyncioRuntime, separate: JournalService | None) -> OpenedEnode:
        config = self.config

        def around(journals: Journals | None) -> BackendContext:
            return BackendContext(runtime, config, self._channel_of, journals)

        if not config.enodes:
            return open_enode(config.store, around(separate))
        from penstock.snode.several_enodes import open_several  # most nodes have one

        return open_several(
            config, runtime, around, self._journals, lambda kept: separate or _journals_in(kept, runtime, kept.identity)
        )

    async def _open_ops(self, runtime: AsyncioRuntime) -> None:
        """Start the operators' page before everything else: it answers probes while a large log is being opened."""
        at = self.config.ops
        if at is None:
            return
        from penstock.snode.monitoring import (
            LISTENER,
            OpsFront,  # nodes without the page do not pay for it
        )

        front = OpsFront(self._watched, runtime)
        try:
            self._ops = (
                await serve(front, at.endpoint, options=LISTENER, network=self._network, clock=runtime.clock),
                front,
            )
        except OSError as error:
            raise ConfigError(f"cannot listen on {at}: {error.strerror or error}") from error
        await front.start()

    async def _open_journals(self, runtime: AsyncioRuntime) -> JournalService | None:
        """Open the separate log for the node's own journals; None if they are kept with the data."""
        if not self.config.journals:
            return None
        kept = open_enode(self.config.journals, BackendContext(runtime, self.config, self._channel_of))
        self._journals = kept
        for found in await kept.start():
            _log.warning("%s", found)
        kept.keep_up()
        return _journals_in(kept, runtime, kept.identity)

    def _channel_of(
        self, dialect: Dialect[Any], *, idle_timeout_s: float | None = None, tls: ClientConfig | None = None
    ) -> Channel[Any]:
        from penstock.net.asyncio_channel import AsyncioChannel  # the embedded log needs none

        usual = TransportOptions()
        options = usual if idle_timeout_s is None else replace(usual, idle_timeout_s=idle_timeout_s)
        if tls is not None and tls.tls:
            options = replace(options, ssl=client_context(tls), tls_server_name=tls.tls_server_name)
        made: AsyncioChannel[Any] = AsyncioChannel(dialect, options=options, network=self._network)
        self._watched.channels.append(made)
        return made

    async def _open(self, listen: ListenAddress, services: Services) -> None:
        opened = protocol(listen.scheme).front
        if opened is None:
            raise ConfigError(
                f"a node cannot listen on {listen}: there is only a client for {listen.scheme}",
                hint="Listen for " + ", ".join(each for each in schemes() if protocol(each).front is not None),
            )
        if not services.enode.abilities.records and services.enode.relay(listen.scheme) is None:
            raise ConfigError(
                f"a node cannot serve {listen.scheme} from {self.store_url}: only its own protocol goes there",
                hint="Leave that listener out, or keep its topics elsewhere: file:DIRECTORY, in another node",
            )
        front = opened(services, self.config)
        if self._place is not None and front.siblings is None:
            raise ConfigError(
                f"several processes cannot serve {listen} from {self.store_url} together",
                hint="Leave --processes out, or that listener: only groups of a cluster's own protocol are shared",
            )
        expected = self.config.advertised.get(listen.scheme, listen.endpoint)
        if self._place is not None:
            self._reached[listen.scheme] = self._place.reached[listen.scheme]
        elif expected.port:
            self._reached[listen.scheme] = expected
        await front.start()
        self._fronts.append(front)
        most, backlog = connections_for(self.config.max_connections, len(self.config.listen))
        options = ListenerOptions(
            max_connections=most, address_percent=self.config.address_share_percent, backlog=backlog
        )
        if front.idle_timeout_s is not None:
            options = replace(options, idle_timeout_s=front.idle_timeout_s)
        clock = None if self._runtime is None else self._runtime.clock
        try:
            tap = self._taps.get(listen.scheme)
            listener = await serve(
                front,
                listen.endpoint,
                options=options,
                network=self._network,
                tap=tap,
                budget=self._budget,
                further=front.side_doors,
                clock=clock,
            )
            if self._place is not None:
                own = self._place.doors[listen.scheme].own_address
                door = await serve(
                    front, own, options=options, network=self._network, tap=tap, budget=self._budget, clock=clock
                )
                self._own_doors.append(door)
        except OSError as error:
            raise ConfigError(f"cannot listen on {listen}: {error.strerror or error}") from error
        self._listeners[listen.scheme] = listener
        self._advertised[listen.scheme] = self.config.advertised.get(listen.scheme, listener.endpoint)
        self._reached.setdefault(listen.scheme, self._advertised[listen.scheme])

    async def _open_doors(self) -> None:
        """Open fronts' further ports, after all listeners so that no listener's port is taken.

        Processes that share a port cannot open more.
        """
        for front in self._fronts if self._place is None else ():
            listener = self._listeners[front.scheme]
            await front.open_doors(listener.endpoint.port, listener.open_further)

    def _failed(self, error: BaseException) -> None:
        self._watched.stage = Stage.FAILED
        if self._failure is not None:
            self._failure.set(error)

    # Stopping.

    async def stop(self) -> None:
        """Stop accepting, answer waiting requests, let requests in progress finish, flush, close the store cleanly.

        It takes little more than ``drain_ms``; the next start scans logs that were not flushed by then. A second call
        does nothing. Raises WriteFailed if the store could not be closed cleanly.
        """
        listeners, self._listeners = [*self._listeners.values(), *self._own_doors], {}
        fronts, self._fronts = self._fronts, []
        self._watched.stage = Stage.DRAINING
        begun = _clock.monotonic()
        for listener in listeners:
            listener.stop_accepting()
        for front in fronts:
            await front.stop()
        for listener in listeners:
            await listener.close(self.config.drain_ms / 1_000)
        self._watched.meters.refusals.close()
        await self._close_ops()
        self._advertised.clear()
        self._reached.clear()
        runtime, self._runtime = self._runtime, self._given_runtime
        if runtime is not None:
            await runtime.stop()
        enode, self._enode = self._enode, None
        kept, self._journals = self._journals, None
        left_s = max(_LEAST_S, self.config.drain_ms / 1_000 - (_clock.monotonic() - begun))
        try:
            if enode is not None:
                await enode.close(left_s)
        finally:
            if kept is not None:
                await kept.close(left_s)

    async def _close_ops(self) -> None:
        """Close the operators' page after all other listeners: it answers probes while the node drains."""
        ops, self._ops = self._ops, None
        if ops is not None:
            await ops[1].stop()
            await ops[0].close(0)

    async def abort(self) -> None:
        """Stop like a killed process, for tests: connections are cut, waiting requests die, nothing is flushed."""
        listeners, self._listeners = [*self._listeners.values(), *self._own_doors], {}
        self._fronts = []
        for listener in listeners:
            await listener.close(0)
        self._watched.meters.refusals.close()
        await self._close_ops()
        self._advertised.clear()
        self._reached.clear()
        runtime, self._runtime = self._runtime, self._given_runtime
        if runtime is not None:
            await runtime.stop()
        enode, self._enode = self._enode, None
        kept, self._journals = self._journals, None
        for each in (enode, kept):
            if each is not None:
                each.abandon()

    async def __aenter__(self) -> Node:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _journals_in(enode: OpenedEnode, runtime: AsyncioRuntime, own: EnodeIdentity) -> JournalService:
    """Journals as topics of an enode. In a shared cluster their names get a prefix with the node id, to be unique."""
    return JournalService(enode, runtime, whose=f"{OWN_TOPICS}{own.node_id}" if own.shared else "")


def _offsets_codec() -> OffsetsCodec:
    """The codec of the first protocol that has a format for committed offsets."""
    for scheme in schemes():
        make = protocol(scheme).offsets
        if make is not None:
            return make()
    raise PenstockError("no protocol has a format for committed offsets")


# The process around a node.


async def run(
    config: SnodeConfig,
    *,
    ready: Callable[[Node], None],
    stop: asyncio.Event | None = None,
    place: ProcessPart | None = None,
) -> None:
    """Run a node until SIGTERM, SIGINT or ``stop``; ``ready`` is called once, when it listens.

    With a ``place`` it is one process of several, and stops when the parent process is gone.

    Raises the error that prevented the start, or PenstockError from the error of a task that must not end.
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
