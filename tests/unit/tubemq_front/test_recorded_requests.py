"""What real clients asked a real server, asked of the front: answers of the same shape, code for code, field for field.

Recorded against TubeMQ 2.4.0 (tests/data/tubemq). The recorded topic has two partitions in one store, ours are two
stores, so partition 1 is asked for as 10000. Numbers, names and texts differ; what is there and what is not must not.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, NamedTuple, cast

import pytest
from google.protobuf.message import Message

from penstock.errors import PenstockError
from penstock.interfaces.framing import Frame
from penstock.protocols.tubemq.errors import Code
from penstock.protocols.tubemq.server.context import TubeFrontOptions
from penstock.protocols.tubemq.wire.protobuf import decode
from penstock.protocols.tubemq.wire.rpc import METHODS, RpcFailure, read_answer, request
from tests.unit.tubemq_front.kit import Client, Kit, serving
from tests.vectors.tubemq_frames.conversations import Exchange, cut, exchanges

MESSAGES_BEFORE = 22

# What we answer otherwise, and why. Keys are places in the recordings.
OTHERWISE = {
    # A partition id that is in no store: the real broker fails and keeps the booking; here it is refused as unknown.
    "errors-broker.jsonl:46": "partition 7 does not exist: 403, not 500",
}


class Shape(NamedTuple):
    """What an answer consists of."""

    failed: tuple[int, str] | None
    code: int
    fields: frozenset[str]


def shape(method: int, answer: Frame) -> Shape:
    try:
        message = cast(Any, read_answer(METHODS[method], answer))
    except RpcFailure as error:
        return Shape((error.status, error.exception.rpartition(".")[2]), 0, frozenset())
    names = {field.name for field, _ in message.ListFields()}
    return Shape(None, message.err_code, frozenset(names - {"messages"}))


class Translator:
    """Numbers that we gave where the real server gave others: what it called its list of brokers, its rounds."""

    NAMES = ("broker_check_sum", "broker_config_id", "topic_meta_info_id", "def_flow_check_id")

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._numbers: dict[tuple[str, int], int] = {}

    def learn(self, recorded: Any, found: Any) -> None:
        for name in self.NAMES:
            if getattr(recorded, name, 0) > 0:
                self._numbers[name, getattr(recorded, name)] = getattr(found, name)
        if getattr(recorded, "event", None) is not None and recorded.HasField("event"):
            self._numbers["rebalance_id", recorded.event.rebalance_id] = found.event.rebalance_id

    def ours(self, exchange: Exchange) -> bytes:
        """The request in our numbers, with partition 1 under our number for it."""
        call = exchange.call
        try:
            message = cast(Any, decode(METHODS[call.method].request, call.payload))
        except (KeyError, PenstockError):
            return exchange.asked.wire
        self._translate(message)
        framed = request(METHODS[call.method], message, timeout_ms=call.timeout_ms, service=call.service)
        return b"".join(framed(cut(exchange.asked).correlation))

    def _translate(self, message: Any) -> None:
        for field, value in message.ListFields():
            if isinstance(value, Message) or (field.message_type is not None and not hasattr(value, "append")):
                self._translate(value)
            elif field.name == "partition_id" and value == 1:
                message.partition_id = 10_000
            elif field.name == "lst_assigned_time":
                message.lst_assigned_time = self._kit.runtime.now_ms()
            elif (field.name, value if isinstance(value, int) else 0) in self._numbers:
                setattr(message, field.name, self._numbers[field.name, value])
            elif field.name in ("partition_info", "subscribe_info", "part_sub_info"):
                value[:] = [text.replace("demo:1", "demo:10000").replace(",1:1", ",1:10000") for text in value]


def is_lost(method: int, answered: Frame | None) -> bool:
    return answered is not None and method in METHODS and shape(method, answered).code == Code.SERVICE_UNAVAILABLE


async def replay(kit: Kit, name: str) -> list[str]:
    """Ask everything, each connection on one of its own; what was answered otherwise. A balance run after each."""
    clients: dict[int, Client] = {}
    different = []
    translator = Translator(kit)
    for exchange in exchanges(name):
        client = clients.setdefault(exchange.asked.connection, kit.client())
        method = exchange.call.method
        answered = await kit.again.until_right(
            partial(client.send, translator.ours(exchange)), partial(is_lost, method)
        )
        assert answered is not None
        await kit.balance()
        if method not in METHODS:
            continue
        expected, found = shape(method, exchange.answer), shape(method, answered)
        if (found != expected) != (exchange.asked.where in OTHERWISE):
            different.append(f"{exchange.asked.where}, method {method}: {found}, recorded is {expected}")
        if expected.failed is found.failed is None:
            translator.learn(read_answer(METHODS[method], exchange.answer), read_answer(METHODS[method], answered))
    return different


def replayed(name: str) -> list[str]:
    async def main() -> list[str]:
        async with serving(TubeFrontOptions(balance_period_ms=60_000)) as kit:
            kit.store.create_topic("one", 1)
            for partition in (0, 10_000):
                await kit.put(*(b"m%d" % row for row in range(MESSAGES_BEFORE)), partition=partition)
            return await replay(kit, name)

    return asyncio.run(main())


# The other recordings depend on what was sent before them, and on when the master balances and counts.
@pytest.mark.parametrize(
    "name",
    [
        "balanced-broker",
        "balanced-master",
        "consumer-broker",
        "errors-broker",
        "errors-master",
        "filter-master",
        "manual-broker",
        "producer-broker",
        "producer-master",
    ],
)
def test_answers_are_shaped_as_a_real_servers(name: str) -> None:
    assert replayed(name) == []
