"""Transactions of a producer beside its records: offsets, prepared ones, closing, the synchronous class, the table."""

from __future__ import annotations

import itertools
import pickle

import pytest

from penstock.client import Admin, AsyncConsumer, Producer, TransactionAborted
from penstock.client.producer.transactions import CALLS, TABLE, Event, State, after
from penstock.errors import ConfigError, ConnectionLost, UsageError
from penstock.groups.state_machine import UndefinedTransition
from penstock.model import Committed, GroupMetadata, PreparedTransaction
from tests.conformance.fake_log import FakeLog
from tests.unit.client.test_producing import stored
from tests.unit.client.test_transactions import ADDRESS, OPTIONS, T, ready, words
from tests.unit.client.virtual_time import run


def test_offsets_go_with_the_transaction_or_make_it_fail(log: FakeLog) -> None:
    log.faults["offsets"].extend([None, ConnectionLost("gone")])

    async def main() -> None:
        async with await ready() as producer:
            async with producer.transaction():
                await producer.send_offsets_to_transaction({T: 5}, "g")
            await producer.begin_transaction()
            with pytest.raises(UsageError, match="name"):
                await producer.send_offsets_to_transaction({T: 5}, "")
            with pytest.raises(ConnectionLost):
                await producer.send_offsets_to_transaction({T: 6}, GroupMetadata("g", 3, "me"))
            with pytest.raises(ConnectionLost):
                await producer.commit_transaction()
            await producer.abort_transaction()

    run(main())
    assert [told for name, told in log.calls if name == "offsets"] == [
        ({T: Committed(5)}, GroupMetadata("g")),
        ({T: Committed(6)}, GroupMetadata("g", 3, "me")),
    ]


def test_a_prepared_transaction_is_stored_and_left_to_somebody_else(log: FakeLog) -> None:
    async def main() -> PreparedTransaction:
        async with await ready() as producer:
            await producer.begin_transaction()
            delivery = await producer.send("t", b"a")
            prepared = await producer.prepare_transaction()
            assert delivery.done()
            with pytest.raises(UsageError, match="prepared"):
                await producer.send("t", b"b")
            return prepared

    prepared = run(main())
    assert ("end", False) not in log.calls  # closing it does not abort it
    assert pickle.loads(pickle.dumps(prepared)) == prepared == PreparedTransaction("tx", 7, 1)
    with Admin(ADDRESS) as admin:
        admin.complete_transaction(prepared)
        admin.complete_transaction(prepared, commit=False)
    assert [told for name, told in log.calls if name == "complete"] == [(prepared, True), (prepared, False)]


def test_what_is_prepared_can_be_ended_here_too(log: FakeLog) -> None:
    async def main() -> None:
        async with await ready() as producer:
            for end in (producer.commit_transaction, producer.abort_transaction):
                await producer.begin_transaction()
                await producer.send("t", b"a")
                await producer.prepare_transaction()
                await end()

    run(main())
    assert [told for told in words(log) if told != "send"] == [
        ("begin", "tx"), ("end", True), ("begin", "tx"), ("end", False),
    ]  # fmt: skip


def test_closing_aborts_what_is_open(log: FakeLog, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        producer = await ready()
        await producer.begin_transaction()
        delivery = await producer.send("t", b"a")
        await producer.close()
        assert isinstance(delivery.exception(), TransactionAborted)

    run(main())
    assert words(log) == [("begin", "tx"), ("end", False)]
    assert "in a transaction" in caplog.text


def test_the_synchronous_producer_does_the_same(log: FakeLog) -> None:
    with Producer(ADDRESS, **OPTIONS) as producer:
        with producer.transaction():
            delivery = producer.send("t", b"a")
        assert delivery.result().offset == 0
        with pytest.raises(UsageError, match="timestamp"), producer.transaction():
            producer.send("t", b"b", timestamp_ms=2**63)
        producer.begin_transaction()
        producer.send_offsets_to_transaction({T: 1}, "g")
        prepared = producer.prepare_transaction()
        assert prepared.transactional_id == "tx"
        producer.commit_transaction()
    assert stored(log) == [b"a"]


def test_a_consumer_says_as_whom_it_commits(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t", group="g", group_instance_id="i") as consumer:
            await consumer.poll(0.1)
            found = consumer.group_metadata()
            assert (found.group, found.instance_id) == ("g", "i")
            assert found.generation > 0
            assert found.member_id
        async with AsyncConsumer(f"{ADDRESS}/t") as alone:
            with pytest.raises(UsageError, match="no group"):
                alone.group_metadata()

    del log
    run(main())


def test_options_that_make_no_sense_are_refused(log: FakeLog) -> None:
    del log
    with pytest.raises(ConfigError, match="enable_idempotence"):
        Producer(ADDRESS, transactional_id="tx", enable_idempotence=False, acks="all")
    with pytest.raises(ConfigError):
        Producer(ADDRESS, transactional_id="")


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)), ids=str)
def test_each_pair_of_the_table_has_a_row_or_is_refused_in_words(state: State, event: Event) -> None:
    if (state, event) in TABLE:
        assert after(state, event) in State
    else:
        with pytest.raises(UsageError if event in CALLS else UndefinedTransition, match=state.value):
            after(state, event)


def test_only_an_end_leads_out_of_a_transaction() -> None:
    inside = {State.IN_TRANSACTION, State.PREPARED, State.COMMITTING, State.ABORTING, State.ABORTABLE_ERROR}
    for (state, event), following in TABLE.items():
        if state in inside and following not in inside | {State.FATAL_ERROR}:
            assert event is Event.DONE
        if state is State.FATAL_ERROR:
            assert following is State.FATAL_ERROR
