"""One connection of AsyncioChannel: requests out, answers matched by correlation id, one deadline per request.

`AsyncioPending`, `CallbackRequest` and `CallbackRequests` are requests under way. `DetachedSocketReader` lets another
thread read the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

from penstock.concurrency.locks import LOOP, TryLock
from penstock.errors import ConnectionLost, FirstContactTimeout, PenstockError, ProtocolViolation
from penstock.interfaces.channel import Dialect, Many, OnAnswer, OnAnswers, Outgoing
from penstock.interfaces.framing import Buffer, Buffers, Frame
from penstock.model import Endpoint
from penstock.net.buffers import ReceiveBuffer, join_small
from penstock.net.connecting import (
    FIRST_S,
    LARGEST_CORRELATION,
    FirstContact,
    Silence,
    TransportOptions,
    UnreachableNodeLog,
    hung_up,
    lost,
    timed_out,
)

__all__ = [
    "AsyncioConnection",
    "AsyncioPending",
    "CallbackRequest",
    "CallbackRequests",
    "DetachedSocketReader",
    "own_socket",
]


# Requests under way: awaited, with a callback, or several with one callback.
class AsyncioPending:
    """A request whose answer is awaited, until ``until`` (loop time), which is ``timeout_s`` after its start."""

    __slots__ = ("future", "timeout_s", "until")

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        self.future: asyncio.Future[Frame] = loop.create_future()
        self.timeout_s = timeout_s
        self.until = loop.time() + timeout_s

    def settle(self, frame: Frame) -> None:
        """Deliver the answer."""
        if not self.future.done():
            self.future.set_result(frame)

    def fail(self, error: PenstockError) -> None:
        """Deliver an error instead of an answer."""
        if not self.future.done():
            self.future.set_exception(error)
            self.future.exception()  # marks it as retrieved: asyncio would log a warning if the future is never awaited

    @property
    def answered(self) -> bool:
        """Whether ``reply`` would not wait."""
        return self.future.done()

    async def reply(self) -> Frame:
        """Wait for the answer. Raises RequestTimeout, ConnectionLost, ProtocolViolation."""
        return await self.future


class CallbackRequest:
    """A request whose answer goes to a callback."""

    __slots__ = ("_loop", "settle", "timeout_s", "until")

    def __init__(self, loop: asyncio.AbstractEventLoop, settle: OnAnswer, now: float, timeout_s: float) -> None:
        self._loop = loop
        self.settle = settle
        """Called directly: another iteration of the loop would cost more than all the rest."""
        self.timeout_s = timeout_s
        self.until = now + timeout_s

    def fail(self, error: PenstockError) -> None:
        """Call back in a later iteration. The callback may write on this connection, which is still being closed."""
        self._loop.call_soon(self.settle, error)


class CallbackRequests:
    """Requests numbered from ``first`` on, with one callback that gets the index of each."""

    __slots__ = ("_answered", "_first", "_loop", "_over", "_settle", "timeout_s", "until")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, first: int, count: int, settle: OnAnswers, timeout_s: float
    ) -> None:
        self._loop = loop
        self._first = first
        self._answered = bytearray(count)
        self._settle = settle
        self._over = False
        self.timeout_s = timeout_s
        self.until = loop.time() + timeout_s

    def settle(self, frame: Frame) -> None:
        """Deliver one answer, directly."""
        place = (frame.correlation - self._first) % LARGEST_CORRELATION
        self._answered[place] = 1
        self._settle(place, frame)

    def fail(self, error: PenstockError) -> None:
        """Fail all that are unanswered, in a later iteration."""
        if not self._over:
            self._over = True
            self._loop.call_soon(self._fail, error)

    def _fail(self, error: PenstockError) -> None:
        for place, answered in enumerate(self._answered):
            if not answered:
                self._settle(place, error)


# Socket handover: a thread receives a connection's answers itself, so that no other thread has to wake it for them.
#
# The transport stops reading meanwhile. The thread has its own descriptor of the socket, because the loop may close the
# transport's at any time. Neither side waits for the other: work for the loop is posted to it, and work that must not
# overlap with the thread's needs the `TryLock`.
_CAN_WAIT: Final = hasattr(select, "poll")
_MOMENT_MS: Final = 1
"""How long to wait for the rest of a small answer."""


def own_socket(transport: asyncio.Transport) -> socket.socket | None:
    """Duplicate the connection's socket. None with TLS, where the socket's bytes are not the protocol's, or if there is
    no free descriptor."""
    there = transport.get_extra_info("socket")
    if there is None or not _CAN_WAIT or transport.get_extra_info("sslcontext") is not None:
        return None
    try:
        own = socket.socket(fileno=os.dup(there.fileno()))
    except OSError:
        return None
    own.setblocking(False)
    return own


class DetachedSocketReader:
    """``penstock.interfaces.channel.LentConnection``."""

    __slots__ = (
        "_connection", "_first", "_hold", "_intake", "_loop", "_now", "_request", "_rest", "_sock", "fileno", "held_s",
        "over",
    )  # fmt: skip

    def __init__(
        self,
        connection: AsyncioConnection,
        loop: asyncio.AbstractEventLoop,
        intake: ReceiveBuffer,
        sock: socket.socket,
        correlation: int,
        request: CallbackRequest,
        hold: TryLock,
    ) -> None:
        """``request`` waits for the answer to ``correlation``."""
        self._connection = connection
        self._loop = loop
        self._intake = intake
        self._sock = sock
        self._first = self._now = correlation
        self._request = request
        self._hold = hold
        self._rest = select.poll()
        self._rest.register(sock, select.POLLIN)
        self.fileno = sock.fileno()
        self.held_s = 0.0
        """How long the peer may delay the answer that is due."""
        self.over = False

    # Called in the thread.

    def receive(self) -> Frame | None:
        """See `LentConnection`."""
        while True:
            try:
                count = self._sock.recv_into(self._intake.space())
            except (BlockingIOError, InterruptedError):
                return None
            except OSError:
                count = 0
            if not count:
                self.give_back()  # the loop will see the same end, and knows the callers
                return None
            frame = self._intake.only(count)
            if not frame:
                self._back(self._now, partial(self._connection.buffer_updated, count))
                return None
            self._connection.received += count
            if not isinstance(frame, int):
                break
            if not self._rest_came(frame):
                return None
        if frame.correlation != self._now or not frame.reply:
            self.give_back(frame)
            return None
        return frame

    def _rest_came(self, missing: int) -> bool:
        """Wait a moment for the rest of a small answer. A Kafka broker writes head, records and end of an answer
        separately, and each write would wake this thread."""
        self._wake_for(missing)
        try:
            return bool(self._rest.poll(_MOMENT_MS))
        finally:
            self._wake_for(1)

    def _wake_for(self, least: int) -> None:
        """Make ``poll`` report only ``least`` bytes or more. Where the system cannot do that, it reports any byte."""
        try:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)
        except OSError:
            return

    def send(self, request: Outgoing, *, timeout_s: float, held_s: float) -> bool:
        """See `LentConnection`."""
        if self.over:
            return False
        connection = self._connection
        correlation = connection.last % LARGEST_CORRELATION + 1
        buffers = request(correlation)
        data = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        try:
            count = self._sock.send(data)
        except OSError:
            count = 0  # the loop repeats the write, and gets the error
        connection.last = self._now = correlation
        connection.last_used = now = self._loop.time()
        connection.sent += len(data)
        self.held_s = held_s
        self._request.until = now + timeout_s
        if count < len(data):
            self._back(correlation, partial(connection.write_rest, bytes(data[count:])))
        return True

    def give_back(self, frame: Frame | None = None, then: Callable[[], None] | None = None) -> None:
        """See `LentConnection`."""
        if frame is not None:
            self._back(self._now, partial(self._connection.hear, frame))
        else:
            self._back(self._now if then is None else None, then)

    def break_off(self, then: Callable[[], None]) -> None:
        """See `LentConnection`."""

        def broken() -> None:
            self._connection.returned(self._first, self._now)
            then()
            self._connection.abort()
            self._sock.close()

        if not self.over:
            self.over = True
            self._post(broken)

    def forget(self) -> None:
        """See `LentConnection`."""
        self._sock.close()

    def _back(self, under_way: int | None, work: Callable[[], None] | None) -> None:
        def back() -> None:
            if self._connection.returned(self._first, under_way) and work is not None:
                work()
            self._sock.close()

        if not self.over:
            self.over = True
            self._post(back)

    def _post(self, work: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it everything on it
            self._loop.call_soon_threadsafe(work)

    # Called on the loop.

    def recall(self) -> bool:
        """Take the connection back unless the thread is working on it; return whether it was taken."""
        if self.over or not self._hold.take(LOOP):
            return False
        self.over = True
        try:
            self._connection.returned(self._first, self._now)
            self._sock.close()
        finally:
            self._hold.leave(LOOP)
        return True

    def ended(self) -> None:
        """The connection has ended: wake the thread if it waits."""
        self.over = True
        if self._hold.take(LOOP):
            self._sock.close()
            self._hold.leave(LOOP)
        else:
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)


_AWAY_S = 0.5
"""A timer that fires so late shows that this process did nothing meanwhile."""
_GRACE_S = 1.0
"""Extra time for answers that arrived while the process did nothing."""


class AsyncioConnection(asyncio.BufferedProtocol):
    """``penstock.interfaces.channel.Connection`` over an asyncio transport.

    A request without an answer in time closes the connection, which fails all others under way. One timer per
    connection checks for that, so that an ordinary request starts and stops no timer.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        dialect: Dialect[Any],
        options: TransportOptions,
        away: UnreachableNodeLog,
        contact: FirstContact | None = None,
    ) -> None:
        self._contact = contact or FirstContact()
        self._heard = False
        self._first_due: asyncio.TimerHandle | None = None
        self._silence = Silence(endpoint, away)
        self._look: asyncio.TimerHandle | None = None
        self._endpoint = endpoint
        self._dialect = dialect
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._intake = ReceiveBuffer(dialect.framing())
        self._pending: dict[int, AsyncioPending | CallbackRequest | CallbackRequests] = {}
        self._clock: asyncio.TimerHandle | None = None
        self._rings_at = 0.0
        self.last = 0
        self.last_used = self._loop.time()
        self._transport: asyncio.Transport | None = None
        self._window: asyncio.Future[None] | None = None
        self._turn = asyncio.Lock()
        self._queued = 0
        self._lent: DetachedSocketReader | None = None
        self._end: PenstockError | None = None
        self._any_came = False
        self.received = self.sent = 0
        self.gone: asyncio.Future[None] = self._loop.create_future()

    @property
    def endpoint(self) -> Endpoint:
        """The peer's address."""
        return self._endpoint

    @property
    def under_way(self) -> int:
        """The number of unanswered requests."""
        return len(self._pending)

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._end is not None

    @property
    def free(self) -> bool:
        """Whether a request can be written now, and no other is queued."""
        return self._window is None and not self._queued

    def prompt(self, idle_timeout_s: float) -> bool:
        """Both ``free`` and ``usable``, in one call because it is on the fast path of each request."""
        if self._window is not None or self._queued or self._end is not None:
            return False
        return bool(self._pending) or self._loop.time() - self.last_used <= idle_timeout_s

    def usable(self, idle_timeout_s: float) -> bool:
        """Whether it is open, and not idle for so long that the peer may be about to close it."""
        if self._end is not None:
            return False
        return bool(self._pending) or self._loop.time() - self.last_used <= idle_timeout_s

    def start(self, request: Outgoing, *, timeout_s: float, held_s: float = 0.0) -> AsyncioPending:
        """Write a request; its answer is fetched later. Raises ConnectionLost."""
        correlation = self._written(request)
        pending = AsyncioPending(self._loop, timeout_s)
        self._expect(correlation, pending, held_s)
        return pending

    def tell(self, request: Outgoing, settle: OnAnswer, *, timeout_s: float, held_s: float = 0.0) -> None:
        """Write a request; ``settle`` gets its answer. Raises ConnectionLost."""
        correlation = self._written(request)
        self._expect(correlation, CallbackRequest(self._loop, settle, self.last_used, timeout_s), held_s)

    def start_all(self, requests: Sequence[Outgoing], *, timeout_s: float) -> Sequence[AsyncioPending]:
        """Write requests in one go."""
        buffers: list[Buffer] = []
        started: dict[int, AsyncioPending] = {}
        for request in requests:
            correlation = self._next_correlation()
            buffers.extend(request(correlation))
            started[correlation] = AsyncioPending(self._loop, timeout_s)
        self._write(buffers)
        self._await_answer(0.0)
        self._pending.update(started)
        for pending in started.values():
            self._ring_by(pending.until)
        return list(started.values())

    def tell_all(self, count: int, requests: Many, settle: OnAnswers, *, timeout_s: float) -> None:
        """Write requests in one go; ``settle`` gets each answer. Raises ConnectionLost."""
        correlations = [self._next_correlation() for _ in range(count)]
        self._write(requests(correlations))
        self._await_answer(0.0)
        many = CallbackRequests(self._loop, correlations[0], count, settle, timeout_s)
        self._pending.update(dict.fromkeys(correlations, many))
        self._ring_by(many.until)

    async def call(self, request: Outgoing, *, timeout_s: float, held_s: float = 0.0) -> Frame:
        """Write a request once the window is open, and wait for its answer. Requests are written in order of calls."""
        if self.free:
            return await self.start(request, timeout_s=timeout_s, held_s=held_s).future
        self._queued += 1
        try:
            async with self._turn:
                if self._window is not None:
                    await self._open_window(timeout_s)
                pending = self.start(request, timeout_s=timeout_s, held_s=held_s)
        finally:
            self._queued -= 1
        return await pending.future

    async def send(self, message: Outgoing) -> None:
        """Write a message that is never answered. Waits while the window is shut."""
        self._queued += 1
        try:
            async with self._turn:
                if self._window is not None:
                    await self._open_window(self._options.connect_timeout_s)
                self._write(message(self._next_correlation()))
        finally:
            self._queued -= 1

    # Socket handover.

    def lend(self, hold: TryLock) -> DetachedSocketReader | None:
        """``penstock.interfaces.channel.PromptConnection``."""
        transport, ready = self._transport, len(self._pending) == 1 and self._end is None and self._lent is None
        if transport is None or not ready or not self.free or self._intake.pending:
            return None
        ((correlation, request),) = self._pending.items()
        if not isinstance(request, CallbackRequest) or transport.get_write_buffer_size():
            return None
        if (sock := own_socket(transport)) is None:
            return None
        transport.pause_reading()
        self._lent = DetachedSocketReader(self, self._loop, self._intake, sock, correlation, request, hold)
        return self._lent

    def returned(self, before: int, now: int | None) -> bool:
        """The thread no longer receives. The request ``before`` was under way at handover; ``now`` is under way, or
        None.

        Returns False if the connection has ended; the callback has got the error then.
        """
        self._lent = None
        request = self._pending.pop(before, None)
        if request is None or self._end is not None or self._transport is None:
            return False
        if now is not None:
            self._pending[now] = request
            self._await_answer(0.0)
            self._ring_by(request.until)
        self._transport.resume_reading()
        return True

    def hear(self, frame: Frame) -> None:
        """Handle a frame that the thread received."""
        try:
            self._take(frame)
        except PenstockError as error:
            self._break(error)

    def write_rest(self, rest: Buffer) -> None:
        """Write the rest of a request that was written in part."""
        assert self._transport is not None
        self._transport.write(rest)

    # Closing.

    def close(self) -> None:
        """Flush and close; requests under way fail with ConnectionLost."""
        if self._transport is not None:
            self._transport.close()
        self._finish(ConnectionLost("the connection was closed", node=str(self._endpoint)))

    def abort(self) -> None:
        """Close without flushing."""
        if self._transport is not None:
            self._transport.abort()
        self._finish(ConnectionLost("the connection was closed", node=str(self._endpoint)))

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No assert isinstance: transports of other loops are not subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._options.write_high_water_bytes)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._intake.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._any_came = True
        self.received += nbytes
        if self._end is not None:
            return
        self._silence.heard(self._loop.time())
        try:
            only = self._intake.only(nbytes)
            if only:
                if not isinstance(only, int):
                    self._take(only)
                return
            for frame in self._intake.received(nbytes):
                self._take(frame)
        except PenstockError as error:
            self._break(error)

    def pause_writing(self) -> None:
        if self._window is None:
            self._window = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._window is not None:
            self._window.set_result(None)
            self._window = None

    def connection_lost(self, exc: Exception | None) -> None:
        failure = (lost if self._any_came else hung_up)(self._endpoint, exc or "the peer closed it")
        if self._end is None and not self._heard:
            self._contact.failed(self._endpoint, failure)
        self._finish(failure)
        self.resume_writing()
        if not self.gone.done():
            self.gone.set_result(None)

    # Internals.

    def _written(self, request: Outgoing) -> int:
        """Write a request and return the correlation id of its answer."""
        self.last = correlation = self.last % LARGEST_CORRELATION + 1
        self._write(request(correlation))
        return correlation

    def _expect(self, correlation: int, pending: AsyncioPending | CallbackRequest, held_s: float) -> None:
        self._await_answer(held_s)
        self._pending[correlation] = pending
        if self._clock is None or pending.until < self._rings_at:
            self._ring_by(pending.until)

    def _next_correlation(self) -> int:
        self.last = self.last % LARGEST_CORRELATION + 1
        return self.last

    def _write(self, buffers: Buffers) -> None:
        if self._end is not None:
            raise lost(self._endpoint, self._end.message)
        assert self._transport is not None
        self.last_used = self._loop.time()
        if len(buffers) == 1:
            self.sent += len(buffers[0])
            self._transport.write(buffers[0])
            return
        for buffer in join_small(buffers):
            self.sent += len(buffer)
            self._transport.write(buffer)

    def _await_answer(self, held_s: float) -> None:
        """Start the timer that checks for silence, while answers are due."""
        self._silence.asked(self.last_used, held_s, owed=bool(self._pending))
        if self._look is None:
            self._look = self._loop.call_later(FIRST_S + held_s, self._looks)
        if not self._heard and self._first_due is None and not self._contact.made:
            self._first_due = self._loop.call_at(self._contact.begin(self.last_used), self._first_is_late)

    def _first_is_late(self) -> None:
        """No server has answered in time, so all waiting requests fail."""
        self._first_due = None
        if self._pending and not self._contact.made:
            self._break(self._contact.error())

    def _looks(self) -> None:
        self._look = None
        if self._pending:
            if self._lent is not None:
                self._silence.heard(self.last_used + self._lent.held_s)
                self._lent.recall()
            self._look = self._loop.call_later(self._silence.look(self._loop.time()), self._looks)

    def _take(self, frame: Frame) -> None:
        if not self._heard:
            self._heard = True
            self._contact.answered()
        if not frame.reply:
            answer = self._dialect.pushed(self, frame)
            if answer is not None and self._end is None:
                self._write(answer)
            return
        pending = self._pending.pop(frame.correlation, None)
        if pending is None:
            raise ProtocolViolation(f"an answer to request {frame.correlation}, which was not asked")
        pending.settle(frame)

    def _ring_by(self, when: float) -> None:
        """Check for expired requests at ``when``, or earlier."""
        if self._clock is None or when < self._rings_at:
            if self._clock is not None:
                self._clock.cancel()
            self._clock, self._rings_at = self._loop.call_at(when, self._ring), when

    def _ring(self) -> None:
        self._clock = None
        now = self._loop.time()
        if now - self._rings_at > _AWAY_S and self._pending:
            # The process was held or stopped. The answers may be in the socket, which some loops read last.
            self._ring_by(now + _GRACE_S)
            return
        for correlation, pending in self._pending.items():
            if pending.until <= now:
                if self._lent is not None and self._lent.recall():
                    pending.until = now + _GRACE_S
                    break
                self._expired(correlation)
                return
        if self._pending:
            self._ring_by(min(pending.until for pending in self._pending.values()))

    def _expired(self, correlation: int) -> None:
        pending = self._pending.pop(correlation)
        error = timed_out(self._endpoint, pending.timeout_s)
        pending.fail(error)
        broken = lost(self._endpoint, error.message)
        broken.__cause__ = error  # tells other requests under way that the peer was slow, not gone
        self._break(broken)

    async def _open_window(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while self._window is not None:
                    await asyncio.shield(self._window)
        except TimeoutError:
            error = timed_out(self._endpoint, timeout_s)
            self._break(lost(self._endpoint, error.message))
            raise error from None

    def _break(self, error: PenstockError) -> None:
        if error.node is None and not isinstance(error, FirstContactTimeout):
            error.node = str(self._endpoint)
        if not self._heard:
            self._contact.failed(self._endpoint, error)
        if self._transport is not None:
            self._transport.abort()
        self._finish(error)

    def _finish(self, error: PenstockError) -> None:
        if self._end is None:
            self._end = error
        for timer in (self._look, self._clock, self._first_due):
            if timer is not None:
                timer.cancel()
        if self._lent is not None:
            self._lent.ended()
        pending, self._pending = self._pending, {}
        for each in pending.values():
            each.fail(self._end)
