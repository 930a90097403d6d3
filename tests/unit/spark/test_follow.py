"""A stream's decisions, run through the JSON that Spark would store between the calls."""

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.model import LogRange, Partition
from penstock.spark._follow import Follower
from penstock.spark._loss import DataLoss
from penstock.spark._offsets import BatchOffset
from penstock.spark._options import SourceOptions, parse_options
from penstock.spark._reading import plan
from penstock.spark._settings import Slots
from tests.unit.spark.listed_log import ListedLog

P0, P1, P2 = (Partition("t", number) for number in range(3))


def options(**given: str) -> SourceOptions:
    return parse_options({"path": "kafka://h:1/t", **given})


def stored(offset: BatchOffset) -> BatchOffset:
    """As it comes back from a checkpoint."""
    return BatchOffset.from_json(json.loads(json.dumps(offset.to_json())))


def following(follower: Follower, start: BatchOffset, limit: int | None = None) -> BatchOffset:
    batch = follower.next_batch(stored(start), limit)
    assert batch is not None
    return batch


def test_latest_is_the_default_and_stays_what_it_was() -> None:
    log = ListedLog({P0: (0, 5)})
    follower = Follower(options(), log)
    first = follower.initial()
    log.bounds[P0] = (0, 9)
    assert follower.initial() is first
    assert following(follower, first).ranges()[0].start == 5


def test_crash_in_the_first_batch_reads_the_batch_that_was_planned() -> None:
    log = ListedLog({P0: (0, 5)})
    before = Follower(options(), log)
    start = before.initial()
    log.bounds[P0] = (0, 9)
    planned = stored(following(before, start))
    log.bounds[P0] = (0, 20)
    after = Follower(options(), log)
    assert after.initial() != start  # what Spark would hand to partitions() as the batch's start
    assert planned.ranges() == [LogRange("t", 0, 5, 9)]


def test_idle_log_has_no_next_batch() -> None:
    follower = Follower(options(startingOffsets="earliest"), ListedLog({P0: (2, 2), P1: (0, 0)}))
    assert follower.next_batch(stored(follower.initial()), None) is None


def test_limit_is_shared_and_reached_exactly() -> None:
    follower = Follower(options(startingOffsets="earliest"), ListedLog({P0: (0, 900), P1: (0, 100), P2: (0, 1)}))
    batch = following(follower, follower.initial(), 100)
    assert sum(each.end - each.start for each in batch.ranges()) == 100
    assert [(each.partition, each.end) for each in batch.ranges()] == [(0, 88), (1, 11), (2, 1)]


def test_new_partition_is_read_from_its_start() -> None:
    log = ListedLog({P0: (0, 5)})
    follower = Follower(options(), log)
    start = follower.initial()
    log.bounds[P1] = (3, 8)
    batch = following(follower, start)
    assert (batch.start[P1], batch.end[P1]) == (3, 8)
    assert (batch.start[P0], batch.end[P0]) == (5, 5)


def test_available_now_ends_where_the_log_ended() -> None:
    log = ListedLog({P0: (0, 5)})
    follower = Follower(options(startingOffsets="earliest"), log)
    follower.freeze()
    start = follower.initial()
    log.bounds = {P0: (0, 50), P1: (0, 7)}
    batch = following(follower, start)
    assert batch.end == {P0: 5}
    assert follower.next_batch(stored(batch), None) is None


def test_restarted_available_now_run_accepts_a_checkpoint_with_more_than_it_froze() -> None:
    log = ListedLog({P0: (0, 5)})
    follower = Follower(options(startingOffsets="earliest"), log)
    follower.freeze()
    log.bounds[P0] = (0, 9)
    assert follower.next_batch(BatchOffset({P0: 0}, {P0: 8}), None) is None


def test_backlog_tells_how_far_behind_the_stream_will_be() -> None:
    follower = Follower(options(startingOffsets="earliest"), ListedLog({P0: (0, 100)}))
    batch = following(follower, follower.initial(), 30)
    assert follower.backlog == BatchOffset(batch.end, {P0: 100})


def test_aged_out_records_are_counted_in_the_error() -> None:
    log = ListedLog({P0: (0, 100)})
    follower = Follower(options(startingOffsets="earliest"), log)
    start = follower.initial()
    log.bounds[P0] = (40, 100)
    with pytest.raises(DataLoss, match="40 offsets were deleted") as caught:
        follower.next_batch(start, None)
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 0, 0)


@pytest.mark.parametrize(
    ("now", "begin"),
    [({P0: (40, 100)}, {P0: 40}), ({P0: (0, 5)}, {P0: 5}), ({P1: (0, 5)}, {P1: 0})],
    ids=["aged out", "truncated", "partition gone"],
)
def test_data_loss_is_survived_with_a_warning_when_allowed(
    now: dict[Partition, tuple[int, int]], begin: dict[Partition, int], caplog: pytest.LogCaptureFixture
) -> None:
    log = ListedLog({P0: (0, 10)})
    follower = Follower(options(startingOffsets="latest", failOnDataLoss="false"), log)
    start = follower.initial()
    log.bounds = now
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        batch = following(follower, start)
    assert batch.start == begin
    assert "t-0" in caplog.text
    assert follower.next_batch(stored(batch), None) is None


