"""Doors: listening sockets that several processes of one node are given, so that they share an address.

Each process has a socket of its own at the shared address (SO_REUSEPORT): the system spreads new connections over them.
Whoever made them keeps them open: what comes to a process that is just being started anew waits in its socket. And each
has one more, at a port that is its alone, where the others reach it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Sequence
from typing import Any

from penstock._dataclasses import dataclass
from penstock.errors import ConfigError
from penstock.model import Endpoint
from penstock.net.network import Listening, ProtocolFactory, Tcp

__all__ = ["Door", "TcpThrough", "doors"]

_WAITING = 1_024
"""Connections that wait in a socket; whoever accepts them says it anew."""


@dataclass(frozen=True, slots=True)
class Door:
    """One process's sockets for one listener."""

    shared: socket.socket
    own: socket.socket
    beside: Sequence[socket.socket] = ()
    """Shared, too, at further ports."""

    @property
    def address(self) -> Endpoint:
        """What all share."""
        return _endpoint(self.shared)

    @property
    def own_address(self) -> Endpoint:
        """This one's alone."""
        return _endpoint(self.own)

    @property
    def sockets(self) -> Sequence[socket.socket]:
        """All of them."""
        return [self.shared, self.own, *self.beside]

    def close(self) -> None:
        """Nobody of this process uses it."""
        for each in self.sockets:
            each.close()


def doors(at: Endpoint, count: int, first_port: int, beside: Sequence[int] = ()) -> list[Door]:
    """For ``count`` processes; ``first_port``: of the ports that are theirs alone, one after the other; 0: any.

    ``beside``: further ports that all share.

    Raises ConfigError where somebody else listens there, or the system has no such sockets; OSError.
    """
    if not hasattr(socket, "SO_REUSEPORT"):
        raise ConfigError("this system cannot share a port between processes", hint="Leave --processes out")
    family, *_, where = socket.getaddrinfo(at.host, at.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    with contextlib.ExitStack() as opened:

        def listening(where: tuple[Any, ...], option: int) -> socket.socket:
            made = opened.enter_context(_bound(family, where, option))
            made.listen(_WAITING)
            return made

        def shared(port: int) -> list[socket.socket]:
            # Another node, of this user, that shares its port as well, would share it with us: this finds it.
            with _bound(family, (where[0], port, *where[2:]), socket.SO_REUSEADDR) as first:
                there = first.getsockname()
            return [listening(there, socket.SO_REUSEPORT) for _ in range(count)]

        main, sides = shared(int(where[1])), [shared(port) for port in beside]
        own_ports = range(first_port, first_port + count) if first_port else [0] * count
        owns = [listening((where[0], port, *where[2:]), socket.SO_REUSEADDR) for port in own_ports]
        opened.pop_all()
    return [Door(main[number], owns[number], [side[number] for side in sides]) for number in range(count)]


class TcpThrough(Tcp):
    """The real network, listening at sockets that are there already."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        super().__init__()
        object.__setattr__(self, "_sockets", {_endpoint(each): each for each in sockets})

    _sockets: dict[Endpoint, socket.socket]

    async def listen(self, factory: ProtocolFactory, endpoint: Endpoint, *, backlog: int) -> Listening:
        given = self._sockets.get(endpoint)
        if given is None:
            return await super().listen(factory, endpoint, backlog=backlog)
        server = await asyncio.get_running_loop().create_server(factory, sock=given, backlog=backlog)
        return _Through(endpoint, server)


@dataclass(frozen=True, slots=True)
class _Through:
    endpoint: Endpoint
    server: asyncio.Server

    def close(self) -> None:
        self.server.close()


def _bound(family: int, where: tuple[object, ...], option: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, option, 1)
        if family == socket.AF_INET6:
            with contextlib.suppress(OSError):
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(where)
    except BaseException:
        made.close()
        raise
    return made


def _endpoint(of: socket.socket) -> Endpoint:
    host, port = of.getsockname()[:2]
    return Endpoint(host, port)
