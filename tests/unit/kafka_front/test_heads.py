"""What the head of a produced batch says wrong: refused or put right as a broker does, whatever the codec and acks.

Each row was tried against Apache Kafka 4.3.1, plain and with gzip, and its outcome is marked so:

- [seen on 4.3.1]: the same code, or the same change of the stored head.
- [4.3.1: …]: what the broker does where the node does something else, and why.

The times of stored records, retention and lookups by time follow from the head, so they are asked as well.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.errors import ProtocolViolation
from penstock.interfaces.enode import FetchPart, extent, fetch_one
from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server.limits import KafkaFrontOptions
from penstock.protocols.kafka.wire.metadata import ListOffsetsRequest, ListOffsetsRequestTopic
from penstock.protocols.kafka.wire.metadata import ListOffsetsRequestPartition as Wanted
from penstock.records.batch import CRC_START, crc32c, parse_header, verify_crc
from tests.unit.kafka_front.kit import Kit, batch, record, run

pytestmark = pytest.mark.near  # it is about what is refused before anything is asked of an enode

HOUR, DAY = 3_600_000, 86_400_000
CODECS = [pytest.param(0, id="plain"), pytest.param(1, id="gzip")]


def two(times: Sequence[int] = (0, 5), places: Sequence[int] = (0, 1)) -> bytes:
    pairs = zip(times, places, strict=True)
    return b"".join(record(place, b"k", b"v", time) for time, place in pairs)


def made(
    base_ms: int,
    *,
    codec: int = 0,
    records: bytes = b"",
    count: int = 2,
    last: int | None = None,
    max_ms: int | None = None,
    attributes: int = 0,
    **more: Any,
) -> bytes:
    """A batch of two records, right unless told otherwise, at ``base_ms`` and 5 ms later."""
    plain = records or two()
    last = count - 1 if last is None else last
    made = bytearray(
        batch(
            records=gzip.compress(plain) if codec else plain,
            attributes=attributes & 0x7FFF | codec,
            count=count,
            last_delta=last,
            time_ms=base_ms,
            **more,
        )
    )
    struct.pack_into(">q", made, 35, base_ms + 5 if max_ms is None else max_ms)
    struct.pack_into(">I", made, 17, crc32c(made, CRC_START))
    return bytes(made)


async def stored(kit: Kit) -> bytes:
    data = (await fetch_one(kit.enode, FetchPart(Partition("t", 0), 0, 1 << 20))).read()
    verify_crc(data, parse_header(data))
    return bytes(data)


async def offset_at(kit: Kit, time: int) -> tuple[int, int]:
    """What ListOffsets answers: (offset, time)."""
    topics = [ListOffsetsRequestTopic(name="t", partitions=[Wanted(partition_index=0, timestamp=time)])]
    part = (await kit.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 7)).topics[0].partitions[0]
    assert part.error_code == 0
    return part.offset, part.timestamp


# What is put right: how the batch differs from the right one, and the largest time that is stored, after the first one.
MENDED: dict[str, tuple[dict[str, Any], int]] = {
    "largest time too far": ({"max_ms": 10 * DAY}, 5),  # [seen on 4.3.1], as all of these
    "largest time too old": ({"max_ms": -30 * DAY}, 5),
    "no largest time": ({"max_ms": None}, 5),
    "first record is the newest": ({"records": two((0, -7)), "max_ms": 5}, 0),
    "times in any order": ({"records": two((9, 3)), "max_ms": 3}, 9),
    "a record from long ago": ({"records": two((-400 * DAY, 0)), "max_ms": -400 * DAY}, 0),
    "append time set by the client": ({"attributes": 8, "max_ms": 0}, 5),
    # [4.3.1: stored as it is]: compaction would drop the batch's tombstones the first time it meets them.
    "delete horizon set by the client": ({"attributes": 64, "max_ms": 5}, 5),
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", [-1, 1, 0])
@pytest.mark.parametrize("name", MENDED)
def test_wrong_times_in_a_head_are_put_right(name: str, acks: int, codec: int) -> None:
    changes, newest = MENDED[name]

    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"retention.ms": str(7 * DAY)})
        now = kit.runtime.now_ms() - 1_000
        claimed = changes.get("max_ms")
        data = made(now, codec=codec, **{**changes, "max_ms": -1 if claimed is None else now + claimed})
        topics = await produce(kit, data, acks)
        assert topics in (0, None)
        kept = await stored(kit)
        header = parse_header(kept)
        assert (header.max_timestamp, header.attributes) == (now + newest, codec)
        assert (header.base_timestamp, kept[61:]) == (now, data[61:])
        assert (await offset_at(kit, -3))[1] == now + newest
        assert await offset_at(kit, now + newest + 1) == (-1, -1)
        log = kit.store.log("t", 0)
        log.roll()
        assert kit.store.enforce_retention(now + 6 * DAY) == []
        assert [one.start_offset for one in kit.store.enforce_retention(now + 8 * DAY)] == [2]

    run(test)


async def produce(kit: Kit, data: bytes, acks: int) -> int | None:
    """The error code; None where there is no answer."""
    if acks:
        return (await kit.produce("t", data, acks=acks)).error_code
    with pytest.raises(AssertionError):  # the kit misses an answer
        await kit.produce("t", data, acks=0)
    return None


@pytest.mark.parametrize("codec", CODECS)
def test_a_right_batch_is_stored_byte_for_byte(codec: int) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        for number, records in enumerate((two(), two((3, 5)), two((5, 5)))):
            data = made(kit.runtime.now_ms(), codec=codec, records=records)
            assert (await kit.produce("t", data)).base_offset == 2 * number
        kept = await stored(kit)
        assert kept[16:61] == made(parse_header(kept).base_timestamp, codec=codec)[16:61]

    run(test)


NO_TIMES = {
    "none at all": (-1, two((0, 0)), -1),
    "none, and a largest one": (-1, two((0, 0)), 100),
    "before 1970": (-7, two((0, 0)), -7),
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", NO_TIMES)
def test_records_without_a_time_have_none(name: str, codec: int) -> None:
    """[seen on 4.3.1]: whatever is below 0 is no time."""
    base, records, claimed = NO_TIMES[name]

    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"message.timestamp.before.max.ms": "1000"} if base == -1 else {})
        assert (await kit.produce("t", made(base, codec=codec, records=records, max_ms=claimed))).error_code == 0
        assert parse_header(await stored(kit)).max_timestamp == -1

    run(test)


INVALID, UNKNOWN = ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
# What is refused, and with which code.
REFUSED: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "count too large": ({"count": 3, "last": 1}, INVALID),  # [seen on 4.3.1]
    "count too small": ({"count": 1, "last": 1}, INVALID),  # [seen on 4.3.1]
    "count and last offset too large": ({"count": 3}, INVALID),  # [seen on 4.3.1]
    "count and last offset too small": ({"count": 1}, INVALID),  # [seen on 4.3.1]
    "last offset too large": ({"last": 5}, INVALID),  # [seen on 4.3.1]
    "last offset too small": ({"last": 0}, INVALID),  # [seen on 4.3.1]
    "last offset negative": ({"last": -1}, INVALID),  # [seen on 4.3.1]
    "no records": ({"count": 0}, INVALID),  # [seen on 4.3.1]
    "a negative count": ({"count": -1, "last": 1}, INVALID),  # [seen on 4.3.1]
    "base offset": ({"base_offset": 7}, INVALID),  # [seen on 4.3.1]
    "control batch": ({"attributes": 32}, INVALID),  # [seen on 4.3.1]
    "control batch of a transaction": (  # [seen on 4.3.1]
        {"attributes": 48, "producer": (5, 0, 0)},
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "transactional batch without transactional id": (  # [seen on 4.3.1]
        {"attributes": 16, "producer": (5, 0, 0)},
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "transactional batch without producer": (  # [seen on 4.3.1]
        {"attributes": 16},
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "producer id without sequence": ({"producer": (5, 0, -1)}, INVALID),  # [seen on 4.3.1]
    # [4.3.1: plain ones are stored as they are, so that two records have one offset or an offset is missing; with a
    # codec they are refused with UNKNOWN_SERVER_ERROR]
    "two records in one place": ({"records": two(places=(0, 0))}, INVALID),
    "places from 1 on": ({"records": two(places=(1, 2))}, INVALID),
    "a place beyond the batch": ({"records": two(places=(0, 5))}, INVALID),
    "places the other way round": ({"records": two(places=(1, 0))}, INVALID),
    "a negative place": ({"records": two(places=(0, -1))}, INVALID),
    "a time beyond 64 bits": ({"records": two((0, 2**63 - 1))}, ErrorCode.INVALID_TIMESTAMP),  # [seen on 4.3.1]
    "two hours ahead": ({"records": two((0, 2 * HOUR))}, ErrorCode.INVALID_TIMESTAMP),  # [seen on 4.3.1]
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_head_says_wrong_of_its_records_is_refused(name: str, codec: int) -> None:
    changes, code = REFUSED[name]

    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        data = made(kit.runtime.now_ms(), codec=codec, **changes)
        for acks in (-1, 1):
            answer = await kit.produce("t", data, acks=acks)
            assert ErrorCode(answer.error_code) is code
            assert answer.error_message
        with pytest.raises(ProtocolViolation, match="acks=0"):
            await kit.produce("t", data, acks=0)
        assert (await extent(kit.enode, Partition("t", 0)))[:2] == (0, 0)

    run(test)


# [4.3.1: UNKNOWN_SERVER_ERROR for codecs that there are not, and for what is said to be gzip and is not]
CODEC_BITS = {
    "says plain, is gzip": (made(0, codec=1), 0, INVALID),
    "says gzip, is plain": (made(0), 1, INVALID),
    "codec 5": (made(0), 5, UNKNOWN),
    "codec 7": (made(0), 7, UNKNOWN),
}


@pytest.mark.parametrize("name", CODEC_BITS)
def test_a_codec_that_is_not_the_records_is_refused(name: str) -> None:
    data, codec, code = CODEC_BITS[name]
    changed = bytearray(data)
    changed[22] = changed[22] & ~7 | codec
    struct.pack_into(">I", changed, 17, crc32c(changed, CRC_START))

    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        assert ErrorCode((await kit.produce("t", bytes(changed))).error_code) is code

    run(test)


KEPT = {  # [seen on 4.3.1]
    "a bit that means nothing": {"attributes": 128},
    "another one": {"attributes": 1 << 14},
    "first sequence of a producer that nobody knows": {"producer": (5, 0, 7)},
    "sequence without producer": {"producer": (-1, 3, 4)},
    "a producer id below -1": {"producer": (-5, 0, 0)},
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", KEPT)
def test_what_nothing_depends_on_stays_as_it_came(name: str, codec: int) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        data = made(kit.runtime.now_ms(), codec=codec, **KEPT[name])
        assert (await kit.produce("t", data)).error_code == 0
        assert (await stored(kit))[16:] == data[16:]

    run(test)


def test_an_hour_ahead_is_taken_where_nothing_else_is_said() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        now = kit.runtime.now_ms()
        assert (await kit.produce("t", made(now + HOUR - 60_000))).error_code == 0
        assert (await kit.produce("t", made(now + HOUR + 60_000))).error_code == ErrorCode.INVALID_TIMESTAMP
        assert (await kit.produce("t", made(0))).error_code == 0
        kit.store.set_config("t", {"message.timestamp.after.max.ms": str(3 * HOUR)})
        assert (await kit.produce("t", made(now + HOUR + 60_000))).error_code == 0

    run(test)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("claimed", [0, 5, -DAY, DAY])
def test_each_record_out_of_time_is_named_whatever_the_head_says(claimed: int, codec: int) -> None:
    """[seen on 4.3.1]"""

    async def test(kit: Kit) -> None:
        limits = {"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "60000"}
        kit.store.create_topic("t", 1, limits)
        now = kit.runtime.now_ms()
        times = (0, -120_000, 5, 120_000)
        data = made(now, codec=codec, count=4, records=two(times, range(4)), max_ms=now + claimed)
        answer = await kit.produce("t", data)
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [each.batch_index for each in answer.record_errors] == [1, 3]
        assert str(now - 120_000) in answer.record_errors[0].batch_index_error_message
        assert (await kit.produce("t", data, version=7)).error_code == ErrorCode.INVALID_TIMESTAMP
        assert (await extent(kit.enode, Partition("t", 0)))[:2] == (0, 0)

    run(test)


def test_a_wrong_time_comes_before_a_missing_key() -> None:
    """[seen on 4.3.1]: one code for the batch, and all rows that are wrong."""

    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"cleanup.policy": "compact"})
        records = record(0, b"k", b"v", 3 * HOUR) + record(1, None, b"v")
        answer = await kit.produce("t", made(kit.runtime.now_ms(), records=records))
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [each.batch_index for each in answer.record_errors] == [0, 1]

    run(test)


@pytest.mark.parametrize("codec", CODECS)
def test_a_log_with_its_own_time_takes_any_time_but_not_its_mark(codec: int) -> None:
    """[seen on 4.3.1]"""

    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"message.timestamp.type": "LogAppendTime"})
        now = kit.runtime.now_ms()
        answer = await kit.produce("t", made(now, codec=codec, attributes=8))
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [each.batch_index for each in answer.record_errors] == [0, 1]
        assert (await kit.produce("t", made(now + 100 * DAY, codec=codec))).error_code == 0
        header = parse_header(await stored(kit))
        assert header.attributes == codec | 8
        assert abs(header.max_timestamp - now) < 60_000
        assert (await offset_at(kit, -3))[1] == header.max_timestamp

    run(test)


@pytest.mark.parametrize("name", ["lz4", "uncompressed"])
def test_a_topic_with_its_own_codec_stores_right_times_too(name: str) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"compression.type": name})
        now = kit.runtime.now_ms()
        assert (await kit.produce("t", made(now, codec=1, max_ms=now + 9 * DAY))).error_code == 0
        assert parse_header(await stored(kit)).max_timestamp == now + 5

    run(test)


def test_one_transactional_batch_without_an_id_refuses_the_whole_request() -> None:
    """[seen on 4.3.1]: nothing of such a request is stored."""

    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 2)
        answer = await kit.produce("t", made(kit.runtime.now_ms(), attributes=16, producer=(5, 0, 0)))
        assert ErrorCode(answer.error_code) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    run(test)


def test_who_turns_the_look_off_has_heads_believed() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        kit.store.create_topic("u", 1, {"message.timestamp.after.max.ms": "1000"})
        now = kit.runtime.now_ms()
        assert (await kit.produce("t", made(now, max_ms=now + 9))).error_code == 0
        assert parse_header(await stored(kit)).max_timestamp == now + 9
        assert (await kit.produce("t", made(now, attributes=8))).error_code == ErrorCode.INVALID_TIMESTAMP
        assert (await kit.produce("u", made(now + HOUR))).error_code == ErrorCode.INVALID_TIMESTAMP

    run(test, KafkaFrontOptions(check_records=False))
