"""Batches in the codec that a topic wants, whatever their producers sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.interfaces.enode import FetchPart, fetch_one
from penstock.model import Codec, Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server.limits import KafkaFrontOptions
from penstock.records import decode_v2
from penstock.records.batch import parse_header, verify_crc
from penstock.records.compression import compress
from tests.unit.kafka_front.kit import Kit, batch, record, run
from tests.unit.kafka_front.transaction_kit import SECOND, Writer, fetch, seen

VALUES = [b"%d flights" % number for number in range(200)]
WANTED = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def sent(codec: Codec, values: list[bytes] = VALUES, **given: Any) -> bytes:
    records = b"".join(record(delta, b"k", value) for delta, value in enumerate(values))
    return batch(values, attributes=int(codec), records=bytes(compress(codec, records)), **given)


async def stored(kit: Kit, topic: str = "t") -> bytes:
    return bytes((await fetch_one(kit.enode, FetchPart(Partition(topic, 0), 0, 1 << 20))).read())


@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("codec", Codec)
def test_a_topic_has_the_codec_it_wants(wanted: str, codec: Codec) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"compression.type": wanted})
        answer = await kit.produce("t", sent(codec, producer=(7, 0, 0), time_ms=1_234))
        assert (answer.error_code, answer.base_offset) == (0, 0)
        data = await stored(kit)
        header = parse_header(data)
        verify_crc(data, header)
        assert (header.codec, header.record_count, header.length) == (WANTED[wanted], len(VALUES), len(data))
        assert (header.producer_id, header.base_sequence, header.max_timestamp) == (7, 0, 1_234)
        assert decode_v2(data).batch.column("value").to_pylist() == VALUES
        again = await kit.produce("t", sent(codec, producer=(7, 0, 0)))
        assert (again.error_code, again.base_offset) == (0, 0)  # known already

    run(test)


@pytest.mark.parametrize(("kind", "levels"), [("gzip", (1, 9)), ("lz4", (1, 12)), ("zstd", (-7, 19))])
def test_levels_say_how_hard_to_try(kind: str, levels: tuple[int, int]) -> None:
    async def test(kit: Kit) -> None:
        sizes = []
        for level in levels:
            options = {"compression.type": kind, f"compression.{kind}.level": str(level)}
            kit.store.create_topic(f"t{level}", 1, options)
            await kit.produce(f"t{level}", sent(Codec.NONE))
            data = await stored(kit, f"t{level}")
            assert decode_v2(data).batch.column("value").to_pylist() == VALUES
            sizes.append(len(data))
        assert sizes[1] < sizes[0]

    run(test)


def test_the_producers_own_codec_is_kept_where_it_is_the_same_or_nothing_is_wanted() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"compression.type": "zstd", "compression.zstd.level": "1"})
        kit.store.create_topic("plain", 1)
        for topic in ("t", "plain"):
            theirs = sent(Codec.ZSTD)
            await kit.produce(topic, theirs)
            assert (await stored(kit, topic))[61:] == theirs[61:]

    run(test)


def test_what_grows_beyond_the_limit_is_refused() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"compression.type": "uncompressed", "max.message.bytes": "2000"})
        answer = await kit.produce("t", sent(Codec.GZIP, [b"x" * 100] * 50))
        assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert (await kit.produce("t", sent(Codec.GZIP, [b"x"]))).error_code == 0

    run(test)


def test_what_does_not_inflate_is_refused_where_nobody_looked_before() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"compression.type": "lz4"})
        answer = await kit.produce("t", batch(attributes=int(Codec.GZIP), records=b"no gzip"))
        assert answer.error_code == ErrorCode.INVALID_RECORD

    run(test, KafkaFrontOptions(check_records=False))


@pytest.mark.lossless("what is sent again is compressed again")
def test_it_happens_beside_the_loop_and_only_where_it_must() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"compression.type": "zstd"})
        threads: list[object] = []
        in_thread = kit.runtime.in_thread

        async def counted(work: Any) -> Any:
            threads.append(work)
            return await in_thread(work)

        kit.runtime.in_thread = counted  # type: ignore[method-assign]
        await kit.produce("t", sent(Codec.ZSTD))
        assert not threads
        await kit.produce("t", sent(Codec.NONE))
        assert len(threads) == 1

    run(test)


def test_transactions_are_recompressed_too_and_their_markers_are_not() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"compression.type": "gzip"})
        writer = Writer(kit.client(), version=SECOND)
        assert await writer.init() == 0
        assert await asyncio.gather(*(writer.write("t", b"a") for _ in range(1))) == [0]
        assert await writer.end(commit=True) == 0
        assert seen(await fetch(kit, "t")) == [0]
        data = await stored(kit)
        first = parse_header(data)
        assert (first.codec, first.transactional) == (Codec.GZIP, True)
        assert parse_header(data, first.end).codec is Codec.NONE

    run(test)


def test_recompressed_records_keep_all_they_have() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"compression.type": "snappy", "message.timestamp.type": "LogAppendTime"})
        await kit.produce("t", sent(Codec.LZ4))
        data = await stored(kit)
        verify_crc(data, parse_header(data))
        rows = decode_v2(data).batch
        assert rows.column("offset").to_pylist() == list(range(len(VALUES)))
        assert len(set(rows.column("timestamp").to_pylist())) == 1

    run(test)
