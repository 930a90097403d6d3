"""The simulated network: hosts that are cut off and die, connections that break, stall, and deliver late.

Bytes arrive in order or not at all. Who hangs up, or is cut off, does not unsend what is under way: the other end may
get it long after the sender has given up, and asked again over another connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any

from tests.sim.loop import passing

__all__ = ["HOST", "Line", "Net"]

HOST: ContextVar[str] = ContextVar("HOST", default="test")
"""Where the running task runs."""

_FIRST_PORT = 40_000
_GIVES_UP_S = 120.0


class Net:
    """``dice`` decides latencies; ``tell`` hears what happens to connections."""

    def __init__(self, loop: asyncio.AbstractEventLoop, dice: Random, tell: Callable[[str, str], None]) -> None:
        self.loop = loop
        self.dice = dice
        self.lot = dice.random()
        self.tell = tell
        self.cuts = 0
        self.late = False
        """Whether what is delivered just now was sent by somebody who has hung up since."""
        self._doors: dict[int, tuple[str, Callable[[], Any]]] = {}
        self._lines: list[Line] = []
        self._away_until: dict[str, float] = {}
        self._dead: set[str] = set()
        self._last_port = _FIRST_PORT
        self._places: dict[str, Context] = {}
        self._counted: dict[str, list[tuple[int, Callable[[], None]]]] = {}

    # What the loop calls.

    async def connect(self, factory: Callable[[], Any], host: str, port: int) -> tuple[Line, Any]:
        """Raises ConnectionRefusedError where nothing listens, TimeoutError where nobody answers for minutes."""
        near = HOST.get()
        await passing(latency_s(self.dice))
        until = self.loop.time() + _GIVES_UP_S
        while (wait := self._stalled(near, self._host_of(port))) > 0:
            if self.loop.time() + wait > until:
                raise TimeoutError(110, "nobody answers")
            await passing(wait)
        door = self._doors.get(port)
        if door is None or near in self._dead:
            raise ConnectionRefusedError(111, f"nothing listens on {host}:{port}")
        far, accept = door
        client, server = factory(), self.place(far).run(accept)
        number = self._port()
        here = Line(self, near, far, client, (host, number), (host, port))
        there = Line(self, far, near, server, (host, port), (host, number))
        here.other, there.other = there, here
        self._lines += [here, there]
        there.place.run(server.connection_made, there)
        client.connection_made(here)
        return here, client

    def listen(self, factory: Callable[[], Any], host: str, port: int) -> Door:
        port = port or self._port()
        self._doors[port] = (HOST.get(), factory)
        return Door(self, host, port)

    def place(self, host: str) -> Context:
        """In which what comes there is taken: who answers, and whom that wakes, is not where the bytes came from."""
        if host not in self._places:
            self._places[host] = copy_context()
            self._places[host].run(HOST.set, host)
        return self._places[host]

    # What goes wrong.

    def kill(self, host: str) -> None:
        """The host is gone: nothing listens there, and nothing it does is heard any more."""
        self._dead.add(host)
        self._doors = {port: door for port, door in self._doors.items() if door[0] != host}
        for line in [each for each in self._lines if each.host == host]:
            line.die()

    def revive(self, host: str) -> None:
        self._dead.discard(host)

    def cut_off(self, host: str, seconds: float) -> None:
        """For so long no byte gets to the host or from it; afterwards all of them do."""
        self._away_until[host] = self.loop.time() + seconds

    def slow(self, host: str, seconds: float) -> None:
        """For so long nothing comes over the connections that the host has now; over new ones it does."""
        until = self.loop.time() + seconds
        for line in self._lines:
            if line.host == host:
                line.held_until = line.other.held_until = until

    def heal(self) -> None:
        """Nobody is cut off or slow any more, and nothing else will happen."""
        self._away_until.clear()
        self._counted.clear()
        for line in self._lines:
            line.held_until = 0.0

    def after(self, host: str, messages: int, strike: Callable[[], None]) -> None:
        """Call ``strike`` when so many messages from or to the host have come, just before the last one does."""
        if messages:
            self._counted.setdefault(host, []).append((messages, strike))
        else:
            strike()

    def cut(self, host: str, *, answers_lost: bool) -> int:
        """Break the host's connections; answers under way are lost with them or not. How many there were."""
        lines = [each for each in self._lines if each.host == host and not each.over]
        for line in lines:
            if answers_lost:
                line.coming.clear()
            line.lose()
        self.cuts += len(lines)
        return len(lines)

    def cut_at_next_answer(self, host: str) -> None:
        """The next answer to the host is lost, and its connection with it: what was asked for has been done."""
        for line in self._lines:
            if line.host == host and not line.over:
                line.other.breaks = True

    # Inside.

    def forget(self, line: Line) -> None:
        if line in self._lines:
            self._lines.remove(line)

    def close_door(self, port: int) -> None:
        self._doors.pop(port, None)

    def stalled(self, line: Line) -> float:
        return max(self._stalled(line.host, line.far), line.held_until - self.loop.time())

    def comes(self, line: Line) -> None:
        for host in (line.host, line.far):
            waiting = self._counted.pop(host, None)
            if waiting is not None:
                self._counted[host] = [(left - 1, strike) for left, strike in waiting if left > 1]
                for left, strike in waiting:
                    if left == 1:
                        strike()

    def dead(self, host: str) -> bool:
        return host in self._dead

    def _stalled(self, one: str, other: str) -> float:
        until = max(self._away_until.get(one, 0.0), self._away_until.get(other, 0.0))
        return until - self.loop.time()

    def _host_of(self, port: int) -> str:
        door = self._doors.get(port)
        return door[0] if door else ""

    def _port(self) -> int:
        self._last_port += 1
        return self._last_port


