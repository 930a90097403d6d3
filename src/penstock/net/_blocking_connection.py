"""One connection of BlockingChannel: a socket, and answers read by whoever waits for one."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from typing import Any

from penstock import _clock
from penstock.errors import ConnectionLost, PenstockError, ProtocolViolation
from penstock.model import Endpoint
from penstock.net._away import Away
from penstock.net._buffers import allocate, join_small
from penstock.net._links import LARGEST_CORRELATION
from penstock.net._reasons import hung_up, lost, timed_out
from penstock.net._silence import Silence
from penstock.net.first_contact import FirstContact
from penstock.net.stopping import Stop
from penstock.seams.channel import Dialect, Outgoing
from penstock.seams.framing import Buffer, Buffers, Frame

__all__ = ["BlockingConnection", "BlockingPending"]


_AT_ONCE_S = 0.001


class BlockingPending:
    """A request on its way. Its timeout counts while somebody waits in ``reply``, not before.

    A reader may well spend a minute with what it got before it asks for the answer that has long arrived.
    """

    __slots__ = ("_connection", "_correlation", "_held_s", "_timeout_s")

    def __init__(self, connection: BlockingConnection, correlation: int, timeout_s: float, held_s: float = 0.0) -> None:
        self._connection = connection
        self._correlation = correlation
        self._timeout_s = timeout_s
        self._held_s = held_s

    @property
    def answered(self) -> bool:
        """Whether there is nothing to wait for."""
        return self._connection.closed or self._connection.has_answer(self._correlation)

    def wait(self) -> None:
        """Read until the answer is there, and keep it for ``reply``; or until there can be none."""
        with contextlib.suppress(PenstockError):
            self._connection.keep_answer(self._correlation, self._timeout_s, self._held_s)

    async def reply(self) -> Frame:
        """Read until the answer is there. Raises RequestTimeout, ConnectionLost, ProtocolViolation."""
        return self._connection.read_answer(self._correlation, self._timeout_s, self._held_s)


class BlockingConnection:
    """``penstock.seams.channel.Connection`` over a socket; nothing in it ever suspends. For one thread at a time."""

    def __init__(
        self,
        endpoint: Endpoint,
        sock: socket.socket,
        dialect: Dialect[Any],
        away: Away,
        stop: Stop,
        *,
        greeted_until: float = float("inf"),
        contact: FirstContact | None = None,
    ) -> None:
        self._contact = contact or FirstContact()
        self._heard = False
        self._silence = Silence(endpoint, away)
        self._stop = stop
        self._until = greeted_until
        self._endpoint = endpoint
        self._socket = sock
        self._dialect = dialect
        self._framing = dialect.framing()
        self._last = 0
        self._last_used = _clock.monotonic()
        self._awaited: set[int] = set()
        self._arrived: dict[int, Frame] = {}
        self._end: PenstockError | None = None
        self._any_came = False

    @property
    def endpoint(self) -> Endpoint:
        """Where it leads."""
        return self._endpoint

    @property
    def closed(self) -> bool:
        """True once nothing can be sent any more."""
        return self._end is not None

    def greeted(self) -> None:
        """From now on every request has its own time."""
        self._until = float("inf")

    def usable(self, idle_timeout_s: float) -> bool:
        """Open, and not idle for so long that the peer may be about to close it."""
        idle = not self._awaited and _clock.monotonic() - self._last_used > idle_timeout_s
        return self._end is None and not idle

    def start(self, request: Outgoing, *, timeout_s: float, held_s: float = 0.0) -> BlockingPending:
        """Write a request now. Raises ConnectionLost, RequestTimeout if the peer does not take it."""
        self._last = correlation = self._last % LARGEST_CORRELATION + 1
        self._write(request(correlation), timeout_s)
        self._awaited.add(correlation)
        return BlockingPending(self, correlation, timeout_s, held_s)

    def start_all(self, requests: Sequence[Outgoing], *, timeout_s: float) -> Sequence[BlockingPending]:
        """Write requests now, in one go. Raises as ``start``."""
        buffers: list[Buffer] = []
        correlations: list[int] = []
        for request in requests:
            self._last = self._last % LARGEST_CORRELATION + 1
            correlations.append(self._last)
            buffers.extend(request(self._last))
        self._write(buffers, timeout_s)
        self._awaited.update(correlations)
        return [BlockingPending(self, correlation, timeout_s) for correlation in correlations]

    async def call(self, request: Outgoing, *, timeout_s: float, held_s: float = 0.0) -> Frame:
        """Write a request and read its answer."""
        return await self.start(request, timeout_s=timeout_s, held_s=held_s).reply()

    async def send(self, message: Outgoing) -> None:
        """Write something that is never answered."""
        self._last = self._last % LARGEST_CORRELATION + 1
        self._write(message(self._last), timeout_s=30.0)

    def close(self) -> None:
        """Close the socket; requests in flight will raise ConnectionLost."""
        self._ended(ConnectionLost("the connection was closed", node=str(self._endpoint)))

    def has_answer(self, correlation: int) -> bool:
        """Whether it was read while somebody waited for another one."""
        return correlation in self._arrived

    def keep_answer(self, correlation: int, timeout_s: float, held_s: float) -> None:
        """As ``read_answer``, for later."""
        self._arrived[correlation] = self.read_answer(correlation, timeout_s, held_s)

    def read_answer(self, correlation: int, timeout_s: float, held_s: float) -> Frame:
        """Called by BlockingPending: answers to other requests are kept for those who will ask."""
        frame = self._arrived.pop(correlation, None)
        if frame is not None:
            return frame
        begun = _clock.monotonic()
        deadline = min(begun + timeout_s, self._until)
        if not self._heard:
            deadline = min(deadline, self._contact.begin(begun))
        self._silence.asked(begun, held_s, owed=False)  # before, nobody listened
        while True:
            frame = self._read_frame(deadline, timeout_s)
            if not frame.reply:
                self._answer_push(frame, timeout_s)
                continue
            if frame.correlation not in self._awaited:
                raise self._break(
                    ProtocolViolation(
                        f"an answer to request {frame.correlation}, which was not asked", node=str(self._endpoint)
                    )
                )
            self._awaited.discard(frame.correlation)
            if frame.correlation == correlation:
                return frame
            self._arrived[frame.correlation] = frame

    def _answer_push(self, frame: Frame, timeout_s: float) -> None:
        answer = self._dialect.pushed(self, frame)
        if answer is not None:
            self._write(answer, timeout_s)

    def _write(self, buffers: Buffers, timeout_s: float) -> None:
        if self._end is not None:
            raise lost(self._endpoint, self._end.message)
        self._last_used = _clock.monotonic()
        try:
            self._socket.settimeout(max(min(timeout_s, self._until - _clock.monotonic()), _AT_ONCE_S))
            for buffer in join_small(buffers):
                self._socket.sendall(buffer)
        except TimeoutError:
            raise self._break(timed_out(self._endpoint, timeout_s)) from None
        except OSError as error:
            raise self._break(self._broken(error)) from None
        except BaseException as error:  # Ctrl-C between two halves of a request
            self._break(lost(self._endpoint, repr(error)))
            raise

    def _read_frame(self, deadline: float, timeout_s: float) -> Frame:
        if self._end is not None:
            raise lost(self._endpoint, self._end.message)
        try:
            while True:
                chunk = allocate(self._framing.need())
                self._fill(chunk, deadline)
                frame = self._framing.feed(chunk)
                if frame is not None:
                    self._heard = True
                    self._contact.answered()
                    return frame
        except TimeoutError:
            if not self._heard and self._contact.left(_clock.monotonic()) <= 0.0:
                raise self._break(self._contact.error()) from None
            raise self._break(timed_out(self._endpoint, timeout_s)) from None
        except OSError as error:
            raise self._break(self._broken(error)) from None
        except PenstockError as error:
            if error.node is None:
                error.node = str(self._endpoint)
            raise self._break(error) from None
        except BaseException as error:  # Ctrl-C in the middle of a frame: what follows would be misread
            self._break(lost(self._endpoint, repr(error)))
            raise

    def _fill(self, chunk: memoryview, deadline: float) -> None:
        filled, size = 0, len(chunk)
        while filled < size:
            count = self._receive(chunk[filled:], deadline)
            if count == 0:
                raise self._broken("the peer closed it")
            filled += count
            self._any_came = True

    def _receive(self, into: memoryview, deadline: float) -> int:
        """Wait for bytes, and say now and then that they do not come."""
        while True:
            now = _clock.monotonic()
            if now >= deadline:
                raise TimeoutError
            self._socket.settimeout(min(deadline - now, self._silence.look(now)))
            try:
                count = self._socket.recv_into(into)
            except TimeoutError:
                continue
            self._silence.heard(_clock.monotonic())
            return count

    def _broken(self, why: object) -> PenstockError:
        return (lost if self._any_came else hung_up)(self._endpoint, why)

    def _break(self, error: PenstockError) -> PenstockError:
        if self._end is None and not self._heard:
            self._contact.failed(self._endpoint, error)
        self._ended(error)
        return error

    def _ended(self, error: PenstockError) -> None:
        if self._end is None:
            self._end = error
            self._stop.drop(self._socket)
            self._socket.close()
