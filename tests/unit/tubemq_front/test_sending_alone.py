"""Who is the only one that sends, and waits for each answer, has it at once; and it is the answer that others get."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.concurrency.runtime import Deferred, arrived
from penstock.errors import WriteFailed
from penstock.interfaces.enode import Appended, Batch, FetchPart, fetch_one
from penstock.interfaces.framing import Buffers
from penstock.model import Partition
from penstock.net.runtime import SuspendedCoroutine, run_eagerly
from penstock.protocols.tubemq.errors import Code
from penstock.protocols.tubemq.server.context import TubeFrontOptions
from penstock.protocols.tubemq.server.settings import TopicSettings
from penstock.protocols.tubemq.wire.messages import SendMessageResponseB2P
from penstock.protocols.tubemq.wire.records import pack
from penstock.protocols.tubemq.wire.rpc import SEND_MESSAGE, read_answer, request
from penstock.records.batch import batches
from penstock.records.scalar_codec import stored_records
from penstock.store import open_store
from tests.unit.tubemq_front.kit import Client, Kit, run, sent, serving, unframed

DEMO = Partition("demo", 0)
TEXT = b"$msgType$=blue,$msgTime$=202611201019,seq=19"
ATTRIBUTES = len(TEXT).to_bytes(4, "big") + TEXT + b"body"
KEYED, WITH_KEY = pack(b"k", b"x")
LARGEST = (1 << 20) + 10_240

SENT: dict[str, tuple[bytes, dict[str, Any]]] = {
    "plain": (b"hello", {}),
    "the right checksum": (b"hello", {"check_sum": 907060870}),
    "attributes": (ATTRIBUTES, {"flag": 1}),
    "a filter item beside them": (b"hello", {"msg_type": "blue", "msg_time": "202611201019"}),
    "another partition": (b"hello", {"partition_id": 10_000}),
    "blanks around names": (b"hello", {"topic_name": " demo "}),
    "the largest": (bytes(LARGEST), {}),
    "a stored codec": (b"x" * 500, {"topic_name": "packed"}),
    "a key, compacted": (KEYED, {"topic_name": "kept", "flag": WITH_KEY}),
    "no key, compacted": (b"x", {"topic_name": "kept"}),
    "no such topic": (b"hello", {"topic_name": "nosuch"}),
    "no topic": (b"hello", {"topic_name": " "}),
    "a topic of the node's": (b"hello", {"topic_name": "__consumer_offsets"}),
    "a closed topic": (b"hello", {"topic_name": "closed"}),
    "a name too long": (b"hello", {"topic_name": "n" * 65}),
    "no such partition": (b"hello", {"partition_id": 7}),
    "a partition below none": (b"hello", {"partition_id": -10_000}),
    "a wrong checksum": (b"hello", {"check_sum": 5}),
    "attributes that are none": (b"hello", {"flag": 1}),
    "nothing": (b"", {}),
    "too large": (bytes(LARGEST + 1), {}),
}


def framed(payload: bytes, serial: int, **more: Any) -> bytes:
    return b"".join(request(SEND_MESSAGE, sent(payload, **more), timeout_ms=10_000)(serial))


async def prepare(kit: Kit) -> None:
    kit.store.create_topic("packed", 1, {"compression.type": "zstd"})
    kit.store.create_topic("kept", 1, {"cleanup.policy": "compact"})
    kit.store.create_topic("closed", 1)
    kit.front.shared.settings.set_topic("closed", TopicSettings(accepts_publish=False))
    await kit.put(b"first", partition=10_000)


def answer_of(buffers: Buffers, serial: int) -> SendMessageResponseB2P:
    found = unframed(b"".join(buffers))
    assert found.correlation == serial
    return read_answer(SEND_MESSAGE, found)


async def stored(
    kit: Kit, topics: Sequence[str] = ("demo", "packed", "kept")
) -> dict[Partition, list[tuple[object, ...]]]:
    """What lies in each partition, without times that were the node's."""
    found: dict[Partition, list[tuple[object, ...]]] = {}
    for topic in topics:
        for number in range(2 if topic == "demo" else 1):
            part = Partition(topic, number)
            data = (await fetch_one(kit.enode, FetchPart(part, 0, 8 << 20))).read()
            codecs = {header.codec for header in batches(data)}
            found[part] = [
                (each.offset, each.timed and each.timestamp_ms, each.key, each.value, each.headers, codecs)
                for each in stored_records(data, 0)
            ]
    return found


async def in_line(client: Client, data: bytes, serial: int) -> SendMessageResponseB2P:
    found = await client.send(data)
    assert found is not None
    assert found.correlation == serial
    return read_answer(SEND_MESSAGE, found)