@pytest.mark.parametrize("now", [{P0: (40, 100)}, {P0: (0, 5)}, {P1: (0, 5)}])
def test_data_loss_is_an_error_by_default(now: dict[Partition, tuple[int, int]]) -> None:
    log = ListedLog({P0: (0, 10)})
    follower = Follower(options(startingOffsets="latest"), log)
    start = follower.initial()
    log.bounds = now
    with pytest.raises(DataLoss):
        follower.next_batch(start, None)


def test_group_is_committed_when_the_batch_comes_back_as_start() -> None:
    log = ListedLog({P0: (0, 5)})
    follower = Follower(options(startingOffsets="earliest", group="g", commitOffsets="true"), log)
    batch = following(follower, follower.initial())
    assert log.committed_calls == []  # nothing was completed yet
    assert follower.next_batch(stored(batch), None) is None
    assert log.committed_calls == [("g", {P0: 5})]


def test_the_same_offsets_are_committed_once() -> None:
    log = ListedLog({P0: (0, 5)})
    follower = Follower(options(startingOffsets="earliest", group="g", commitOffsets="true"), log)
    batch = following(follower, follower.initial())
    for _ in range(3):
        follower.next_batch(stored(batch), None)
        follower.commit(stored(batch))
    assert len(log.committed_calls) == 1


def test_restart_commits_what_the_last_run_completed() -> None:
    log = ListedLog({P0: (0, 5)})
    follower = Follower(options(startingOffsets="earliest", group="g", commitOffsets="true"), log)
    assert follower.next_batch(BatchOffset({P0: 0}, {P0: 5}), None) is None
    assert log.committed_calls == [("g", {P0: 5})]


def test_group_without_commit_offsets_is_left_alone() -> None:
    log = ListedLog({P0: (0, 5)})
    Follower(options(group="g"), log).next_batch(BatchOffset({P0: 0}, {P0: 5}), None)
    assert log.committed_calls == []


def test_failed_commit_is_told_and_made_up_for(caplog: pytest.LogCaptureFixture) -> None:
    log = ListedLog({P0: (0, 5)})
    follower = Follower(options(group="g", commitOffsets="true"), log)
    log.coordinator_is_away = True
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        follower.next_batch(BatchOffset({P0: 0}, {P0: 5}), None)
    assert follower.failed_commits == 1
    assert "group g" in caplog.text
    log.coordinator_is_away = False
    follower.next_batch(BatchOffset({P0: 0}, {P0: 5}), None)
    assert log.committed_calls == [("g", {P0: 5})]


GROWTH = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 50), st.integers(1, 30), st.booleans()), min_size=1, max_size=25
)


@given(GROWTH)
def test_every_offset_is_in_exactly_one_batch_across_growth_limits_and_restarts(
    steps: list[tuple[int, int, int, bool]],
) -> None:
    log = ListedLog({P0: (0, 0)})
    follower = Follower(options(startingOffsets="earliest"), log)
    done = stored(follower.initial())
    read: dict[Partition, list[int]] = {}
    for number, grown, limit, restart in steps:
        partition = Partition("t", number)
        log.bounds[partition] = (0, log.bounds.get(partition, (0, 0))[1] + grown)
        if restart:
            follower = Follower(options(startingOffsets="earliest"), log)
        batch = follower.next_batch(done, limit)
        assert batch is not None
        done = stored(batch)
        for each in done.ranges():
            read.setdefault(Partition(each.topic, each.partition), []).extend(range(each.start, each.end))
    while (batch := follower.next_batch(done, 1000)) is not None:
        done = stored(batch)
        for each in done.ranges():
            read.setdefault(Partition(each.topic, each.partition), []).extend(range(each.start, each.end))
    assert read == {partition: list(range(end)) for partition, (_, end) in log.bounds.items() if end}


@pytest.mark.parametrize(
    ("given", "told"),
    [({"path": "kafka://h:1/t,u"}, "topic u does not exist"), ({"assign": '{"t":[0,7]}'}, "partition t-7 does not")],
)
def test_what_does_not_exist_is_told_at_the_start(given: dict[str, str], told: str) -> None:
    follower = Follower(parse_options({"path": "kafka://h:1", **given}), ListedLog({P0: (0, 5)}))
    with pytest.raises(UsageError, match=told):
        follower.initial()


def test_topic_made_anew_is_a_loss_even_if_it_has_grown_past_the_old_one() -> None:
    log = ListedLog({P0: (0, 10)})
    log.topic_ids = {"t": "a1"}
    follower = Follower(options(startingOffsets="earliest"), log)
    done = stored(following(follower, follower.initial()))
    assert done.ids == {"t": "a1"}
    log.topic_ids, log.bounds = {"t": "b2"}, {P0: (0, 50)}
    with pytest.raises(DataLoss, match="the topic was deleted and recreated"):
        follower.next_batch(done)
    with pytest.raises(DataLoss, match="the topic was deleted and recreated"):
        Follower(options(), log).planned(done)


