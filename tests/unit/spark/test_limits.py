"""How much a stream takes at once: by offsets, bytes, time, and not before there is enough; and where it ends."""

import logging
from dataclasses import replace

import pytest

from penstock.errors import ConfigError
from penstock.model import Partition
from penstock.spark._follow import FIRST, Behind, Follower
from penstock.spark._loss import DataLoss
from penstock.spark._offsets import BatchOffset
from penstock.spark._options import SourceOptions, Subscription, parse_options
from tests.unit.spark.listed_log import ListedLog

P0, P1, P2 = (Partition("t", number) for number in range(3))


def options(**given: str) -> SourceOptions:
    return parse_options({"path": "kafka://h:1/t", "startingOffsets": "earliest", **given})


def sizes(follower: Follower, most: int = 50) -> list[int]:
    """Offsets of each batch until there is none."""
    done, found = follower.initial(), []
    while len(found) < most and (batch := follower.next_batch(done)) is not None:
        found.append(sum(batch.end[p] - batch.start[p] for p in batch.end))
        done = batch
    return found


def test_batches_of_so_many_bytes() -> None:
    log = ListedLog({P0: (0, 1_000), P1: (0, 500)}, weight=100)
    assert sizes(Follower(options(maxBytesPerTrigger="60000"), log)) == [600, 600, 300]


def test_only_few_partitions_are_looked_at_for_their_bytes() -> None:
    log = ListedLog({Partition("t", number): (0, 100 + number) for number in range(100)})
    follower = Follower(options(maxBytesPerTrigger="1m"), log)
    follower.next_batch(follower.initial())
    assert [len(each) for each in log.peeks] == [16]
    follower.next_batch(follower.initial())
    assert not log.peeks[0].keys() & log.peeks[1].keys()  # others, until all are known


def test_the_smallest_limit_counts() -> None:
    log = ListedLog({P0: (0, 1_000)}, weight=100)
    assert sizes(Follower(options(maxBytesPerTrigger="60000", maxOffsetsPerTrigger="400"), log)) == [400, 400, 200]


def test_spark_may_want_everything_at_once() -> None:
    log = ListedLog({P0: (0, 1_000)})
    follower = Follower(options(maxOffsetsPerTrigger="1", maxBytesPerTrigger="1", minOffsetsPerTrigger="1"), log)
    batch = follower.next_batch(follower.initial(), everything=True)
    assert batch is not None
    assert batch.end == {P0: 1_000}


def test_few_offsets_are_waited_with_until_the_delay_is_over() -> None:
    log = ListedLog({P0: (0, 5)})
    follower = Follower(options(minOffsetsPerTrigger="10", maxTriggerDelay="60s"), log)
    first = follower.next_batch(follower.initial())
    assert first is not None  # the first trigger never waits, as in Spark
    log.bounds[P0] = (0, 9)
    log.clock_ms = 59_000
    assert follower.next_batch(first) is None
    log.clock_ms = 60_000
    second = follower.next_batch(first)
    assert second is not None
    assert second.end == {P0: 9}
    log.bounds[P0] = (0, 19)
    assert follower.next_batch(second) is not None


def test_available_now_waits_for_nothing() -> None:
    log = ListedLog({P0: (0, 5)})
    follower = Follower(options(minOffsetsPerTrigger="10", maxOffsetsPerTrigger="100"), log)
    first = follower.next_batch(follower.initial())
    assert first is not None
    log.bounds[P0] = (0, 9)
    follower.freeze()
    assert sizes(follower) == [9]


def test_batches_adapt_to_how_long_they_take() -> None:
    log = ListedLog({P0: (0, 10**9)})
    follower = Follower(options(targetBatchDuration="10s"), log)
    done, found = follower.initial(), []
    for _ in range(8):
        batch = follower.next_batch(done)
        assert batch is not None
        follower.planned(batch)
        found.append(batch.end[P0] - batch.start[P0])
        log.clock_ms += 100 + found[-1] // 200  # 200,000 rows a second
        done = batch
    assert found[0] == FIRST
    assert 1_800_000 < found[-1] < 2_200_000


@pytest.mark.parametrize(
    ("given", "ends"),
    [
        ({"endingOffsets": "latest"}, {P0: 10, P1: 10}),
        ({"endingOffsets": '{"t":{"0":4,"1":-1}}'}, {P0: 4, P1: 10}),
        ({"endingTimestamp": "7000"}, {P0: 7, P1: 7}),
        ({"endingTimestamp": "-3s"}, {P0: 7, P1: 7}),
        ({"endingOffsetsByTimestamp": '{"t":{"0":2000,"1":"now"}}'}, {P0: 2, P1: 10}),
    ],
)
def test_bounded_stream_ends(given: dict[str, str], ends: dict[Partition, int]) -> None:
    log = ListedLog({P0: (0, 10), P1: (0, 10)})
    log.clock_ms = 10_000
    follower = Follower(options(**given, maxOffsetsPerTrigger="6"), log)
    batch = follower.next_batch(follower.initial())
    assert batch is not None
    while (following := follower.next_batch(batch)) is not None:
        batch = following
    if given.get("endingOffsets") == "latest":
        log.bounds = {P0: (0, 20), P1: (0, 20)}
        assert follower.next_batch(batch) is None
    assert batch.end == ends