async def alone(client: Client, data: bytes, serial: int) -> SendMessageResponseB2P:
    buffers = await arrived(await client.begin(data))
    assert buffers is not None
    return answer_of(buffers, serial)


async def all_sent(
    kit: Kit, send: Callable[[Client, bytes, int], Any]
) -> tuple[list[SendMessageResponseB2P], dict[Partition, list[tuple[object, ...]]], dict[tuple[int, int], int], int]:
    """Answers without their times, what is stored then, and what was counted."""
    await prepare(kit)
    answers = []
    for serial, (payload, more) in enumerate(SENT.values(), 1):
        answer = await send(kit, framed(payload, serial, **more), serial)
        if answer.append_time:
            answer.append_time = 1
        answers.append(answer)
    meter = kit.front.shared.meter
    return answers, await stored(kit), meter.errors, meter.served[SEND_MESSAGE.number].count


@pytest.mark.near
def test_messages_written_alone_and_together_are_served_the_same() -> None:
    found: list[object] = []

    async def test(kit: Kit, send: Callable[[Client, bytes, int], Any]) -> None:
        found.append(await all_sent(kit, send))

    run(lambda kit: test(kit, alone))
    run(lambda kit: test(kit, in_line))
    assert found[1] == found[0]


@pytest.mark.near
def test_the_only_sender_has_its_answer_at_once_and_another_one_ends_that() -> None:
    async def test(kit: Kit) -> None:
        other = kit.client()
        assert (await in_line(kit, framed(b"a", 1), 1)).success
        assert (await in_line(other, framed(b"b", 1), 1)).success
        kinds = []
        for serial, client in enumerate((kit, kit, kit, other, kit, kit), 2):
            answered = await client.begin(framed(b"%d" % serial, serial))
            kinds.append(isinstance(answered, Deferred))
            buffers = await arrived(answered)
            assert buffers is not None
            assert answer_of(buffers, serial).append_offset == 28 * serial
        assert kinds == [True, False, False, True, True, False]

    run(test)


@pytest.mark.near
def test_who_has_sent_more_than_one_message_has_them_in_one_batch() -> None:
    async def test(kit: Kit) -> None:
        await kit.put(b"first")
        answers = await asyncio.gather(*(in_line(kit, framed(b"%d" % n, n), n) for n in range(1, 6)))
        assert [answer.append_offset for answer in answers] == [28 * n for n in range(1, 6)]
        data = (await fetch_one(kit.enode, FetchPart(DEMO, 0, 1 << 20))).read()
        assert [header.record_count for header in batches(data)] == [1, 5]

    run(test)


@pytest.mark.near
def test_what_comes_while_one_that_was_alone_is_synced_waits_in_line(tmp_path: Path) -> None:
    async def main() -> None:
        store = open_store(f"file:{tmp_path}", flush="always")
        async with serving(store=store) as kit:
            await kit.put(b"first")
            begun = run_eagerly(kit.begin(framed(b"1", 1)))
            assert isinstance(begun, SuspendedCoroutine)
            others = [await kit.begin(framed(b"%d" % serial, serial)) for serial in (2, 3)]
            for serial, each in enumerate((await begun.rest(), *others), 1):
                buffers = await arrived(each)
                assert buffers is not None
                assert answer_of(buffers, serial).append_offset == 28 * serial
            assert store.log("demo", 0).flushed_offset == 4
            data = (await fetch_one(kit.enode, FetchPart(DEMO, 0, 1 << 20))).read()
            assert [header.record_count for header in batches(data)] == [1, 1, 2]
        store.close()

    asyncio.run(main())


@pytest.mark.near
def test_a_log_that_takes_nothing_is_told_the_one_that_is_alone_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(partition: Partition, batch: Batch) -> Appended:
        raise WriteFailed("the disk is full")

    async def test(kit: Kit) -> None:
        await kit.put(b"first")
        with monkeypatch.context() as patched:
            patched.setattr(kit.enode, "append", refuse)
            answer = await alone(kit, framed(b"a", 1), 1)
        assert (answer.success, answer.err_code) == (False, Code.SERVICE_UNAVAILABLE)
        assert (await alone(kit, framed(b"a", 2), 2)).append_offset == 28

    run(test)


@pytest.mark.near
def test_the_one_that_is_alone_may_not_have_more_written_than_others() -> None:
    async def test(kit: Kit) -> None:
        await kit.put(b"first")
        assert (await alone(kit, framed(bytes(1_000), 1), 1)).err_code == 419
        assert (await alone(kit, framed(bytes(400), 2), 2)).success

    run(test, TubeFrontOptions(pending_bytes=1_000))
