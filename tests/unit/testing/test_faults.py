"""Each fault as a client of ours meets it: it retries, loses nothing, stores nothing twice; or says what was wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from penstock.client import Admin, Consumer, Producer, RangeReader
from penstock.errors import PenstockError, RequestTimeout, ServerError, UsageError
from penstock.interfaces import NewTopic
from penstock.model import LogRange, Offset, OffsetSpec, Partition
from penstock.testing import Broker

PARTITION = Partition("t", 0)
QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 5}


@pytest.fixture
def log() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("t")
        yield broker


def stored(log: Broker) -> list[bytes | None]:
    log.faults.clear()
    with RangeReader(log.address) as reader:
        end = reader.offsets({PARTITION: OffsetSpec(name=Offset.LATEST)})[PARTITION].offset
        return [record.value for batch in reader.read(LogRange("t", 0, 0, end)) for record in batch]


def send(log: Broker, *values: bytes, **options: int | bool) -> None:
    with Producer(log.address, **QUICK, **options) as producer:
        deliveries = [producer.send("t", value) for value in values]
        assert [delivery.result(30).offset for delivery in deliveries] == list(range(len(values)))


def test_a_producer_tries_again_after_a_retriable_error(log: Broker) -> None:
    log.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    send(log, b"1", b"2")
    assert log.faults.seen("Produce") >= 3
    assert stored(log) == [b"1", b"2"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_answer_that_never_came_is_no_reason_to_store_a_record_twice(log: Broker, moment: str) -> None:
    log.faults.drop("Produce", moment=moment)  # type: ignore[arg-type]
    send(log, b"1", b"2", linger_ms=1_000)
    assert log.faults.seen("Produce") == 2
    assert stored(log) == [b"1", b"2"]


def test_an_error_after_the_effect_is_survived_too(log: Broker) -> None:
    log.faults.error("Produce", "REQUEST_TIMED_OUT", moment="after", times=2)
    send(log, b"1", b"2", linger_ms=1_000)
    assert stored(log) == [b"1", b"2"]


def test_without_idempotence_the_same_fault_does_store_it_twice(log: Broker) -> None:
    log.faults.drop("Produce", moment="after")
    with Producer(log.address, enable_idempotence=False, **QUICK) as producer:
        producer.send("t", b"1").result(30)
    assert stored(log) == [b"1", b"1"]


def test_an_error_that_is_final_comes_out(log: Broker) -> None:
    log.faults.error("Produce", "TOPIC_AUTHORIZATION_FAILED")
    with Producer(log.address, **QUICK) as producer:
        with pytest.raises(ServerError, match="TOPIC_AUTHORIZATION_FAILED"):
            producer.send("t", b"1").result(30)
        producer.send("t", b"2").result(30)
    assert stored(log) == [b"2"]


def test_a_client_that_waits_for_no_answer_is_hung_up_on(log: Broker) -> None:
    log.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER")
    with Producer(log.address, acks="none", enable_idempotence=False, **QUICK) as producer:
        producer.send("t", b"lost").result(30)
        while log.faults.seen("Produce") < 2:
            producer.send("t", b"kept").result(30)
    assert set(stored(log)) == {b"kept"}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_delay_is_waited_for(log: Broker, moment: str) -> None:
    send(log, b"1")
    with RangeReader(log.address) as reader:
        assert [len(batch) for batch in reader.read(LogRange("t", 0, 0, 1))] == [1]
        log.faults.delay("Fetch", 0.3, moment=moment)  # type: ignore[arg-type]
        began = time.monotonic()
        assert [len(batch) for batch in reader.read(LogRange("t", 0, 0, 1))] == [1]
        assert time.monotonic() - began >= 0.3


def test_a_delay_beyond_a_clients_patience_is_a_timeout(log: Broker) -> None:
    log.faults.delay("ListOffsets", 60, times=None)
    with (
        Admin(log.address, request_timeout_ms=100, api_timeout_ms=200, fetch_max_wait_ms=50) as admin,
        pytest.raises(RequestTimeout),
    ):
        admin.end_offsets([PARTITION])


def test_a_fetch_that_is_hung_up_on_is_asked_again(log: Broker) -> None:
    send(log, b"1", b"2")
    log.faults.drop("Fetch", times=2)
    with Consumer(f"{log.address}/t", **QUICK) as consumer:
        assert [record.value for record in consumer.poll(30)] == [b"1", b"2"]
    assert log.faults.seen("Fetch") >= 3


def test_a_member_whose_heartbeat_is_hung_up_on_stays_a_member(log: Broker) -> None:
    send(log, b"1")
    with Consumer(f"{log.address}/t", group="g", heartbeat_interval_ms=20, **QUICK) as consumer:
        assert len(consumer.poll(30)) == 1
        joins = log.faults.seen("JoinGroup")
        log.faults.drop("Heartbeat", times=2)
        log.faults.wait_seen("Heartbeat", log.faults.seen("Heartbeat") + 4)
        assert consumer.poll(0) is not None
        consumer.commit()
        assert log.faults.seen("JoinGroup") == joins
    with Admin(log.address) as admin:
        assert admin.committed("g")[PARTITION].offset == 1


def test_a_member_that_hears_of_a_rebalance_joins_again(log: Broker) -> None:
    send(log, b"1")
    with Consumer(f"{log.address}/t", group="g", heartbeat_interval_ms=20, **QUICK) as consumer:
        assert len(consumer.poll(30)) == 1
        joins = log.faults.seen("JoinGroup")
        log.faults.error("Heartbeat", "REBALANCE_IN_PROGRESS")
        while log.faults.seen("JoinGroup") == joins:
            consumer.poll(0.01)
        while not consumer.assignment():
            consumer.poll(0.01)
        assert consumer.assignment() == {PARTITION}
        consumer.commit()


def test_a_member_of_an_older_generation_joins_again_where_it_was(log: Broker) -> None:
    send(log, b"1")
    with Consumer(f"{log.address}/t", group="g", heartbeat_interval_ms=20, **QUICK) as consumer:
        consumer.commit(consumer.poll(30))
        joins = log.faults.seen("JoinGroup")
        log.faults.error("Heartbeat", "ILLEGAL_GENERATION")
        while log.faults.seen("JoinGroup") == joins or not consumer.assignment():
            assert len(consumer.poll(0.01)) == 0
        assert consumer.position(PARTITION) == 1


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("api", ["FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "ListOffsets", "Metadata"])
def test_a_consumer_finds_its_way_in_past_any_single_loss(log: Broker, api: str, moment: str) -> None:
    send(log, b"1")
    log.faults.drop(api, moment=moment)  # type: ignore[arg-type]
    with Consumer(f"{log.address}/t", group="g", **QUICK) as consumer:
        assert [record.value for record in consumer.poll(30)] == [b"1"]
        consumer.commit()
    assert log.faults.seen(api) >= 2


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Metadata", "LEADER_NOT_AVAILABLE"),
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"),
        ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("OffsetCommit", "NOT_COORDINATOR"),
        ("Fetch", "NOT_LEADER_OR_FOLLOWER"),
        ("ListOffsets", "LEADER_NOT_AVAILABLE"),
    ],
)
def test_a_consumer_finds_its_way_in_past_any_passing_error(log: Broker, api: str, error: str) -> None:
    send(log, b"1")
    log.faults.error(api, error)
    with Consumer(f"{log.address}/t", group="g", **QUICK) as consumer:
        assert [record.value for record in consumer.poll(30)] == [b"1"]
        consumer.commit()
    assert log.faults.seen(api) >= 2
    with Admin(log.address) as admin:
        assert admin.committed("g")[PARTITION].offset == 1


@pytest.mark.parametrize("moment", ["before", "after"])
def test_before_the_effect_and_after_it_differ(log: Broker, moment: str) -> None:
    log.faults.error("CreateTopics", "POLICY_VIOLATION", moment=moment)  # type: ignore[arg-type]
    with Admin(log.address) as admin:
        with pytest.raises(ServerError, match="POLICY_VIOLATION"):
            admin.create_topics([NewTopic("new")])
        assert ("new" in admin.topics()) == (moment == "after")


def test_a_fault_on_any_request_and_for_ever_makes_a_log_useless_until_it_is_cleared(log: Broker) -> None:
    log.faults.drop("", times=None)
    with Admin(log.address, api_timeout_ms=200, **QUICK) as admin, pytest.raises(PenstockError):
        admin.topics()
    log.faults.clear()
    with Admin(log.address) as admin:
        assert set(admin.topics()) == {"t"}
    assert log.faults.seen("") > log.faults.seen("Metadata") > 0


def test_faults_are_used_up_one_request_each_and_delays_add_up(log: Broker) -> None:
    faults = log.faults
    faults.delay("Fetch", 1)
    faults.delay("", 2, times=2)
    faults.error("Fetch", "NOT_LEADER_OR_FOLLOWER")
    faults.drop("Fetch")
    assert [(rule.delay_s, rule.error, rule.drop) for rule in faults.take("Fetch")] == [
        (1, "", False),
        (2, "", False),
        (0, "NOT_LEADER_OR_FOLLOWER", False),
    ]
    assert [(rule.delay_s, rule.error, rule.drop) for rule in faults.take("Fetch")] == [(2, "", False), (0, "", True)]
    assert faults.take("Fetch") == []
    assert faults.seen("Fetch") == 3


def test_a_fault_that_cannot_be_meant_is_refused_in_the_test(log: Broker) -> None:
    for wrong in (
        lambda: log.faults.error("Produse", "NOT_LEADER_OR_FOLLOWER"),
        lambda: log.faults.error("Produce", "NOT_LEADER"),
        lambda: log.faults.drop("Produce", times=0),
        lambda: log.faults.delay("Produce", -1),
        lambda: log.faults.drop("Produce", moment="during"),  # type: ignore[arg-type]
        lambda: log.faults.seen("produce"),
    ):
        with pytest.raises(UsageError):
            wrong()
    assert log.faults.take("Produce") == []


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_broker_that_ends_does_not_wait_for_a_delay(log: Broker, end: str) -> None:
    log.faults.delay("Metadata", 600, times=None)
    errors: list[PenstockError] = []

    def ask() -> None:
        try:
            with Admin(log.address, api_timeout_ms=100, **QUICK) as admin:
                admin.topics()
        except PenstockError as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    log.faults.wait_seen("Metadata", 1)
    began = time.monotonic()
    getattr(log, end)()
    assert time.monotonic() - began < 5
    asking.join()
    assert len(errors) == (end == "kill")


def test_waiting_for_requests_that_do_not_come_ends(log: Broker) -> None:
    with pytest.raises(RequestTimeout, match="0 of 1 requests of Fetch"):
        log.faults.wait_seen("Fetch", 1, timeout_s=0.01)