def test_topic_made_anew_is_read_from_its_start_if_that_is_allowed() -> None:
    log = ListedLog({P0: (0, 10)})
    log.topic_ids = {"t": "a1"}
    follower = Follower(options(startingOffsets="earliest", failOnDataLoss="warn"), log)
    done = stored(following(follower, follower.initial()))
    log.topic_ids, log.bounds = {"t": "b2"}, {P0: (0, 50)}
    again = Follower(options(failOnDataLoss="warn"), log)
    assert again.planned(done).ranges() == []
    batch = following(again, done)
    assert batch == BatchOffset({P0: 0}, {P0: 50}, {"t": "b2"})
    assert again.next_batch(stored(batch)) is None


def test_tasks_of_a_batch_know_which_topic_it_was_planned_for() -> None:
    log = ListedLog({P0: (0, 10)})
    old = "00112233445566778899aabbccddeeff"
    log.topic_ids = {"t": old}
    follower = Follower(options(startingOffsets="earliest"), log)
    batch = stored(following(follower, follower.initial()))
    (task,) = plan(batch.ranges(), slots=Slots(1, apart=False))
    assert task == (LogRange("t", 0, 0, 10, topic_id=bytes.fromhex(old)),)
    assert BatchOffset({P0: 0}, {P0: 4}).ranges() == [LogRange("t", 0, 0, 4)]  # an older checkpoint
    assert BatchOffset({P0: 0}, {P0: 4}, {"t": "no id"}).ranges() == [LogRange("t", 0, 0, 4)]


def test_loss_of_a_topic_tells_both_ids(caplog: pytest.LogCaptureFixture) -> None:
    log = ListedLog({P0: (0, 10)})
    log.topic_ids = {"t": "00" * 16}
    follower = Follower(options(startingOffsets="earliest", failOnDataLoss="warn"), log)
    done = stored(following(follower, follower.initial()))
    log.topic_ids = {"t": "ff" * 16}
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        following(follower, done)
    assert "(id _____________________w, before AAAAAAAAAAAAAAAAAAAAAA); it is read from its beginning" in caplog.text


def test_log_that_was_cut_off_and_grew_past_its_old_end_is_a_loss() -> None:
    log = ListedLog({P0: (0, 600)})
    log.leader_epochs = {P0: 3}
    follower = Follower(options(startingOffsets="earliest"), log)
    done = stored(following(follower, follower.initial()))
    assert done.epochs == {P0: 3}
    log.leader_epochs, log.cut_at, log.bounds = {P0: 4}, {P0: 100}, {P0: (0, 900)}
    for each in (follower, Follower(options(), log)):
        with pytest.raises(DataLoss, match="the log was cut off at 100"):
            each.next_batch(done)
    assert log.asked_for_truncation[-1] == {P0: (600, 3)}


def test_what_took_the_place_of_lost_records_is_read_if_that_is_allowed(caplog: pytest.LogCaptureFixture) -> None:
    log = ListedLog({P0: (0, 600)})
    log.leader_epochs = {P0: 3}
    follower = Follower(options(startingOffsets="earliest", failOnDataLoss="warn"), log)
    done = stored(following(follower, follower.initial()))
    log.leader_epochs, log.cut_at, log.bounds = {P0: 4}, {P0: 100}, {P0: (0, 900)}
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        batch = stored(following(follower, done))
    assert (batch.start, batch.end, batch.epochs) == ({P0: 100}, {P0: 900}, {P0: 4})
    assert "cut off at 100" in caplog.text
    assert follower.losses.offsets == 500
    assert follower.next_batch(batch) is None


def test_leader_of_the_last_batch_is_not_asked_for_its_past() -> None:
    log = ListedLog({P0: (0, 10), P1: (0, 10)})
    log.leader_epochs = {P0: 3, P1: 7}
    follower = Follower(options(startingOffsets="earliest"), log)
    done = stored(following(follower, follower.initial()))
    log.leader_epochs, log.bounds = {P0: 3, P1: 8}, {P0: (0, 20), P1: (0, 20)}
    following(follower, done)
    assert log.asked_for_truncation[-1] == {P1: (10, 7)}


def test_checkpoint_without_ids_goes_on() -> None:
    log = ListedLog({P0: (0, 10)})
    log.topic_ids = {"t": "a1"}
    follower = Follower(options(), log)
    assert following(follower, BatchOffset({P0: 0}, {P0: 4})) == BatchOffset({P0: 4}, {P0: 10}, {"t": "a1"})


def test_batch_of_this_run_is_planned_without_asking_again() -> None:
    log = ListedLog({P0: (0, 10)})
    follower = Follower(options(startingOffsets="earliest"), log)
    batch = following(follower, follower.initial())
    log.bounds = {}
    assert follower.planned(stored(batch)) == batch
    assert follower.leaders == {P0: "1"}
