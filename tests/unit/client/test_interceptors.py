"""Interceptors see and change what is read and sent; what one does wrong is told, and no record is lost by it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from penstock import (
    AsyncConsumer,
    AsyncProducer,
    CallbackFailure,
    Committed,
    ConfigError,
    Consumer,
    ConsumerInterceptor,
    Messages,
    Outgoing,
    Partition,
    PenstockError,
    Producer,
    ProducerInterceptor,
    RecordMetadata,
    ServerError,
    from_json,
    to_json,
)
from penstock.client.producer.accumulator import RowsLike
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import run

ADDRESS = "fake://h:1"


class Reading(ConsumerInterceptor):
    """Keeps every second record, and a diary."""

    def __init__(self) -> None:
        self.diary: list[object] = []

    def polled(self, batch: Messages[Any, Any]) -> Messages[Any, Any] | None:
        self.diary.append([message.value for message in batch])
        return batch[1:]

    def committed(self, offsets: Mapping[Partition, Committed]) -> None:
        self.diary.append({str(partition): at.offset for partition, at in offsets.items()})

    def closed(self) -> None:
        self.diary.append("closed")


class Sending(ProducerInterceptor):
    """Signs what is sent, and keeps a diary."""

    def __init__(self) -> None:
        self.diary: list[object] = []

    def sending(self, record: Outgoing) -> Outgoing:
        return dataclasses.replace(record, headers={"by": b"me"}, value=[record.value])

    def sending_table(self, topic: str | None, rows: RowsLike) -> RowsLike:
        assert isinstance(rows, pa.Table)
        return rows.slice(1)

    def acknowledged(self, topic: str, stored: RecordMetadata | None, error: PenstockError | None) -> None:
        self.diary.append((topic, stored and stored.offset, error and error.message))

    def closed(self) -> None:
        self.diary.append("closed")


class Failing(ConsumerInterceptor, ProducerInterceptor):
    """Does everything wrong."""

    def polled(self, batch: Messages[Any, Any]) -> Messages[Any, Any] | None:
        raise RuntimeError("polled")

    def committed(self, offsets: Mapping[Partition, Committed]) -> None:
        raise RuntimeError("committed")

    def sending(self, record: Outgoing) -> Outgoing | None:
        return "no record"  # type: ignore[return-value]

    def sending_table(self, topic: str | None, rows: RowsLike) -> RowsLike | None:
        raise RuntimeError("sending_table")

    def acknowledged(self, topic: str, stored: RecordMetadata | None, error: PenstockError | None) -> None:
        raise RuntimeError("acknowledged")

    def closed(self) -> None:
        raise RuntimeError("closed")


@pytest.mark.parametrize("automatic", [False, True])
def test_a_consumers_interceptor_sees_batches_and_commits(log: FakeLog, automatic: bool) -> None:
    log.write("t", [b"1", b"2"])
    seen = Reading()
    with Consumer(
        f"{ADDRESS}/t", group="g", interceptors=[seen], value_deserializer=from_json, enable_auto_commit=automatic
    ) as consumer:
        batch = consumer.poll(5)
        assert [message.value for message in batch] == [2]
        if not automatic:
            consumer.commit(batch)
    assert seen.diary == [[1, 2], {"t-0": 2}, "closed"]


def test_what_an_interceptor_leaves_out_is_read_all_the_same(log: FakeLog) -> None:
    class Nothing(ConsumerInterceptor):
        def polled(self, batch: Messages[Any, Any]) -> Messages[Any, Any]:
            return batch[:0]

    log.write("t", [b"1"])
    with Consumer(f"{ADDRESS}/t", group="g", interceptors=[Nothing()]) as consumer:
        assert len(consumer.poll(5)) == 0
        assert consumer.position(Partition("t", 0)) == 1


def test_a_producers_interceptor_sees_records_and_their_end(log: FakeLog) -> None:
    seen = Sending()
    with Producer(
        ADDRESS, interceptors=[seen, ProducerInterceptor()], value_serializer=to_json, linger_ms=0
    ) as producer:
        assert producer.send("t", "a").result(5).offset == 0
        producer.send_batch("t", pa.table({"value": [b"dropped", b"kept"]})).result(5)
        producer.flush()
        log.faults["send"].append(ServerError("never", code=87, name="INVALID_RECORD"))
        delivery = producer.send("t", "b")
        with pytest.raises(ServerError, match="never"):
            producer.flush()
        assert delivery.done()
    assert seen.diary == [("t", 0, None), ("t", None, "never"), "closed"]
    with Consumer(f"{ADDRESS}/t", value_deserializer=lambda raw: raw) as consumer:
        found = consumer.poll(5)
    assert [message.value for message in found] == [b'["a"]', b"kept"]
    assert found[0].headers == (("by", b"me"),)


def test_one_that_fails_is_told_and_loses_nothing(log: FakeLog) -> None:
    told: list[CallbackFailure] = []
    with Producer(ADDRESS, interceptors=[Failing()], on_callback_error=told.append) as producer:
        assert producer.send("t", b"a").result(5).offset == 0
        producer.send_batch("t", pa.table({"value": [b"b"]})).result(5)
    assert {str(each.error) for each in told} == {  # in no order: acknowledgements have a thread of their own
        "it must return Outgoing or None, but returned str",
        "acknowledged",
        "sending_table",
        "closed",
    }
    told.clear()
    with Consumer(f"{ADDRESS}/t", group="g", interceptors=Failing(), on_callback_error=told.append) as consumer:  # type: ignore[arg-type]
        found = consumer.poll(5)
        assert [message.value for message in found] == [b"a", b"b"]
        consumer.commit(found)
        assert consumer.committed([Partition("t", 0)])[Partition("t", 0)] == Committed(2)
    assert [str(each.error) for each in told] == ["polled", "committed", "closed"]
    assert {each.topics for each in told} == {("t",), ()}


def test_the_asynchronous_classes_do_the_same(log: FakeLog) -> None:
    sending, reading = Sending(), Reading()

    async def main() -> None:
        async with AsyncProducer(ADDRESS, interceptors=[sending], value_serializer=to_json) as producer:
            await (await producer.send("t", 1))
            await (await producer.send("t", 2))
        async with AsyncConsumer(f"{ADDRESS}/t", group="g", interceptors=[reading]) as consumer:
            batch = await consumer.poll(5)
            await consumer.commit(batch)

    run(main())
    assert sending.diary == [("t", 0, None), ("t", 1, None), "closed"]
    assert reading.diary == [[b"[1]", b"[2]"], {"t-0": 2}, "closed"]


@pytest.mark.parametrize("kind", [Consumer, Producer])
def test_something_else_is_refused(log: FakeLog, kind: type[Consumer] | type[Producer]) -> None:
    del log
    base = f"{kind.__name__}Interceptor"
    with pytest.raises(
        ConfigError, match=rf"interceptors must hold a {base} each, got 'x'.*derive from penstock\.{base}"
    ):
        kind(ADDRESS, interceptors=["x"])