def latency_s(dice: Random) -> float:
    """Mostly a fraction of a millisecond, now and then much longer."""
    drawn = dice.random()
    return 0.0002 + drawn * 0.0008 if drawn < 0.97 else drawn * 0.2


class Door:
    """What ``create_server`` returns, as far as it is used."""

    def __init__(self, net: Net, host: str, port: int) -> None:
        self._net = net
        self._port = port
        self.sockets = [self]
        self._name = (host, port)

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def close(self) -> None:
        self._net.close_door(self._port)


class Line(asyncio.Transport):
    """One end of a connection. ``coming`` is on its way here: bytes, or None for the other's end."""

    other: Line

    def __init__(
        self, net: Net, host: str, far: str, protocol: Any, local: tuple[str, int], remote: tuple[str, int]
    ) -> None:
        super().__init__({"peername": remote, "sockname": local})
        self.net = net
        self.host = host
        self.far = far
        self.place = net.place(host)
        self.over = False
        self.breaks = False
        self.held_until = 0.0
        self.coming: deque[bytes | None] = deque()
        self._protocol = protocol
        self._inbox: deque[bytes] = deque()
        self._paused = False
        self._last_due = 0.0
        # Its own: a client closes its connections in any order, which must not decide how long others take.
        self._dice = Random(f"{local} {remote} {net.lot}")

    # What protocols call.

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if self.over or not len(data):
            return
        if self.breaks:
            self.net.tell(self.far, "an answer to it is lost")
            self.lose()
            return
        self._send(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """All that is written is under way at once."""

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            self.net.loop.call_soon(self._take, context=self.place)

    def is_reading(self) -> bool:
        return not self._paused

    def is_closing(self) -> bool:
        return self.over

    def close(self) -> None:
        if not self.over:
            self._end()
            self._send(None)

    def abort(self) -> None:
        self.close()

    def get_protocol(self) -> Any:
        return self._protocol

    # What goes wrong.

    def lose(self) -> None:
        """The connection breaks: this end learns of it now, the other when all before it has come."""
        self.other.breaks = False
        self.close()

    def die(self) -> None:
        """Nobody is here any more; what was sent may still arrive."""
        self.coming.clear()
        self._inbox.clear()
        self.close()

    # Inside.

    def _end(self) -> None:
        self.over = True
        self.net.forget(self)
        self.net.loop.call_soon(self._protocol.connection_lost, None, context=self.place)

    def _send(self, data: bytes | None) -> None:
        loop = self.net.loop
        self._last_due = max(self._last_due, loop.time() + latency_s(self._dice))
        self.other.coming.append(data)
        loop.call_at(self._last_due, self.other._arrive, context=self.other.place)

    def _arrive(self) -> None:
        wait = self.net.stalled(self)
        if wait > 0:
            self.net.loop.call_later(wait, self._arrive, context=self.place)
            return
        if self.coming and not self.over:
            self.net.comes(self)
        if self.over:
            self.coming.clear()
        elif self.coming:
            data = self.coming.popleft()
            if data is None:
                self._end()
            else:
                self._inbox.append(data)
                self._take()

    def _take(self) -> None:
        self.net.late = self.other.over
        try:
            while self._inbox and not self._paused and not self.over:
                data = self._inbox.popleft()
                space = memoryview(self._protocol.get_buffer(len(data)))
                count = min(len(data), len(space))
                space[:count] = data[:count]
                if count < len(data):
                    self._inbox.appendleft(data[count:])
                self._protocol.buffer_updated(count)
        finally:
            self.net.late = False
