"""Further ports of a front, beside its listener's: the VIP port, and a port for each broker of a cluster.

Java's clients before 4.5 send to the port that is two below a broker's (``vipChannelEnabled``), so something has to
listen there. Clients that name no broker in their requests count on the address that they connect to, so before several
brokers each has a port. It follows from the broker's name alone: clients remember for half a minute what a port meant,
and it must not mean another broker after a restart. Where two names lead to one port, neither has it, and
``rocketmq_broker_ports`` has to choose.

Source: Apache RocketMQ 4.4, ``MixAll.brokerVIPChannel``; rocketmq-client-go 2.1.2 and ali-ons name no broker.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Collection, Mapping
from typing import Final

from penstock.protocols.rocketmq.command import RemotingCommand
from penstock.seams.front import OpenDoor, Opens

__all__ = ["VIP_BELOW", "BrokerPorts", "names_no_broker", "open_vip_port"]

_log = logging.getLogger("penstock.node")
VIP_BELOW: Final = 2
_APART: Final = 4
"""Ports of brokers are so far apart, so that none is another one's VIP port, nor the listener's."""
_PORTS: Final = 1_000
_HIGHEST: Final = 65_535
_NAMES_BROKERS: Final = frozenset({"JAVA", "PYTHON", "RUST"})
"""In other languages clients count versions of their own. PYTHON is ours, and RUST follows Java's 5.x."""
_NAMES_BROKERS_FROM: Final = 403
"""4.9.5."""


async def open_vip_port(open_at: OpenDoor, port: int, who: Opens, taken: Collection[int] = ()) -> None:
    """Listen two below a port, if that can be had; what comes there is for ``who``."""
    vip = port - VIP_BELOW
    if vip <= 0:
        return
    why: object = "it is another broker's"
    if vip not in taken:
        try:
            await open_at(vip, who)
        except OSError as error:
            why = error.strerror or error
        else:
            return
    _log.warning(
        "cannot listen on port %d, two below RocketMQ's %d: Java's clients before 4.5 send there unless they say "
        "vipChannelEnabled=false: %s",
        vip,
        port,
        why,
    )


def names_no_broker(asked: RemotingCommand) -> bool:
    """Whether a client's requests say no broker, as far as its language and version tell."""
    return asked.language not in _NAMES_BROKERS or asked.version < _NAMES_BROKERS_FROM


class BrokerPorts:
    """Which port stands for which broker. ``given`` are those that an operator chose, which all clients are told.

    ``door`` makes what serves a broker's port.
    """

    def __init__(self, given: Mapping[str, int], door: Callable[[str], Opens]) -> None:
        self._given = given
        self._door = door
        self._own: dict[str, int] = {}
        self._lacking: set[str] = set()
        self._meant = {port - below: name for name, port in given.items() for below in (0, VIP_BELOW)}
        self._meant |= {port: name for name, port in given.items()}
        self._main = 0
        self._open_at: OpenDoor | None = None

    async def open(self, open_at: OpenDoor, main: int, who: Opens) -> None:
        """Once the listener listens at ``main``: the VIP ports of all that is open, as far as they can be had."""
        self._main, self._open_at = main, open_at
        given = set(self._given.values())
        await open_vip_port(open_at, main, who, given)
        for name, port in self._given.items():
            await open_vip_port(open_at, port, self._door(name), given | {main})

    async def keep_up(self, names: Collection[str]) -> None:
        """Have a port for each of several brokers that has none yet. What cannot be had is said once, and tried again
        with the next call."""
        open_at = self._open_at
        if open_at is None or len(names) < 2:
            return
        wanted = {name: _port_of(self._main, name) for name in names if name not in self._given}
        for name, port in sorted(wanted.items()):
            if name in self._own:
                continue
            if list(wanted.values()).count(port) > 1 or port in self._meant:
                self._lacks(name, port, "another broker's name leads to it, too")
                continue
            try:
                await open_at(port, self._door(name))
            except OSError as error:
                self._lacks(name, port, error.strerror or error)
                continue
            self._own[name] = port
            self._meant[port] = self._meant[port - VIP_BELOW] = name
            _log.info("RocketMQ clients that name no broker reach %s at port %d", name, port)
            await open_vip_port(open_at, port, self._door(name))

    def port(self, name: str, main: int, *, needed: bool) -> int:
        """Where a client is told that a broker is; ``needed``: it names no broker, so the port has to."""
        own = self._own.get(name, main) if needed else main
        return self._given.get(name, own)

    def meaning(self, port: int) -> str | None:
        """The broker that a port of this node stands for, its VIP port, too; None: none in particular."""
        return self._meant.get(port)

    def _lacks(self, name: str, port: int, why: object) -> None:
        if name in self._lacking:
            return
        self._lacking.add(name)
        _log.warning(
            "RocketMQ clients that name no broker do not reach %s: port %d cannot be had, choose one with "
            "rocketmq_broker_ports: %s",
            name,
            port,
            why,
        )


def _port_of(main: int, name: str) -> int:
    port = main + _APART * (1 + zlib.crc32(name.encode()) % _PORTS)
    return port if port <= _HIGHEST else port - 2 * _APART * (_PORTS + 1)
