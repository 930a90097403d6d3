"""A node's listener and its connections: frames in, answers out, within limits on what clients can take together.

`serve` opens a `Listener`. Each client has a `ServerConnection`, which runs one `Session` of a front. `FaultHook` lets
tests inject faults, and `DeferredResponses` writes answers that come without a task.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Protocol, cast

from penstock.concurrency.limits import divided
from penstock.concurrency.runtime import Deferred, arrived
from penstock.errors import PenstockError
from penstock.interfaces.framing import ForeignProtocol, Frame, Pieces
from penstock.interfaces.front import Handle, Opens, Peer, Session
from penstock.model import Endpoint
from penstock.net.buffers import ReceiveBuffer, allocate_mapped
from penstock.net.connecting import ListenerOptions
from penstock.net.flow_control import LITTLE, LUMP_BYTES, Budget, Outgoing
from penstock.net.network import Listening, Network, Tcp
from penstock.net.runtime import ServingClock, ServingTimer, SuspendedCoroutine, waits

__all__ = [
    "Budget",
    "DeferredResponses",
    "FaultHook",
    "Handle",
    "Listener",
    "Owner",
    "Receiver",
    "ServerConnection",
    "serve",
]


class Owner(Protocol):
    """The listener as a connection sees it: limits the number of connections, and adds up their traffic."""

    @property
    def clock(self) -> ServingClock:
        """The clock for everything that a client may be too slow with."""
        ...

    def admit(self, connection: ServerConnection) -> bool:
        """Whether the connection may stay."""
        ...

    def tells_of_misdirected(self) -> bool:
        """Whether to log that a client speaks another protocol: once a minute, as some clients retry every second."""
        ...

    def forget(self, connection: ServerConnection) -> None:
        """The connection is gone."""
        ...


class FaultHook(Protocol):
    """Stands between a connection and its session in tests: may wait, change the frame or the answer, or hang up."""

    async def __call__(self, peer: Peer, frame: Frame, handle: Handle) -> Pieces | None: ...


# Deferred answers: written by callbacks, without a task. Those of one loop iteration are sent together.
class Receiver(Protocol):
    """The part of a connection that `DeferredResponses` calls."""

    def late_came(self, pieces: Pieces) -> None:
        """Write an answer. Raises nothing."""
        ...

    def late_sent(self) -> None:
        """All answers of this iteration have been written."""
        ...


class DeferredResponses:
    """One connection's deferred answers: ``count`` of them are due, to requests of ``bytes`` bytes together."""

    __slots__ = ("_empty", "_loop", "_outgoing", "_receiver", "_waking", "bytes", "count")

    def __init__(self, loop: asyncio.AbstractEventLoop, outgoing: Outgoing, receiver: Receiver) -> None:
        self._loop = loop
        self._outgoing = outgoing
        self._receiver = receiver
        self._waking = False
        self._empty: asyncio.Future[None] | None = None
        self.count = self.bytes = 0

    def expect(self, answer: Deferred[Pieces], size: int) -> None:
        """Write ``answer`` when it comes; ``size`` is its request's in bytes."""
        self.count += 1
        self.bytes += size
        answer.tell(partial(self._came, size))

    async def all_came(self) -> None:
        """Return when no answer is due."""
        while self.count:
            self._empty = self._empty or self._loop.create_future()
            await asyncio.shield(self._empty)

    def _came(self, size: int, pieces: Pieces) -> None:
        self.count -= 1
        self.bytes -= size
        if self.count and not self._waking:
            # Other answers of this connection are likely to come in the same iteration.
            self._waking = True
            self._outgoing.gather()
            self._loop.call_soon(self._send)
        self._receiver.late_came(pieces)
        if not self.count:
            self._send()

    def _send(self) -> None:
        if self._waking:
            self._waking = False
            self._outgoing.send_gathered()
        self._receiver.late_sent()
        if self._empty is not None and not self.count:
            self._empty.set_result(None)
            self._empty = None


# Memory of one connection: the received part of an incomplete frame, ``queued_bytes`` behind the request in progress,
# ``write_high_water_bytes`` of unsent answers, and the part of a large answer that is not in a file (`Outgoing`).
# Reading stops while any of these is full, or while all connections together hold more than their `Budget`. Sessions
# that serve concurrently may exceed the high-water mark by the answers to frames already begun; at
# ``write_limit_bytes`` the connection is closed.

_FLUSH_SECONDS = 2.0
_WEIGH_AGAIN_S = 0.25
_RECEIVED_AT_ONCE = 256 * 1024
_LUMPS = 64
"""An answer takes at most this fraction of the free memory."""
_RECEIVED_LATE = 16 * 1024
"""How much to receive once this iteration's budget is used up."""


