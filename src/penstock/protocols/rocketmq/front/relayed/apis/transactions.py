"""What became of a transaction. 37, and what brokers ask about it (39).

A broker's question goes to one of the group's producers, whose answer may say no broker (4.9): the place that the
question named tells. An end whose broker nobody knows is not sent to all of them: places and groups are alike at
several, and it would end another transaction. Its broker will ask. Source: Apache RocketMQ 4.9 and 5.x,
``EndTransactionProcessor``, ``AbstractTransactionalMessageCheckListener``.
"""

from __future__ import annotations

import logging
import struct
from typing import Final

from penstock.errors import PenstockError, ProtocolViolation
from penstock.protocols.rocketmq.command import RemotingCommand, framed
from penstock.protocols.rocketmq.front.relayed.around import Around

__all__ = ["broker_of_end", "pass_on_check"]

_log = logging.getLogger("penstock.node")
_GROUP: Final = b"PGROUP"
_FLAGS: Final = struct.Struct(">i")
_FLAGS_AT: Final = 36
_BEFORE_HOSTS: Final = 48
_BESIDE_HOSTS: Final = 8 + 4 + 8
"""When it was stored stands between the two hosts; behind them, how often it was delivered, and its half's place."""
_IPV4, _LONGER = 8, 12
_BORN_IPV6, _STORE_IPV6 = 0x10, 0x20
_WIDE_TOPICS: Final = 0xAB
"""The last byte of the magic number of messages whose topic's length has two bytes."""


def broker_of_end(around: Around, asked: RemotingCommand) -> str | None:
    """The broker that asked about this transaction, if one did."""
    return around.checked.get((asked.fields.get("commitLogOffset", ""), asked.fields.get("msgId", "")))


def pass_on_check(around: Around, broker: str, asked: RemotingCommand) -> None:
    """Have a producer of the message's group asked, another one each time, if there is one here."""
    try:
        group = _group(memoryview(asked.body))
    except PenstockError as error:
        _log.warning("broker %s asks about a transaction in a way that cannot be read: %s", broker, error)
        return
    around.checked.put((asked.fields.get("commitLogOffset", ""), asked.fields.get("msgId", "")), broker)
    around.clients.ask_producer(group, framed(asked._replace(body=bytes(asked.body))), broker)


def _group(message: memoryview) -> str:
    """The producer group in a stored message's properties. Raises ProtocolViolation."""
    try:
        (flags,) = _FLAGS.unpack_from(message, _FLAGS_AT)
        hosts = 2 * _IPV4 + _LONGER * (bool(flags & _BORN_IPV6) + bool(flags & _STORE_IPV6))
        at = _BEFORE_HOSTS + hosts + _BESIDE_HOSTS
        at += 4 + int.from_bytes(message[at : at + 4], "big")
        wide = 1 + (message[7] == _WIDE_TOPICS)
        at += wide + int.from_bytes(message[at : at + wide], "big")
        properties = bytes(message[at + 2 :])
        if at + 2 + int.from_bytes(message[at : at + 2], "big") != len(message):
            raise ProtocolViolation(f"a message of {len(message)} bytes is longer or shorter than its parts")
    except (struct.error, IndexError) as error:
        raise ProtocolViolation(f"a message of {len(message)} bytes is no stored message") from error
    for entry in properties.split(b"\x02"):
        name, _, value = entry.partition(b"\x01")
        if name == _GROUP:
            return value.decode("utf-8", "replace")
    raise ProtocolViolation("a half message names no producer group")
