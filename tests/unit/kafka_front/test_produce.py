"""What is refused, with which code, and what is stored: Produce, partition by partition."""

import asyncio
import gzip

import pytest

from penstock.errors import ProtocolViolation
from penstock.interfaces.enode import extent
from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server.limits import KafkaFrontOptions
from penstock.protocols.kafka.wire.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from penstock.records.batch import HEADER_BYTES
from tests.unit.kafka_front.kit import Kit, batch, record, run

GOOD = batch([b"a", b"b", b"c"])


def test_offsets_follow_each_other() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        first = await kit.produce("t", GOOD)
        second = await kit.produce("t", GOOD)
        assert (first.error_code, first.base_offset, second.base_offset) == (0, 0, 3)
        assert first.log_append_time_ms == -1

    run(test)


REFUSED = {
    "no records": (b"", ErrorCode.INVALID_RECORD),
    "null records": (None, ErrorCode.INVALID_RECORD),
    "cut off": (GOOD[:-1], ErrorCode.CORRUPT_MESSAGE),
    "less than a header": (GOOD[:40], ErrorCode.CORRUPT_MESSAGE),
    "less than a magic byte": (GOOD[:10], ErrorCode.CORRUPT_MESSAGE),
    "two batches": (GOOD + GOOD, ErrorCode.INVALID_RECORD),
    "magic 1": (batch(magic=1), ErrorCode.INVALID_RECORD),
    "wrong checksum": (batch(crc_flip=1), ErrorCode.CORRUPT_MESSAGE),
    "length of 10": (batch(length_flip=10 - 49 - len(record(0, b"k", b"v"))), ErrorCode.CORRUPT_MESSAGE),
    "negative length": (batch(length_flip=-1 << 20), ErrorCode.CORRUPT_MESSAGE),
    "base offset 5": (batch(base_offset=5), ErrorCode.INVALID_RECORD),
    "no records counted": (batch(count=0), ErrorCode.INVALID_RECORD),
    "negative last delta": (batch(last_delta=-2), ErrorCode.INVALID_RECORD),
    "gap in the deltas": (batch(last_delta=4), ErrorCode.INVALID_RECORD),
    "control batch": (batch(attributes=32), ErrorCode.INVALID_RECORD),
    "producer without sequence": (batch(producer=(7, 0, -1)), ErrorCode.INVALID_RECORD),
    "transactional": (batch(attributes=16, producer=(7, 0, 0)), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    "unknown codec": (batch(attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "fewer records than counted": (batch(count=3), ErrorCode.INVALID_RECORD),
    "more records than counted": (batch([b"a", b"b"], count=1), ErrorCode.INVALID_RECORD),
    "a record that lies about its length": (batch(records=b"\x7e" + record(0, None, b"v")), ErrorCode.INVALID_RECORD),
    "a record of negative length": (batch(records=b"\x0b" + bytes(20)), ErrorCode.INVALID_RECORD),
    "a varint without end": (batch(records=b"\xff" * 30), ErrorCode.INVALID_RECORD),
    "gzip that is none": (batch(attributes=1), ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_batch_is_refused_and_nothing_is_stored(name: str) -> None:
    records, code = REFUSED[name]

    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        part = ProduceRequestPartition(index=0, records=records)
        topics = [ProduceRequestTopic(name="t", partition_data=[part])]
        answer = await kit.ask(ProduceRequest(acks=-1, timeout_ms=1, topic_data=topics), 9)
        result = answer.responses[0].partition_responses[0]
        assert ErrorCode(result.error_code) is code
        assert (result.base_offset, result.log_append_time_ms, result.log_start_offset) == (-1, -1, -1)
        assert result.error_message
        assert (await extent(kit.enode, Partition("t", 0)))[:2] == (0, 0)

    run(test)


def test_one_bad_partition_does_not_keep_others_from_being_stored() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 2)
        kit.store.create_topic("u", 1)
        topics = [
            ProduceRequestTopic(
                name="t",
                partition_data=[
                    ProduceRequestPartition(index=1, records=GOOD),
                    ProduceRequestPartition(index=2, records=GOOD),
                    ProduceRequestPartition(index=0, records=batch(crc_flip=1)),
                ],
            ),
            ProduceRequestTopic(name="missing", partition_data=[ProduceRequestPartition(index=0, records=GOOD)]),
            ProduceRequestTopic(name="u", partition_data=[ProduceRequestPartition(index=0, records=GOOD)]),
            ProduceRequestTopic(
                name="__consumer_offsets", partition_data=[ProduceRequestPartition(index=0, records=GOOD)]
            ),
        ]
        answer = await kit.ask(ProduceRequest(acks=-1, timeout_ms=1, topic_data=topics), 9)
        codes = [(each.name, [part.error_code for part in each.partition_responses]) for each in answer.responses]
        assert codes == [("t", [0, 3, 2]), ("missing", [3]), ("u", [0]), ("__consumer_offsets", [17])]
        assert (await extent(kit.enode, Partition("t", 1)))[:2] == (0, 3)
        assert (await extent(kit.enode, Partition("u", 0)))[:2] == (0, 3)

    run(test)


@pytest.mark.parametrize("acks", [-2, 2, 7])
def test_acks_are_minus_one_zero_or_one(acks: int) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        assert (await kit.produce("t", GOOD, acks=acks)).error_code == ErrorCode.INVALID_REQUIRED_ACKS

    run(test)


@pytest.mark.lossless("without answers nobody sends anything again")
def test_acks_zero_gets_no_answer_and_an_error_hangs_up() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        for name, records in (("t", GOOD), ("missing", GOOD)):
            part = ProduceRequestPartition(index=0, records=records)
            request = ProduceRequest(
                acks=0, timeout_ms=1, topic_data=[ProduceRequestTopic(name=name, partition_data=[part])]
            )
            if name == "t":
                assert await kit.ask(request, 9) is None
            else:
                with pytest.raises(ProtocolViolation, match="acks=0"):
                    await kit.ask(request, 9)
        assert (await extent(kit.enode, Partition("t", 0)))[:2] == (0, 3)

    run(test)


def test_zstd_needs_version_seven() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        answer = await kit.produce("t", batch(attributes=4), version=6)
        assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

    run(test)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_formats_are_refused_in_words_old_clients_know(version: int) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        answer = await kit.produce("t", GOOD, version=version)
        assert answer.error_code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT

    run(test)


def test_the_topics_own_limit_of_a_batch_counts() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"max.message.bytes": str(len(GOOD) - 1)})
        assert (await kit.produce("t", GOOD)).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert (await kit.produce("t", batch([b"a"]))).error_code == 0

    run(test, KafkaFrontOptions(max_message_bytes=10))


def test_a_compacted_topic_wants_keys_and_says_which_records_have_none() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"cleanup.policy": "compact"})
        records = record(0, b"k", b"v") + record(1, None, b"v") + record(2, None, b"v")
        answer = await kit.produce("t", batch([b"", b"", b""], records=records))
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert [each.batch_index for each in answer.record_errors] == [1, 2]
        assert (await kit.produce("t", batch(key=b""))).error_code == 0

    run(test)