def test_stream_goes_on_until_a_record_of_the_ending_time_is_there() -> None:
    log = ListedLog({P0: (0, 10)})
    follower = Follower(options(endingTimestamp="15000"), log)
    batch = follower.next_batch(follower.initial())
    assert batch is not None
    assert batch.end == {P0: 10}
    log.bounds[P0], log.bounds[P1] = (0, 30), (12, 18)
    batch = follower.next_batch(batch)
    assert batch is not None
    assert batch.end == {P0: 15, P1: 15}
    assert follower.next_batch(batch) is None


def test_partition_that_an_ending_does_not_name_is_not_read() -> None:
    log = ListedLog({P0: (0, 10)})
    follower = Follower(options(endingOffsets='{"t":{"0":5}}'), log)
    start = follower.initial()
    log.bounds[P1] = (0, 3)
    batch = follower.next_batch(start)
    assert batch is not None
    assert [(each.partition, each.end) for each in batch.ranges()] == [(0, 5)]


def test_ending_must_name_what_a_new_query_reads() -> None:
    follower = Follower(options(endingOffsets='{"t":{"7":5}}'), ListedLog({P0: (0, 10)}))
    with pytest.raises(ConfigError, match="endingOffsets has nothing for t-0"):
        follower.initial()


@pytest.mark.parametrize("hidden", [{}, {P0: (0, 3)}], ids=["not there", "too short"])
def test_log_that_knows_less_for_a_moment_is_asked_again(hidden: dict[Partition, tuple[int, int]]) -> None:
    log = ListedLog({P0: (0, 10)})
    follower = Follower(options(), log)
    log.hidden = [hidden, hidden]
    batch = follower.next_batch(BatchOffset({P0: 0}, {P0: 8}))
    assert batch is not None
    assert batch.end == {P0: 10}
    assert log.pauses == [0.01, 0.02]


def test_loss_is_said_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    log = ListedLog({P0: (40, 100)})
    follower = Follower(options(failOnDataLoss="warn", minOffsetsPerTrigger="1000"), log)
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        for _ in range(3):
            follower.next_batch(BatchOffset({P0: 0}, {P0: 10}))
    assert caplog.text.count("30 offsets were deleted; the log starts at 40") == 1
    assert follower.losses.offsets == 30


def test_partition_that_vanished_says_what_was_known_of_it() -> None:
    log = ListedLog({P0: (0, 10), P1: (0, 10)})
    follower = Follower(options(maxOffsetsPerTrigger="6", **{"fetchOffset.numRetries": "0"}), log)
    batch = follower.next_batch(follower.initial())
    assert batch is not None
    del log.bounds[P1]
    with pytest.raises(DataLoss, match="the partition is gone, with 7 unread offsets"):
        follower.next_batch(batch)


def test_partition_that_the_subscription_left_out_is_not_called_gone() -> None:
    log = ListedLog({P0: (0, 10), P1: (0, 10)})
    quick = {"maxOffsetsPerTrigger": "6", "fetchOffset.numRetries": "0"}
    batch = Follower(options(**quick), log).next_batch(Follower(options(**quick), log).initial())
    assert batch is not None
    del log.bounds[P1]
    elsewhere = replace(options(**quick), subscription=Subscription(assigned=frozenset({P0})))
    with pytest.raises(DataLoss, match="unread records are left behind: the subscription no longer names it"):
        Follower(elsewhere, log).next_batch(batch)


def test_age_of_the_oldest_unread_record_is_looked_up_once_a_second() -> None:
    log = ListedLog({P0: (0, 100), P1: (0, 1)})
    log.clock_ms = 100_000
    follower = Follower(options(maxOffsetsPerTrigger="10"), log)
    behind = Behind(follower, log)
    assert behind.report() is None
    done = follower.initial()
    seen = []
    for _ in range(4):
        batch = follower.next_batch(done)
        assert batch is not None
        told = behind.report()
        assert told is not None
        seen.append(told["behind"]["seconds"]["t"])  # type: ignore[index, call-overload]
        done = batch
        log.clock_ms += 400
    assert len(log.peeks) == 2
    assert [each["1"] for each in seen] == [0, 0, 0, 0]
    # Between looks the age is that of an older record: never too little.
    assert [each["0"] for each in seen] == [91.0, 91.4, 91.8, 62.2]
