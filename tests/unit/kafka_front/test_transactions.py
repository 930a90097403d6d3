"""Transactions at the front: what readers see when, who is fenced, what a restart finishes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from penstock.groups.state_machine import UndefinedTransition
from penstock.interfaces.enode import extent
from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server.limits import KafkaFrontOptions
from penstock.protocols.kafka.server.transaction_service import TransactionLog
from penstock.protocols.kafka.transactions import TABLE, Event, State
from penstock.protocols.kafka.wire.coordinator_admin import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from penstock.protocols.kafka.wire.groups import ConsumerGroupHeartbeatRequest
from penstock.protocols.kafka.wire.produce import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
)
from penstock.snode.journals import JournalService
from tests.unit.kafka_front.group_kit import member
from tests.unit.kafka_front.kit import Kit, batch, run
from tests.unit.kafka_front.transaction_kit import (
    FIRST,
    SECOND,
    VERSIONS,
    Writer,
    committed_offset,
    fetch,
    latest,
    seen,
)

OK, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def begun(kit: Kit, version: int, *, name: str = "tx", topic: str = "t") -> Writer:
    if kit.store.topic(topic) is None:
        kit.store.create_topic(topic, 2)
    writer = Writer(kit.client(), name, version)
    assert await writer.init() == OK
    return writer


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_does_not_go_on_in_a_topic_that_was_created_anew(commit: bool) -> None:
    """Kafka 4.3.1 answers so in the second version; in the first one it takes the batch, as we do."""

    async def test(kit: Kit) -> None:
        writers = [await begun(kit, version, name=f"tx-{version}") for version in VERSIONS]
        for writer in writers:
            assert await writer.write("t", b"lost") == OK
        await kit.enode.delete_topic("t")
        await kit.enode.create_topic("t", 2, {})
        assert [await writer.produce("t", b"next") for writer in writers] == [
            OK,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ]
        for writer in writers:
            assert await writer.end(commit=commit) == OK
        assert seen(await fetch(kit, "t")) == ([0] if commit else [])
        for writer in writers:
            assert await writer.write("t", b"new") == OK
            assert await writer.end(commit=True) == OK
        assert seen(await fetch(kit, "t")) == ([0] if commit else []) + [3, 5]

    run(test)


@pytest.mark.parametrize(("version", "by_id"), [(FIRST, False), (SECOND, False), (SECOND, True)])
def test_readers_of_committed_records_see_all_of_a_transaction_at_once_or_nothing(version: int, by_id: bool) -> None:
    async def test(kit: Kit) -> None:
        writer = await begun(kit, version)
        if by_id and (topic := await kit.enode.topic("t")):
            writer.ids["t"] = topic.id
        assert await writer.write("t", b"a", b"b") == OK
        open_one = await fetch(kit, "t")
        assert (open_one.high_watermark, open_one.last_stable_offset, len(open_one.records)) == (2, 0, 0)
        assert seen(await fetch(kit, "t", committed=False)) == [0, 1]
        assert await writer.end(commit=True) == OK
        assert seen(await fetch(kit, "t")) == [0, 1]
        assert await writer.write("t", b"c") == OK
        assert await writer.end(commit=False) == OK
        assert await writer.write("t", b"d") == OK
        assert await writer.end(commit=True) == OK
        done = await fetch(kit, "t")
        assert seen(done) == [0, 1, 5]
        assert [(each.producer_id, each.first_offset) for each in done.aborted_transactions] == [
            (writer.producer_id, 3)
        ]
        assert (done.high_watermark, done.last_stable_offset) == (7, 7)
        assert (await fetch(kit, "t", committed=False)).aborted_transactions is None

    run(test)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_end_of_the_log_is_the_first_open_transaction_for_readers_of_committed_records(version: int) -> None:
    async def test(kit: Kit) -> None:
        first, second = await begun(kit, version), await begun(kit, version, name="other")
        assert await kit.produce("t", batch()) is not None
        assert await first.write("t", b"a") == OK
        assert await second.write("t", b"b") == OK
        assert await second.end(commit=True) == OK
        assert (await latest(kit, "t"), await latest(kit, "t", committed=False)) == (1, 4)
        assert await latest(kit, "t", timestamp=1_700_000_000_000) == 0
        assert seen(await fetch(kit, "t")) == [0]
        assert await first.end(commit=False) == OK
        assert await latest(kit, "t") == 5
        assert seen(await fetch(kit, "t")) == [0, 2]
        assert seen(await fetch(kit, "t", offset=2)) == [2]

    run(test)


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_are_a_groups_only_once_their_transaction_commits(version: int) -> None:
    async def test(kit: Kit) -> None:
        writer = await begun(kit, version)
        assert await writer.commit_offsets("g", "t", 5) == OK
        assert await committed_offset(kit, "g", "t") == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert await committed_offset(kit, "g", "t", stable=False) == (-1, OK)
        assert await writer.end(commit=False) == OK
        assert await committed_offset(kit, "g", "t") == (-1, OK)
        assert await writer.commit_offsets("g", "t", 6) == OK
        assert await writer.write("t", b"x") == OK
        assert await writer.end(commit=True) == OK
        assert await committed_offset(kit, "g", "t") == (6, OK)

    run(test)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_that_was_replaced_cannot_commit_within_a_transaction(version: int) -> None:
    async def test(kit: Kit) -> None:
        writer = await begun(kit, version)
        name = (await member(kit)).member_id
        code = await writer.commit_offsets("g", "t", 5, generation_id=7, member_id=name)
        assert code == ErrorCode.ILLEGAL_GENERATION
        code = await writer.commit_offsets("g", "t", 5, generation_id=1, member_id="gone")
        assert code == ErrorCode.UNKNOWN_MEMBER_ID
        assert await writer.commit_offsets("g", "t", 5, generation_id=1, member_id=name) == OK
        assert await writer.end(commit=True) == OK
        assert await committed_offset(kit, "g", "t") == (5, OK)

    run(test)


def test_offsets_in_a_transaction_go_by_topic_id_and_say_what_is_wrong_with_a_member() -> None:
    """TxnOffsetCommit v5, and v6 (KIP-1319), as Kafka 4.4.0."""

    async def test(kit: Kit) -> None:
        writer = await begun(kit, SECOND)
        topic = kit.store.topic("t")
        assert topic is not None
        writer.ids = {"t": topic.id, "unknown": b"x" * 16, "zero": bytes(16)}
        join = ConsumerGroupHeartbeatRequest(
            group_id="newer",
            member_id="m",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        epoch = (await kit.ask(join, 1)).member_epoch
        stale, lost = ("newer", epoch + 1), ("nowhere", 3)
        for version, codes in (
            (5, {stale: ErrorCode.ILLEGAL_GENERATION, lost: ErrorCode.ILLEGAL_GENERATION}),
            (6, {stale: ErrorCode.STALE_MEMBER_EPOCH, lost: ErrorCode.GROUP_ID_NOT_FOUND}),
        ):
            for (group, wrong), code in codes.items():
                identity = {"generation_id": wrong, "member_id": "m", "version": version}
                assert await writer.commit_offsets(group, "t", 5, **identity) == code
                missing = await writer.commit_offsets(group, "unknown", 5, **identity)
                assert missing == (UNKNOWN if version < 6 else ErrorCode.UNKNOWN_TOPIC_ID)
        for name in ("unknown", "zero"):
            assert await writer.commit_offsets("g", name, 5, version=6) == ErrorCode.UNKNOWN_TOPIC_ID
        assert await writer.commit_offsets("g", "t", 7, version=6) == OK
        assert await writer.commit_offsets("newer", "t", 8, version=6, generation_id=epoch, member_id="m") == OK
        assert await writer.end(commit=True) == OK
        assert await committed_offset(kit, "g", "t") == (7, OK)
        assert await committed_offset(kit, "newer", "t") == (8, OK)

    run(test)


@pytest.mark.parametrize("version", VERSIONS)
def test_who_takes_an_id_over_fences_its_holder_and_aborts_what_he_left_open(version: int) -> None:
    async def test(kit: Kit) -> None:
        old = await begun(kit, version)
        assert await old.write("t", b"lost") == OK
        new = await begun(kit, version)
        assert new.producer_id == old.producer_id
        assert new.epoch == old.epoch + 2  # one fences the markers' readers, one is the new holder's
        assert await latest(kit, "t") == 2
        assert await old.produce("t", b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await old.end(commit=True) == ErrorCode.PRODUCER_FENCED
        assert await old.init(known=True) == ErrorCode.PRODUCER_FENCED
        assert await new.write("t", b"kept") == OK
        assert await new.end(commit=True) == OK
        assert seen(await fetch(kit, "t")) == [2]

    run(test)


def test_batches_outside_of_a_transaction_are_refused() -> None:
    async def test(kit: Kit) -> None:
        writer = await begun(kit, FIRST)
        assert await writer.produce("t", b"not added") == ErrorCode.TRANSACTION_ABORTABLE
        # Versions before 11 do not know that word (KIP-890).
        assert await writer.produce("t", b"not added", version=10) == ErrorCode.INVALID_TXN_STATE
        assert await writer.add(("t", 0)) == [OK]
        assert await writer.produce("t", b"other partition", partition=1) == ErrorCode.TRANSACTION_ABORTABLE
        assert await writer.produce("t", b"plain", attributes=0) == OK  # it is idempotent, and nothing is open here
        assert await writer.produce("t", b"in") == OK
        assert await writer.produce("t", b"plain", attributes=0) == ErrorCode.INVALID_TXN_STATE
        assert await writer.end(commit=True) == OK
        assert await writer.produce("t", b"after") == ErrorCode.TRANSACTION_ABORTABLE
        alone = await kit.produce("t", batch(attributes=16, producer=(7, 0, 0)))
        assert alone.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        stranger = Writer(kit.client(), "nobody", FIRST)
        stranger.producer_id, stranger.epoch = writer.producer_id, 0
        assert await stranger.produce("t", b"x") == ErrorCode.INVALID_PRODUCER_ID_MAPPING

    run(test)


def test_partitions_take_part_together_or_not_at_all() -> None:
    async def test(kit: Kit) -> None:
        writer = await begun(kit, FIRST)
        unknown, not_tried = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
        assert await writer.add(("t", 0), ("t", 9), ("no", 0)) == [not_tried, unknown, unknown]
        assert await writer.add(("__transaction_state", 0)) == [unknown]
        assert await writer.end(commit=True) == ErrorCode.INVALID_TXN_STATE
        old = await begun(kit, FIRST)
        assert await writer.add(("t", 0)) == [ErrorCode.PRODUCER_FENCED]
        assert await writer.add(("t", 0), version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert await old.add(("t", 0), ("t", 1)) == [OK, OK]

    run(test)


def test_an_end_asked_for_again_is_the_same_end() -> None:
    async def test(kit: Kit) -> None:
        writer = await begun(kit, FIRST)
        assert await writer.write("t", b"x") == OK
        assert await writer.end(commit=True) == OK
        assert await writer.end(commit=True) == OK
        assert await writer.end(commit=False) == ErrorCode.INVALID_TXN_STATE
        second = await begun(kit, SECOND, name="2")
        assert await second.write("t", b"y") == OK
        before = second.epoch
        assert await second.end(commit=True) == OK
        assert second.epoch == before + 1
        second.epoch = before
        assert await second.end(commit=False) == ErrorCode.INVALID_TXN_STATE
        assert await second.end(commit=True) == OK
        assert second.epoch == before + 1
        assert await second.end(commit=True) == ErrorCode.INVALID_TXN_STATE  # there is nothing to commit now
        assert await second.end(commit=False) == OK  # but to abort nothing is a way to get a new epoch
        assert second.epoch == before + 2

    run(test)


def test_a_producer_may_raise_its_own_epoch_and_ask_again() -> None:
    async def test(kit: Kit) -> None:
        writer = await begun(kit, FIRST)
        before = writer.epoch
        assert await writer.init(known=True) == OK
        assert writer.epoch == before + 1
        writer.epoch = before
        assert await writer.init(known=True) == OK
        assert writer.epoch == before + 1

    run(test)


def test_an_exhausted_epoch_leads_to_a_new_producer_id() -> None:
    async def test(kit: Kit) -> None:
        writer = await begun(kit, SECOND)
        keeper = kit.front._shared.transactions
        for _ in range(3):
            assert await writer.init(known=True) == OK
        keeper._known["tx"] = replace(keeper._known["tx"], epoch=32_766)
        writer.epoch, before = 32_766, writer.producer_id
        writer.sequences.clear()
        assert await writer.write("t", b"last of its id") == OK
        assert await writer.end(commit=True) == OK
        assert (writer.producer_id != before, writer.epoch) == (True, 0)
        assert await writer.write("t", b"first of the next") == OK
        assert await writer.end(commit=True) == OK
        assert seen(await fetch(kit, "t")) == [0, 2]

    run(test)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_transaction_cannot_be_open_for_ever(timeout_ms: int) -> None:
    async def test(kit: Kit) -> None:
        assert await Writer(kit).init(timeout_ms=timeout_ms) == ErrorCode.INVALID_TRANSACTION_TIMEOUT

    run(test)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transaction_that_is_open_for_too_long_is_aborted_and_its_producer_fenced(
    version: int, distance: int
) -> None:
    timeout_ms = 1_000 if distance else 30

    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        writer = Writer(kit, "tx", version)
        assert await writer.init(timeout_ms=timeout_ms) == OK
        assert await writer.write("t", b"slow") == OK
        part = Partition("t", 0)
        while (await extent(kit.enode, part)).stable == 0:
            await kit.enode.arrival({part: (await extent(kit.enode, part)).end})
        assert (await extent(kit.enode, part))[:2] == (0, 2)
        assert seen(await fetch(kit, "t")) == []
        assert await writer.produce("t", b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
        # In the second version the raised epoch looks like that of an end whose answer was lost: an abort, in fact.
        too_late = {FIRST: ErrorCode.PRODUCER_FENCED, SECOND: ErrorCode.INVALID_TXN_STATE}
        assert await writer.end(commit=True) == too_late[version]
        assert await writer.init() == OK
        assert await writer.write("t", b"again") == OK
        assert await writer.end(commit=True) == OK
        assert seen(await fetch(kit, "t")) == [2]

    run(test)


def test_a_topic_that_is_deleted_does_not_keep_a_transaction_open() -> None:
    async def test(kit: Kit) -> None:
        writer = await begun(kit, FIRST)
        kit.store.create_topic("gone", 1)
        assert await writer.write("gone", b"x") == OK
        assert await writer.write("t", b"x") == OK
        kit.store.delete_topic("gone")
        assert await writer.end(commit=True) == OK
        assert seen(await fetch(kit, "t")) == [0]

    run(test)


def test_ids_that_nobody_uses_are_forgotten() -> None:
    async def test(kit: Kit) -> None:
        writer, busy = await begun(kit, FIRST), await begun(kit, FIRST, name="busy")
        assert await busy.write("t", b"x") == OK
        keeper = kit.front._shared.transactions
        await kit.again.until_done(lambda: keeper.forget_unused(0))
        assert [each.transactional_id for each in keeper.all()] == ["busy"]
        assert await writer.add(("t", 0)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
        assert await busy.end(commit=True) == OK
        stored = TransactionLog(JournalService(kit.enode, kit.runtime), 2)
        assert list(await stored.load()) == ["busy"]

    run(test, KafkaFrontOptions(transaction_partitions=2))


@pytest.mark.lossless("a marker that an operator asks for again is there twice; see test_in_doubt")
def test_operators_see_transactions_and_can_end_one_that_hangs() -> None:
    async def test(kit: Kit) -> None:
        writer = await begun(kit, FIRST)
        assert await writer.write("t", b"x", partition=0) == OK
        assert await writer.commit_offsets("g", "t", 1) == OK
        listed = await kit.ask(ListTransactionsRequest(state_filters=["Ongoing", "Odd"]), 1)
        assert [each.transactional_id for each in listed.transaction_states] == ["tx"]
        assert list(listed.unknown_state_filters) == ["Odd"]
        for empty in (
            {"state_filters": ["Empty"]},
            {"producer_id_filters": [writer.producer_id + 1]},
            {"duration_filter": 10_000_000},
        ):
            assert not (await kit.ask(ListTransactionsRequest(**empty), 1)).transaction_states
        for pattern, ids in ({"t.": ["tx"], "": ["tx"], "t": [], "x": [], "[a-z]+": ["tx"]}).items():
            listed = await kit.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
            assert (listed.error_code, [each.transactional_id for each in listed.transaction_states]) == (OK, ids)
        listed = await kit.ask(ListTransactionsRequest(transactional_id_pattern="t(", state_filters=["Odd"]), 2)
        assert (listed.error_code, listed.transaction_states) == (ErrorCode.INVALID_REGULAR_EXPRESSION, ())
        told, missing = (
            await kit.ask(DescribeTransactionsRequest(transactional_ids=["tx", "no"]), 0)
        ).transaction_states
        assert (told.transaction_state, told.producer_id, told.producer_epoch) == ("Ongoing", writer.producer_id, 0)
        assert [each.topic for each in told.topics] == ["__consumer_offsets", "t"]
        assert missing.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        asked = [DescribeProducersRequestTopic(name="t", partition_indexes=[0, 9])]
        here, nowhere = (await kit.ask(DescribeProducersRequest(topics=asked), 0)).topics[0].partitions
        (active,) = here.active_producers
        assert (active.producer_id, active.last_sequence, active.current_txn_start_offset) == (writer.producer_id, 0, 0)
        assert nowhere.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        marker = WriteTxnMarkersRequestMarker(
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            transaction_result=False,
            topics=[WriteTxnMarkersRequestTopic(name="t", partition_indexes=[0, 9])],
        )
        wrote = (await kit.ask(WriteTxnMarkersRequest(markers=[marker]), 1)).markers[0].topics[0].partitions
        assert [each.error_code for each in wrote] == [OK, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await latest(kit, "t") == 2

    run(test)


def test_a_bug_in_the_turn_of_an_id_reaches_who_asked_and_nobody_waits_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(kit: Kit) -> None:
        writer = await begun(kit, SECOND)
        with monkeypatch.context() as patched:
            patched.delitem(TABLE, (State.EMPTY, Event.ADD))
            with pytest.raises(UndefinedTransition, match="ADD"):
                await writer.add(("t", 0))
        assert await writer.add(("t", 0)) == [OK]

    run(test)
