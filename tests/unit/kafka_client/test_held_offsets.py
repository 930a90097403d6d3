"""Offsets that an open transaction holds are waited for, and not in silence."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.client.coordinator import HeldOffsets
from penstock.protocols.kafka.wire.offsets import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupTopic,
    OffsetFetchResponseGroupTopicPartition,
)
from tests.unit.client.virtual_time import run
from tests.unit.kafka_client.scripted import stage
from tests.unit.kafka_client.scripted_coordinator import EVENTS, Coordinator

LINE = "a transaction that was left open has held the offsets of group group in events-1, events-2"


def test_a_line_after_some_seconds_then_seldom_and_one_when_they_are_free(caplog: pytest.LogCaptureFixture) -> None:
    held = HeldOffsets("me", "group")
    for now in range(100):
        held.reported(EVENTS[1:], float(now))
    assert len(caplog.messages) == 4
    assert caplog.messages[0].startswith(f"[client me, group group] {LINE} for 5 s")
    assert [each.partition(" for ")[2].partition(",")[0] for each in caplog.messages] == ["5 s", "35 s", "65 s", "95 s"]
    assert all("transaction_timeout_ms" in each and "transactional id" in each for each in caplog.messages)
    held.reported((), 100.0)
    assert "reported again after 100 s" in caplog.messages[-1]
    held.reported((), 101.0)
    assert len(caplog.messages) == 5


def test_what_lasts_a_moment_or_was_asked_for_long_ago_is_no_line(caplog: pytest.LogCaptureFixture) -> None:
    held = HeldOffsets("me", "group")
    held.reported(EVENTS, 0.0)
    held.reported((), 4.0)
    held.reported(EVENTS, 5.0)
    held.reported(EVENTS, 100.0)  # nobody has asked meanwhile
    assert caplog.messages == []


def test_a_look_up_tells_which_partitions_it_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    asked = [0]

    def answer(request: Any, version: int) -> object:
        asked[0] += 1
        codes = {partition.id: 88 if partition.id and asked[0] < 20 else 0 for partition in EVENTS}
        told = [
            OffsetFetchResponseGroupTopicPartition(partition_index=number, committed_offset=7, error_code=code)
            for number, code in codes.items()
        ]
        topic = OffsetFetchResponseGroupTopic(name="events", partitions=told)
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="group", topics=[topic])])

    async def main() -> None:
        async with stage(KafkaOptions()) as it:
            Coordinator(it)
            it.broker.answers["OffsetFetch"] = answer
            found = await it.client.committed("group", EVENTS)
            assert {partition: each.offset for partition, each in found.items()} == dict.fromkeys(EVENTS, 7)

    run(main())
    assert caplog.record_tuples[0][:2] == ("penstock.consumer", logging.WARNING)
    assert LINE in caplog.messages[0]
    assert len(caplog.messages) == 2
    assert "reported again" in caplog.messages[1]
