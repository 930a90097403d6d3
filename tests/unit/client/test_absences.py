"""What a consumer reads and the servers do not have now: a server that went comes back, a wrong number never does."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest

from penstock.client.consumer.subscription import MissingPartitionWarnings
from penstock.config.client import ClientLog
from penstock.model import Partition, PartitionInfo, TopicInfo
from tests.unit.client.virtual_time import passing, run


@dataclass
class Known:
    """As much of `Topics` as is looked at."""

    partitions: list[Partition]
    wanted: frozenset[str] = field(default_factory=lambda: frozenset({"t"}))

    @property
    def known(self) -> dict[str, TopicInfo]:
        return {"t": TopicInfo("t", tuple(PartitionInfo(each, None) for each in self.partitions))}

    def refresh(self) -> None: ...


async def complaints(assigned: list[Partition], there: list[Partition]) -> list[BaseException]:
    found: list[BaseException] = []
    absences = MissingPartitionWarnings(ClientLog("penstock.consumer"), found.append)
    known = Known(there)
    for _ in range(4):
        absences.renewed(known, assigned)  # type: ignore[arg-type]
        await passing(1.0)
    return found


def test_queues_of_a_server_that_went_are_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    there = [Partition("t", 0, "b"), Partition("t", 1, "b")]
    with caplog.at_level(logging.WARNING):
        assert run(complaints([Partition("t", 0, "a"), *there], there)) == []
    assert [record.message for record in caplog.records if "a has gone" in record.message]


@pytest.mark.parametrize("wrong", [Partition("t", 7, "b"), Partition("t", 7)], ids=str)
def test_a_number_that_nobody_has_is_an_error(wrong: Partition) -> None:
    there = [Partition("t", 0, wrong.node)]
    (error, *_) = run(complaints([wrong], there))
    assert "there is no partition 7" in str(error)
