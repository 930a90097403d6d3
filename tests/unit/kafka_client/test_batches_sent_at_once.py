"""A batch that is sent where nothing has to be waited for: answer, refusal, loss and bug reach its callback."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.errors import ConnectionLost, ServerError
from penstock.interfaces import Sent
from penstock.model import Codec, Node, Partition
from penstock.protocols.kafka.client.sender import KafkaSender
from penstock.protocols.kafka.wire.produce import (
    InitProducerIdResponse,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from penstock.records.scalar_writer import FewRows
from tests.unit.kafka_client.scripted import Stage, go, metadata, stage

P = Partition("events", 3)
GOOD = ProduceResponsePartition(index=P.id, base_offset=5, log_append_time_ms=-1, log_start_offset=2)


async def heard_of(sender: KafkaSender, node: Node, batch: Any) -> list[Sent] | Exception | None:
    """What is told of a batch that is sent at once; None if it has to be waited for."""
    told: asyncio.Future[list[Sent] | Exception] = asyncio.get_running_loop().create_future()
    if not sender.send_at_once(node, [batch], told.set_result, acks=-1, timeout_s=5):  # type: ignore[arg-type]
        return None
    return await told


async def ready(on: Stage) -> tuple[KafkaSender, Node]:
    on.broker.answers["Metadata"] = metadata({1: on.endpoint}, {P.topic: {P.id: (1, 0)}})
    on.broker.answers["InitProducerId"] = lambda _, __: InitProducerIdResponse(producer_id=7, producer_epoch=0)
    await on.client.topics([P.topic])
    sender = on.client.sender(idempotent=True)
    assert isinstance(sender, KafkaSender)
    await sender.open()
    node = on.client.leader(P)
    assert node is not None
    return sender, node


def few(*values: bytes) -> FewRows:
    return FewRows([None] * len(values), values, [1_000] * len(values))


def says(*parts: ProduceResponsePartition) -> Any:
    return lambda _, __: ProduceResponse(responses=[ProduceResponseTopic(name=P.topic, partition_responses=parts)])


def test_the_first_request_waits_for_a_connection_and_others_do_not() -> None:
    async def work() -> None:
        async with stage() as on:
            sender, node = await ready(on)
            on.broker.answers["Produce"] = says(GOOD)
            batch = sender.pack(P, few(b"a"), Codec.NONE)
            assert await heard_of(sender, node, batch) is None
            (sent,) = await sender.send(node, [batch], acks=-1, timeout_s=5)
            assert (sent.base_offset, sent.error) == (5, None)
            heard = await heard_of(sender, node, sender.pack(P, few(b"b"), Codec.NONE))
            assert isinstance(heard, list)
            assert [(each.base_offset, each.error) for each in heard] == [(5, None)]
            assert len(on.broker.asked("Produce")) == 2
            unanswered = sender.pack(P, few(b"c"), Codec.NONE)
            assert not sender.send_at_once(node, [unanswered], lambda _: None, acks=0, timeout_s=5)

    go(work())


def test_a_refusal_a_loss_and_nonsense_are_told_as_errors_of_the_batch() -> None:
    async def work() -> None:
        async with stage() as on:
            sender, node = await ready(on)
            on.broker.answers["Produce"] = says(GOOD)
            await sender.send(node, [sender.pack(P, few(b"a"), Codec.NONE)], acks=-1, timeout_s=5)
            on.broker.answers["Produce"] = says(replace(GOOD, error_code=87, error_message="too old"))
            heard = await heard_of(sender, node, sender.pack(P, few(b"b"), Codec.NONE))
            assert isinstance(heard, list)
            assert isinstance(heard[0].error, ServerError)
            assert "too old" in str(heard[0].error)
            on.broker.answers["Produce"] = lambda _, __: b"\xff" * 40
            heard = await heard_of(sender, node, sender.pack(P, few(b"c"), Codec.NONE))
            assert isinstance(heard, list)
            assert heard[0].error is not None
            assert await heard_of(sender, node, sender.pack(P, few(b"d"), Codec.NONE)) is None  # it was closed
            on.broker.answers["Produce"] = says(GOOD)
            await sender.send(node, [sender.pack(P, few(b"e"), Codec.NONE)], acks=-1, timeout_s=5)
            on.broker.answers["Produce"] = lambda _, __: None
            batch = sender.pack(P, few(b"f"), Codec.NONE)
            waiting = asyncio.ensure_future(heard_of(sender, node, batch))
            await asyncio.sleep(0)
            await on.client.close()
            heard = await waiting
            assert isinstance(heard, list)
            assert isinstance(heard[0].error, ConnectionLost)

    go(work())


def test_a_bug_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with stage() as on:
            sender, node = await ready(on)
            on.broker.answers["Produce"] = says(GOOD)
            await sender.send(node, [sender.pack(P, few(b"a"), Codec.NONE)], acks=-1, timeout_s=5)
            bug = ZeroDivisionError("inside")

            def fails(*_: object) -> None:
                raise bug

            monkeypatch.setattr(sender, "_sent", fails)
            assert await heard_of(sender, node, sender.pack(P, few(b"b"), Codec.NONE)) is bug

    go(work())
