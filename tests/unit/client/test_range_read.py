"""The range reader over a source that does as it is told: what is asked for when, and what becomes of odd answers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pytest

from penstock.client.ranges.range_reader import RangeRead
from penstock.errors import ConnectionLost, CorruptBatch, OffsetOutOfRange, PenstockError, UsageError
from penstock.interfaces import LogClient
from penstock.model import LogRange, Partition
from penstock.records import Messages
from tests.conformance.fake_log import FakeLimits

HERE = Partition("t", 0)


@dataclass
class Answer:
    """``[offset, next_offset)``, of which ``whole`` offsets can be decoded (None: all)."""

    source: Source
    offset: int
    next_offset: int
    size: int = 100
    whole: int | None = None
    first: int | None = None
    damaged: PenstockError | None = None
    partition: Partition = HERE
    high_watermark: int = 7
    log_start_offset: int = 0
    error: PenstockError | None = None

    def decode(self, *, stop: int | None = None, columns: Sequence[str] | None = None) -> tuple[Messages, int]:
        assert stop is not None
        self.source.seen.append(f"decode {self.offset}")
        if self.damaged is not None:
            raise self.damaged
        following = self.next_offset if self.whole is None else self.offset + self.whole
        first = self.offset if self.first is None else self.first
        following = max(min(following, stop), self.offset) if first < stop else self.offset
        offsets = range(first, following)
        return Messages.of(HERE, pa.record_batch({"offset": pa.array(offsets, pa.int64())}), following), following


class Source:
    """A RangeSource, and the channel and the client around it."""

    limits = FakeLimits(api_timeout_ms=1_000, short_log_patience_ms=500)

    def __init__(self, *answers: Callable[[Source], Answer] | PenstockError, depth: int = 1) -> None:
        self.answers = deque(answers)
        self.depth, self.ahead = depth, 0
        self.seen: list[str] = []
        self.start = self.end = 0
        self.now = 0.0
        self.channel = cast(Any, self)

    def moved(self, partition: Partition) -> bool:
        return False

    def ranges(self, wanted: LogRange, *, fetch_bytes: int = 0) -> Source:
        self.start, self.end = wanted.start, wanted.end
        return self

    def monotonic(self) -> float:
        return self.now

    def random(self) -> float:
        return 0.5

    async def sleep(self, seconds: float) -> None:
        self.seen.append("sleep")
        self.now += seconds

    async def ask(self, offset: int) -> None:
        self.seen.append(f"ask {offset}")
        self.ahead += 1

    async def take(self) -> Answer:
        self.ahead -= 1
        made = self.answers.popleft()
        if isinstance(made, PenstockError):
            raise made
        self.seen.append("take")
        return made(self)

    def note(self, error: PenstockError) -> None:
        self.seen.append("note")

    def gone(self, text: str, offset: int) -> OffsetOutOfRange:
        return OffsetOutOfRange(text, code=1, name="GONE", offset=offset)

    def close(self) -> None:
        self.seen.append("close")
        self.ahead = 0

    async def finish(self) -> None:
        self.seen.append("finish")


def answer(offset: int, next_offset: int, **rest: Any) -> Callable[[Source], Answer]:
    return lambda source: Answer(source, offset, next_offset, **rest)


def read_of(source: Source, end: int) -> RangeRead:
    return RangeRead(cast(LogClient, source), LogRange.of(HERE, 0, end))


def read_all(source: Source, end: int) -> list[int]:
    async def work() -> list[int]:
        read, found = read_of(source, end), list[int]()
        while (messages := await read.next()) is not None:
            assert messages
            found += messages.offset.to_pylist()
        return found

    return asyncio.run(work())


def test_the_next_request_goes_out_before_the_last_answer_is_decoded_and_none_beyond_the_end() -> None:
    source = Source(answer(0, 4), answer(4, 9))
    assert read_all(source, 6) == list(range(6))
    assert source.seen == ["ask 0", "take", "ask 4", "decode 0", "take", "decode 4", "finish"]


def test_as_many_requests_are_on_their_way_as_the_source_wants() -> None:
    source = Source(answer(0, 2), answer(2, 4), answer(4, 6), depth=3)
    assert read_all(source, 6) == list(range(6))
    assert source.seen[:5] == ["ask 0", "ask 0", "ask 0", "take", "decode 0"]


def test_what_was_good_comes_before_the_damage_and_what_was_ahead_is_given_up() -> None:
    source = Source(answer(0, 4, whole=2), answer(2, 4))
    assert read_all(source, 4) == [0, 1, 2, 3]
    assert source.seen == ["ask 0", "take", "decode 0", "close", "ask 2", "take", "decode 2", "finish"]


def test_damage_gives_up_what_was_ahead_and_is_read_again_from_where_it_is() -> None:
    damaged = CorruptBatch("damaged", offset=0)
    source = Source(answer(0, 4, damaged=damaged), answer(0, 4))

    async def work() -> Messages | None:
        read = read_of(source, 8)
        with pytest.raises(CorruptBatch):
            await read.next()
        return await read.next()

    messages = asyncio.run(work())
    assert messages is not None
    assert messages.offset.to_pylist() == [0, 1, 2, 3]
    assert source.seen == ["ask 0", "take", "ask 4", "decode 0", "close", "ask 0", "take", "ask 4", "decode 0"]


def test_a_range_whose_rest_was_compacted_away_is_done() -> None:
    assert read_all(Source(answer(0, 9, first=8)), 6) == []


def test_bytes_without_one_whole_batch_are_damage() -> None:
    with pytest.raises(CorruptBatch, match="100 bytes without one whole batch"):
        read_all(Source(answer(0, 0)), 6)


def test_an_attempt_that_failed_is_made_again_from_where_the_range_stands() -> None:
    source = Source(answer(0, 2), ConnectionLost("gone"), answer(2, 4))
    assert read_all(source, 4) == [0, 1, 2, 3]
    assert source.seen[3:] == ["decode 0", "note", "close", "sleep", "ask 2", "take", "decode 2", "finish"]


def test_a_log_that_is_too_short_is_waited_for_a_little() -> None:
    nothing = [answer(2, 2, size=0)] * 20
    source = Source(answer(0, 2), nothing[0], answer(2, 4))
    assert read_all(source, 4) == [0, 1, 2, 3]
    source = Source(answer(0, 2), *nothing)
    with pytest.raises(OffsetOutOfRange, match="the log ends at 7, before the end of the range, 4") as raised:
        read_all(source, 4)
    assert raised.value.offset == 2
    assert 0.2 < source.now < 0.5


def test_nobody_is_asked_for_a_range_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="from 0 to -1"):
        read_of(Source(), -1)
