"""Why a poll came back with nothing: that a log is read to its end is said once the log itself has said so."""

from __future__ import annotations

import pytest

from penstock import EmptyReason, PartitionStatus, ReadState
from penstock.client import AsyncConsumer
from penstock.client.status import empty_reason
from penstock.errors import ConnectionLost
from penstock.model import Partition
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import passing, run

AT_END = (ReadState.READING, 5, 5, False)
DRAINED = (ReadState.READING, 3, 5, True)
ASKED = (ReadState.READING, 3, 5, False)
UNKNOWN = (ReadState.READING, 0, None, False)
HERE = (ReadState.BUFFERED, 5, 5, False)
AWAY = (ReadState.WAITING, 5, 5, False)
BEGINS = (ReadState.STARTING, None, None, False)
OUT = (ReadState.IN_USE, 3, 5, False)
HELD = (ReadState.PAUSED, 3, 5, False)


@pytest.mark.parametrize(
    ("standing", "reason"),
    [
        ([], EmptyReason.NONE_ASSIGNED),
        ([HELD, HELD], EmptyReason.ALL_PAUSED),
        ([OUT, HELD], EmptyReason.ALL_IN_USE),
        ([AWAY, OUT, BEGINS], EmptyReason.ALL_WAITING),
        ([AT_END, DRAINED, OUT, HELD], EmptyReason.NOTHING_NEW),
        ([AT_END, ASKED], EmptyReason.NOT_YET),
        ([AT_END, UNKNOWN], EmptyReason.NOT_YET),
        ([AT_END, AWAY], EmptyReason.NOT_YET),
        ([AT_END, BEGINS], EmptyReason.NOT_YET),
        ([AT_END, HERE], EmptyReason.NOT_YET),
    ],
)
def test_the_reason_follows_from_where_partitions_stand(
    standing: list[tuple[ReadState, int | None, int | None, bool]], reason: EmptyReason
) -> None:
    assert empty_reason([PartitionStatus(Partition("t", n), *each) for n, each in enumerate(standing)]) is reason


@pytest.mark.parametrize("lost", [0, 1, 4])
def test_who_polls_until_there_is_nothing_new_has_read_everything(log: FakeLog, lost: int) -> None:
    log.create("t", 2)
    for partition in range(2):
        log.write("t", [b"%d" % number for number in range(50)], partition)
    log.faults["read"].extend([ConnectionLost("gone")] * lost)
    log.delays_s.extend([0.3] * 20)

    async def main() -> None:
        found = 0
        async with AsyncConsumer("fake://h:1/t") as consumer:
            while consumer.empty_reason() is not EmptyReason.NOTHING_NEW:
                found += len(await consumer.poll(0.01))
                await passing(0.05)
        assert found == 100

    run(main())
