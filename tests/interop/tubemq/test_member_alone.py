"""One consumer of ours in a group at a real TubeMQ: reading, confirming, rejecting, beginnings, filters."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from penstock.client import Consumer, RebalanceListener
from penstock.errors import ServerError, UsageError
from penstock.model import Partition, Record
from penstock.records import Messages
from tests.interop.peers.tubemq_fixtures import NewTopic
from tests.interop.tubemq.members import PATIENCE_MS, Member, come_again, fresh, once, read, send, until
from tools.peers import tubemq

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def filled(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> tuple[str, list[bytes]]:
    """A topic of two partitions in one store, with 60 messages: every third blue, red, plain."""
    topic = tubemq_topic(partitions=2)
    return topic, send(tubemq_peer.address, topic, 60, filters=("blue", "red", None))


def test_everything_comes_once_and_what_is_confirmed_not_again(
    tubemq_peer: tubemq.Cluster, filled: tuple[str, list[bytes]]
) -> None:
    topic, sent = filled
    group = fresh("alone")
    with Member(tubemq_peer.address, group, [topic]) as member:
        until([member], lambda: len(member.got) >= 60)
        ends = {end for _, end in tubemq_peer.ends(topic).values()}
        # Also in the partition whose last record is not the store's last.
        until([member], lambda: {member.consumer.position(each) for each in member.consumer.assignment()} == ends)
    assert member.got == once(sent)
    assert [what for what, _ in member.told.heard] == ["assigned", "revoked"]
    with Member(tubemq_peer.address, group, [topic]) as again:
        until([again], lambda: len(again.holds) == 2)
        for _ in range(8):
            again.step()
    assert not again.got


def test_what_was_not_confirmed_or_was_rejected_comes_again(
    tubemq_peer: tubemq.Cluster, filled: tuple[str, list[bytes]]
) -> None:
    topic, sent = filled
    group = fresh("again")
    with Consumer(f"tubemq://{tubemq_peer.address}/{topic}", group=group, **PATIENCE_MS) as consumer:
        first = _poll(consumer)
        consumer.reject(first)
        come_again(consumer, first)
    with Member(tubemq_peer.address, group, [topic]) as member:
        until([member], lambda: len(member.got) >= 60)
    assert member.got == once(sent)


def test_a_batch_nobody_confirms_in_time_comes_again(
    tubemq_peer: tubemq.Cluster, filled: tuple[str, list[bytes]]
) -> None:
    topic, _ = filled
    options = {**PATIENCE_MS, "confirm_timeout_ms": 700}
    with Consumer(f"tubemq://{tubemq_peer.address}/{topic}", group=fresh("late"), **options) as consumer:
        first = _poll(consumer)
        come_again(consumer, first)
        with pytest.raises(ServerError, match="not this consumer's to confirm"):
            consumer.commit(first)


def test_polls_in_small_pieces_confirm_with_the_last(
    tubemq_peer: tubemq.Cluster, filled: tuple[str, list[bytes]]
) -> None:
    topic, sent = filled
    group = fresh("pieces")
    with Member(tubemq_peer.address, group, [topic], max_poll_records=7) as member:
        until([member], lambda: len(member.got) >= 60)
    assert member.got == once(sent)
    with Member(tubemq_peer.address, group, [topic]) as again:
        until([again], lambda: len(again.holds) == 2)
        for _ in range(8):
            again.step()
    assert not again.got


def test_who_leaves_in_the_middle_of_a_batch_leaves_a_mark(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic, group = tubemq_topic(), fresh("marks")
    sent = send(tubemq_peer.address, topic, 20)
    address = f"tubemq://{tubemq_peer.address}/{topic}"
    with Consumer(address, group=group, max_poll_records=7, **PATIENCE_MS) as consumer:
        done = len(read(consumer, 7))
    with Member(tubemq_peer.address, group, [topic]) as member:
        until([member], lambda: len(member.got) >= 20 - done)
        for _ in range(5):
            member.step()
    assert member.got == once(sent[done:])


@pytest.mark.parametrize("options", [{"enable_auto_commit": True}, {"confirm_locally": True}])
def test_other_ways_to_confirm(
    tubemq_peer: tubemq.Cluster, filled: tuple[str, list[bytes]], options: dict[str, bool]
) -> None:
    topic, sent = filled
    group = fresh("ways")
    found: list[bytes | None] = []
    with Consumer(f"tubemq://{tubemq_peer.address}/{topic}", group=group, **PATIENCE_MS, **options) as consumer:
        while len(found) < 60:
            batch = _poll(consumer)
            found += [record.value for record in batch]
            if "confirm_locally" in options:
                consumer.commit(batch)
    assert sorted(map(str, found)) == sorted(map(str, sent))
    with Member(tubemq_peer.address, group, [topic]) as again:
        until([again], lambda: len(again.holds) == 2)
        for _ in range(8):
            again.step()
    assert not again.got


@pytest.mark.parametrize(("position", "expected"), [("earliest", 60), ("latest", 0)])
def test_a_new_group_begins_where_it_is_told(
    tubemq_peer: tubemq.Cluster, filled: tuple[str, list[bytes]], position: str, expected: int
) -> None:
    topic, _ = filled
    with Member(tubemq_peer.address, fresh("begins"), [topic], auto_offset_reset=position) as member:
        until([member], lambda: len(member.holds) == 2)
        if expected:
            until([member], lambda: len(member.got) >= expected)
        for _ in range(6):
            member.step()
    assert len(member.got) == expected


def test_seeking_moves_the_group(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic()
    send(tubemq_peer.address, topic, 10)
    only = Partition(topic, 0, "1")
    group = fresh("seeks")
    with Consumer(f"tubemq://{tubemq_peer.address}/{topic}", group=group, **PATIENCE_MS) as consumer:
        _poll(consumer)
        consumer.seek(only, 28 * 7)
        found = read(consumer, 3)
        assert [record.value for record in found] == [b"7", b"8", b"9"]
        assert [record.offset for record in found] == [196, 224, 252]
        assert consumer.position(only) == 280
        consumer.seek_to_beginning()
        batch = _poll(consumer)
        assert batch[0].value == b"0"
        consumer.seek_to_end()
        assert consumer.position(only) == 280
        with pytest.raises(UsageError, match="not in the batch"):
            consumer.commit({only: 28})


def test_a_paused_partition_gives_nothing_until_it_is_resumed(
    tubemq_peer: tubemq.Cluster, filled: tuple[str, list[bytes]]
) -> None:
    topic, sent = filled

    class PausingTheFirst(RebalanceListener):
        def assigned(self, partitions: Collection[Partition]) -> None:
            consumer.pause([each for each in partitions if each.id == 0])

    found: list[Record] = []
    with Consumer(f"tubemq://{tubemq_peer.address}", group=fresh("pauses"), **PATIENCE_MS) as consumer:
        consumer.subscribe([topic], PausingTheFirst())
        while len(found) < 30:
            found += (batch := _poll(consumer))
            consumer.commit(batch)
        for _ in range(6):
            assert not consumer.poll(0.1)
        assert {record.partition for record in found} == {1}
        consumer.resume(consumer.paused())
        while len(found) < 60:
            found += (batch := _poll(consumer))
            consumer.commit(batch)
    assert sorted(record.value or b"" for record in found) == sorted(sent)


def test_filters_leave_out_the_rest(tubemq_peer: tubemq.Cluster, filled: tuple[str, list[bytes]]) -> None:
    topic, sent = filled
    blue = sent[0::3]
    with Member(tubemq_peer.address, fresh("blues"), [topic], filters=f"{topic}@blue", query_priority=303) as member:
        until([member], lambda: len(member.got) >= len(blue))
        for _ in range(8):
            member.step()
    assert member.got == once(blue)


def test_a_topic_that_is_not_there_is_an_error_that_says_so(tubemq_peer: tubemq.Cluster) -> None:
    options = {**PATIENCE_MS, "register_retries": 2}
    with (
        Consumer(f"tubemq://{tubemq_peer.address}/nowhere", group=fresh("gg"), **options) as consumer,
        pytest.raises(ServerError, match="TOPIC_NOT_DEPLOYED"),
    ):
        consumer.poll(10)


def _poll(consumer: Consumer) -> Messages:
    batch = consumer.poll(20)
    assert batch
    return batch