class ServerConnection(asyncio.BufferedProtocol):
    """One client's connection as the node sees it: runs one Session over one transport."""

    def __init__(
        self, owner: Owner, front: Opens, options: ListenerOptions, tap: FaultHook | None, budget: Budget
    ) -> None:
        self._owner = owner
        self._budget = budget
        self._front = front
        self._options = options
        self._tap = tap
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Frame] = deque()
        self._queued_bytes = self._serving_bytes = self._serving = self._holds = self._moved_from = self.received = 0
        self._drained: asyncio.Future[None] | None = None
        self._reading = True
        self.host = ""
        """The client's host."""
        self._closing = self._draining = self._in_order = self._at_once = False
        self._cut_off: ServingTimer | None = None
        self._again: asyncio.TimerHandle | None = None
        self._worker: asyncio.Task[None] | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        self._now = owner.clock.time
        self._last_heard = self.progressed = self._now()
        self._heard = False
        self._transport: asyncio.Transport
        self._peer: Peer
        self._session: Session | None = None
        self._intake: ReceiveBuffer
        self._outgoing: Outgoing
        self._late: DeferredResponses

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No assert isinstance: transports of other loops are not subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        self.host = host
        if not self._owner.admit(self):
            self._closing = True
            self._transport.abort()
            return
        if (raw := transport.get_extra_info("socket")) is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        high = self._options.write_high_water_bytes
        self._outgoing = Outgoing(self._transport, high, self._budget.turn, self._lump, self)
        self._late = DeferredResponses(self._loop, self._outgoing, self)
        self._peer = Peer(Endpoint(host, port), self._write, self.hang_up)
        self._session = session = self._front.session(self._peer)
        self._in_order = session.ordered
        self._at_once = session.at_once and self._tap is None
        # Not Arrow's pool: a node works without Arrow, whose import alone takes longer than many requests.
        self._intake = ReceiveBuffer(session.framing(), allocate_mapped)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._intake.space()[: _RECEIVED_LATE if self._budget.turn.over else _RECEIVED_AT_ONCE]

    def buffer_updated(self, nbytes: int) -> None:
        if self._closing:
            return
        self.received += nbytes
        if nbytes >= _RECEIVED_LATE:
            self._budget.turn.spend(nbytes)
        only = self._intake.only(nbytes)
        try:
            if isinstance(only, Frame):
                self._accept(only)
                if not (self.tasks or self._late.count or self._holds):
                    return  # it is answered, and `_write` has checked what the transport holds of that
            elif not only:
                self._accept_all(self._intake.received(nbytes))
        except PenstockError as error:
            self._refuse(error)
        except (OSError, MemoryError) as error:
            # The memory for the request could not be allocated; what is left of the machine goes to the others.
            _log.warning("hanging up on %s: no room for its request: %s", self._peer.address, error)
            self.abort()
        self.weigh()

    def _accept_all(self, frames: Iterable[Frame]) -> None:
        self._outgoing.gather()  # answers given immediately are sent together
        try:
            for frame in frames:
                self._accept(frame)
                if self._transport.is_closing():
                    break
        finally:
            self._outgoing.send_gathered()

    def pause_writing(self) -> None:
        self._outgoing.pause()
        self._see_who_waits()

    def resume_writing(self) -> None:
        self._outgoing.resume()
        self._see_who_waits()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._closing = True
        self._queue.clear()
        if self._cut_off is not None:
            self._cut_off.cancel()
        self._budget.hold(self, 0)
        self._owner.forget(self)
        if self._session is not None:
            self._outgoing.clear()
            self._intake.drop()
            self._see_who_waits()
            self._session.lost()

    def _see_who_waits(self) -> None:
        """Continue to serve once the client has read enough, not before."""
        if self._outgoing.busy == (self._drained is not None):
            return
        if self._drained is None:
            self._drained = self._loop.create_future()
        else:
            self._drained.set_result(None)
            self._drained = None
            self.weigh()
        self._adjust_reading()

    # Called by `Outgoing`.

    def sent_on(self) -> None:
        """See `Sending`."""
        self._heard = True
        self.progressed = self._now()
        self.weigh()
        self._see_who_waits()

    def cannot_send_on(self, error: PenstockError) -> None:
        """See `Sending`."""
        _log.error("hanging up on %s amid an answer: %s", self._peer.address, error)
        self.abort()

    def _lump(self) -> int:
        return min(LUMP_BYTES, max(LITTLE, self._budget.free // _LUMPS))

    # Called by the listener.

    @property
    def sent(self) -> int:
        """Bytes of answers that the transport has taken."""
        return self._outgoing.sent if self._session else 0

    def idle_since(self, now: float) -> float:
        """Seconds without a frame, 0 while one is being served; counted from the call that first found none."""
        if self._heard or self._serving or self._late.count:
            self._heard = False
            self._last_heard = now
        return now - self._last_heard

    def stop_reading(self) -> None:
        """Serve what was received, and read nothing more."""
        self._draining = True
        if self._session is not None and self._late.count:
            self._begin(self._late.all_came())
        self._adjust_reading()

    def hang_up(self) -> None:
        """Flush and close; a client that does not read is cut off after two seconds."""
        if not self._closing:
            self._closing = True
            self._queue.clear()
            self._outgoing.finish(self._transport.close)
            self._cut_off = self._owner.clock.call_later(_FLUSH_SECONDS, self._transport.abort)

    def give_up(self) -> None:
        """Close a connection that was idle for too long."""
        if self._session is not None and self._outgoing.busy:
            patience = self._options.idle_timeout_s
            _log.warning("%s has not read on in an answer for %.0f s; hanging up", self._peer.address, patience)
        self.abort()

    def abort(self) -> None:
        """Close without flushing."""
        self._closing = True
        self._outgoing.clear()
        self._transport.abort()

    # Called by the budget.

    def budget_changed(self) -> None:
        """See `Holder`."""
        self._adjust_reading()

    cut_off = abort

    def weigh(self) -> None:
        """See `Holder`; called whenever the held bytes change."""
        if self._closing:
            return
        unsent = self._transport.get_write_buffer_size() + self._outgoing.held
        held = self._queued_bytes + self._serving_bytes + self._late.bytes + self._intake.pending + unsent
        if held > LITTLE or self._holds > LITTLE:
            if not self._holds or abs(held - self._moved_from) >= LITTLE:
                self._moved_from = held
                self.progressed = self._now()
            self._holds = held
            self._budget.hold(self, held)
            if self._budget.exhausted:
                self._adjust_reading()
        if unsent and held > LITTLE and self._drained is None and self._again is None:
            # Below its pause limit a transport does not report that the rest of an answer was sent.
            self._again = self._loop.call_later(_WEIGH_AGAIN_S, self._weigh_again)

    def _weigh_again(self) -> None:
        self._again = None
        self.weigh()

    # Serving.

    def _accept(self, frame: Frame) -> None:
        self._heard = True
        if self._holds:
            self.progressed = self._now()
        if self._in_order:
            if self._at_once and self._worker is None and self._drained is None:
                if (begun := self._begin_serving(frame)) is not None:
                    self._worker = self._begin(self._serve_in_order(frame, begun))
                    self._adjust_reading()
                return
            self._queue.append(frame)
            self._queued_bytes += len(frame.body)
            if self._worker is None:
                self._worker = self._begin(self._serve_in_order())
        elif not self._at_once:
            self._begin(self._serve(frame))
        elif (begun := self._begin_serving(frame)) is None:
            return
        else:
            self._begin(self._answer(frame, begun.rest()))
        self._adjust_reading()

    def _begin_serving(self, frame: Frame) -> SuspendedCoroutine | None:
        """Serve a frame where it arrives. Return the rest of the work if its answer has to wait for something."""
        assert self._session is not None
        answer: Pieces | Deferred[Pieces] | None = None
        try:
            work = self._session.handle(frame)
            waits_for = work.send(None)  # `run_eagerly` inlined, which saves a call per request
        except StopIteration as ended:
            answer = ended.value
        except PenstockError as error:
            self._refuse(error)
        except Exception:
            self._failed()
        else:
            return waits(work, waits_for)
        self._give(answer, frame)
        return None

    def _give(self, answer: Pieces | Deferred[Pieces] | None, frame: Frame) -> None:
        if isinstance(answer, Deferred):
            self._late.expect(answer, len(frame.body))
            self._adjust_reading()
        elif answer is not None:
            self._write(answer)

    def _begin(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not self._in_order:
            self._adjust_reading()

    async def _serve_in_order(self, frame: Frame | None = None, begun: SuspendedCoroutine | None = None) -> None:
        try:
            if frame is not None and begun is not None:
                await self._answer(frame, begun.rest())
            while self._queue:
                while self._drained is not None:
                    await asyncio.shield(self._drained)
                if self._queue:  # it may have been cleared meanwhile
                    frame = self._queue.popleft()
                    self._queued_bytes -= len(frame.body)
                    await self._serve(frame)
                self._adjust_reading()
        finally:
            self._worker = None

    async def _serve(self, frame: Frame) -> None:
        assert self._session is not None
        handled = self._session.handle(frame) if self._tap is None else self._tap(self._peer, frame, self._handled)
        await self._answer(frame, handled)

    async def _handled(self, frame: Frame) -> Pieces | None:
        assert self._session is not None
        return await arrived(await self._session.handle(frame))

    async def _answer(self, frame: Frame, work: Awaitable[Pieces | Deferred[Pieces] | None]) -> None:
        self._serving += 1
        self._serving_bytes += len(frame.body)
        try:
            answer = await work
        except PenstockError as error:
            self._refuse(error)
        except Exception:
            self._failed()
        else:
            self._give(answer, frame)
        finally:
            self._serving -= 1
            self._serving_bytes -= len(frame.body)
            self.weigh()

    def _failed(self) -> None:
        _log.exception("serving %s failed; its connection is closed", self._peer.address)
        self.hang_up()

    # Called by deferred answers.

    def late_came(self, pieces: Pieces) -> None:
        """See `Receiver`."""
        try:
            self._write(pieces)
        except Exception:
            self._failed()

    def late_sent(self) -> None:
        """See `Receiver`."""
        if self._holds:
            self.weigh()
        if not self._reading:
            self._adjust_reading()

    def _write(self, pieces: Pieces) -> None:
        if self._closing or self._transport.is_closing():  # uvloop accepts no writes while closing
            return
        self._outgoing.put(pieces)
        unsent = self._transport.get_write_buffer_size() + self._outgoing.held
        if unsent or self._drained is not None:
            self._see_who_waits()
        if unsent > LITTLE:
            self.weigh()
        if unsent > self._options.write_limit_bytes:
            _log.warning("%s does not read its answers (%d bytes wait); hanging up", self._peer.address, unsent)
            self.abort()

    def _refuse(self, error: PenstockError) -> None:
        if not self._closing:
            warn = isinstance(error, ForeignProtocol) and self._owner.tells_of_misdirected()
            _log.log(
                logging.WARNING if warn else logging.INFO, "closing the connection of %s: %s", self._peer.address, error
            )
        self.hang_up()

    def _adjust_reading(self) -> None:
        options = self._options
        want = (
            not self._draining
            and self._drained is None
            and len(self._queue) < options.queued_frames
            and self._queued_bytes < options.queued_bytes
            and (self._in_order or len(self.tasks) + self._late.count < options.concurrent_frames)
            and not (self._budget.exhausted and self._holds > LITTLE)
        )
        if self._closing or want == self._reading:
            return
        self._reading = want
        change = self._transport.resume_reading if want else self._transport.pause_reading
        change()


_log = logging.getLogger("penstock.node")
_CLOSE_SECONDS = 3.0
_WARNING_EVERY_S = 60.0
_LOOKS = 20
"""Checks per idle timeout. A connection notes activity but no time, so it is closed up to two checks late."""


class Listener:
    """The listening sockets of one front, and their connections. Made by ``serve``."""

    def __init__(self, options: ListenerOptions, clock: ServingClock | None) -> None:
        self._options = options
        self.clock = clock or ServingClock(asyncio.get_running_loop())
        self._clock_is_shared = clock is not None
        self._connections: set[ServerConnection] = set()
        self._most = divided(options.max_connections, options.address_percent)
        self._from: dict[str, int] = {}
        self._listening: list[Listening] = []
        self._loop = asyncio.get_running_loop()
        self._sweep: asyncio.TimerHandle | None = None
        self._open_at: Callable[[Endpoint, Opens], Awaitable[None]] | None = None
        self._empty: asyncio.Future[None] | None = None
        self.accepted = self.refused = 0
        """Clients that were admitted, and refused, since the node listens."""
        self._gone_received = self._gone_sent = 0
        self._warned = self._misdirected = -_WARNING_EVERY_S

    @property
    def endpoint(self) -> Endpoint:
        """Where clients connect; the port is real even if 0 was asked for."""
        return self._listening[0].endpoint

    @property
    def connections(self) -> int:
        """The number of connected clients."""
        return len(self._connections)

    @property
    def received(self) -> int:
        """Bytes received from clients."""
        return self._gone_received + sum(each.received for each in self._connections)

    @property
    def sent(self) -> int:
        """Bytes sent to clients."""
        return self._gone_sent + sum(each.sent for each in self._connections)

    async def open_further(self, port: int, who: Opens) -> None:
        """Serve ``who`` at a further port of the same host. Raises OSError if the port cannot be had."""
        if self._open_at is None:
            raise OSError("the node stops")
        await self._open_at(Endpoint(self.endpoint.host, port), who)

    def stop_accepting(self) -> None:
        """Refuse new clients; connected ones are still served."""
        self._open_at = None
        for each in self._listening:
            each.close()

    async def close(self, drain_s: float = 1.0) -> None:
        """Stop accepting and reading, let requests in progress finish for ``drain_s`` seconds, close every client."""
        self.stop_accepting()
        if self._sweep is not None:
            self._sweep.cancel()
        if not self._clock_is_shared:
            self.clock.stop()
        connections = list(self._connections)
        for connection in connections:
            connection.stop_reading()
        tasks = {task for connection in connections for task in connection.tasks}
        if tasks:
            _, tasks = await asyncio.wait(tasks, timeout=drain_s)
        await self._hang_up_all()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _hang_up_all(self) -> None:
        for connection in list(self._connections):
            connection.hang_up()
        if not self._connections:
            return
        self._empty = self._loop.create_future()
        try:
            await asyncio.wait_for(self._empty, _CLOSE_SECONDS)
        except TimeoutError:
            for connection in list(self._connections):
                connection.abort()

    # Called by `ServerConnection`.

    def admit(self, connection: ServerConnection) -> bool:
        """Count a new connection; False if there are too many."""
        host, most = connection.host, self._most
        from_host = self._from.get(host, 0)
        if len(self._connections) >= most.total:
            return self._refused(f"{len(self._connections)} connections are open already, and no more are allowed")
        if from_host >= most.address:
            return self._refused(
                f"{from_host} connections from {host} are open, its share of max_connections (address_share_percent)"
            )
        self._from[host] = from_host + 1
        self._connections.add(connection)
        self.accepted += 1
        return True

    def _refused(self, why: str) -> bool:
        self.refused += 1
        if self._loop.time() - self._warned >= _WARNING_EVERY_S:
            self._warned = self._loop.time()
            _log.warning("refusing clients (%d so far): %s", self.refused, why)
        return False

    def tells_of_misdirected(self) -> bool:
        """See `Owner`."""
        due = self._loop.time() - self._misdirected >= _WARNING_EVERY_S
        if due:
            self._misdirected = self._loop.time()
        return due

    def forget(self, connection: ServerConnection) -> None:
        """Forget a closed connection."""
        if connection in self._connections:
            self._connections.discard(connection)
            left = self._from.pop(connection.host) - 1
            if left:
                self._from[connection.host] = left
            self._gone_received += connection.received
            self._gone_sent += connection.sent
        if self._empty is not None and not self._connections and not self._empty.done():
            self._empty.set_result(None)

    def opened(self, listening: Listening) -> None:
        """Add a listening socket. Called by ``serve``, first for ``endpoint``."""
        self._listening.append(listening)
        if self._sweep is None:
            self._watch_idle()

    def _watch_idle(self) -> None:
        limit = self._options.idle_timeout_s
        now = self.clock.time()
        for connection in list(self._connections):
            if connection.idle_since(now) > limit:
                connection.give_up()
        self._sweep = self._loop.call_later(limit / _LOOKS, self._watch_idle)


async def serve(
    front: Opens,
    endpoint: Endpoint,
    *,
    options: ListenerOptions | None = None,
    network: Network | None = None,
    tap: FaultHook | None = None,
    budget: Budget | None = None,
    further: Mapping[int, Opens] | None = None,
    clock: ServingClock | None = None,
) -> Listener:
    """Listen on ``endpoint`` (port 0: any free one) and run a Session of ``front`` for each client.

    ``network`` None is TCP. ``tap`` gets each frame and answer, for fault injection. Listeners of one node share a
    ``budget``. ``further`` has more ports of the same host, and what to serve there. ``clock`` is the node's clock
    for deadlines of clients; None: the listener makes its own. Raises OSError where an address cannot be listened on.
    """
    options = options or ListenerOptions()
    network = network or Tcp(ssl=options.ssl)
    listener = Listener(options, clock)
    shared = budget or Budget(options.memory_bytes)
    shared.now = listener.clock.time

    async def open_at(at: Endpoint, who: Opens) -> None:
        def connected() -> ServerConnection:
            return ServerConnection(listener, who, options, tap, shared)

        listener.opened(await network.listen(connected, at, backlog=options.backlog))

    listener._open_at = open_at
    try:
        await open_at(endpoint, front)
        for port, who in (further or {}).items():
            await open_at(Endpoint(endpoint.host, port), who)
    except BaseException:
        await listener.close(0)
        raise
    return listener