def test_times_may_be_limited() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic(
            "t", 1, {"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"}
        )
        now = kit.runtime.now_ms()
        for time, code in ((now, 0), (now - 60_000, 32), (now + 60_000, 32)):
            assert (await kit.produce("t", batch(time_ms=time))).error_code == code

    run(test)


def test_the_log_sets_its_own_time_where_the_topic_says_so() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1, {"message.timestamp.type": "LogAppendTime"})
        answer = await kit.produce("t", GOOD)
        assert abs(answer.log_append_time_ms - kit.runtime.now_ms()) < 60_000

    run(test)


def test_an_idempotent_producers_batches_are_stored_once_and_in_order() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        first, second = batch(producer=(7, 0, 0)), batch(producer=(7, 0, 1))
        assert (await kit.produce("t", first)).base_offset == 0
        assert (await kit.produce("t", first)).base_offset == 0
        assert (await kit.produce("t", second)).base_offset == 1
        assert (await kit.produce("t", batch(producer=(7, 0, 5)))).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (await kit.produce("t", batch(producer=(7, 1, 0)))).base_offset == 2
        assert (await kit.produce("t", batch(producer=(7, 0, 2)))).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert (await extent(kit.enode, Partition("t", 0)))[:2] == (0, 3)

    run(test)


def test_counting_records_can_be_left_out() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        assert (await kit.produce("t", batch(count=3))).error_code == 0

    run(test, KafkaFrontOptions(check_records=False))


def test_topics_go_by_their_ids_from_version_13_on() -> None:
    async def test(kit: Kit) -> None:
        topics = [kit.store.create_topic(name, 1) for name in ("t", "u")]
        ids = [*(topic.id for topic in topics), b"x" * 16, bytes(16)]
        part = ProduceRequestPartition(index=0, records=GOOD)
        wanted = [ProduceRequestTopic(name="t", topic_id=each, partition_data=[part]) for each in ids]
        answer = await kit.ask(ProduceRequest(acks=-1, timeout_ms=1, topic_data=wanted), 13)
        told = [(bytes(each.topic_id), each.partition_responses[0].error_code) for each in answer.responses]
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
        assert told == [*((topic.id, 0) for topic in topics), (b"x" * 16, unknown), (bytes(16), unknown)]
        assert [(await extent(kit.enode, Partition(name, 0)))[:2] for name in ("t", "u")] == [(0, 3), (0, 3)]

    run(test)


def test_what_was_meant_for_a_deleted_topic_is_not_stored_in_a_new_one_of_its_name() -> None:
    """While a large batch is inflated in a thread, and before any request that comes later."""

    async def test(kit: Kit) -> None:
        old = kit.store.create_topic("t", 1)
        large = batch([bytes(600_000)])
        packed = gzip.compress(large[HEADER_BYTES:])
        records = batch(records=packed, attributes=1, count=1)
        part = ProduceRequestPartition(index=0, records=records)
        request = ProduceRequest(
            acks=-1, timeout_ms=1, topic_data=[ProduceRequestTopic(topic_id=old.id, partition_data=[part])]
        )
        asked = asyncio.ensure_future(kit.ask(request, 13))
        await asyncio.sleep(0)
        kit.store.delete_topic("t")
        kit.store.create_topic("t", 1)
        (found,) = (await asked).responses
        assert found.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        (found,) = (await kit.ask(request, 13)).responses
        assert found.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert (await extent(kit.enode, Partition("t", 0)))[:2] == (0, 0)

    run(test)


def test_a_topic_of_the_nodes_own_is_not_written_by_its_id() -> None:
    async def test(kit: Kit) -> None:
        own = kit.store.create_topic("__transaction_state", 1)
        part = ProduceRequestPartition(index=0, records=GOOD)
        wanted = [ProduceRequestTopic(topic_id=own.id, partition_data=[part])]
        (found,) = (await kit.ask(ProduceRequest(acks=-1, timeout_ms=1, topic_data=wanted), 13)).responses
        assert found.partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    run(test)
