"""A range's fetches: one ahead, because where it begins stands in the headers of the answer before it.

A fetch asks for about as many bytes as the rest of the range is estimated to have, so that a small range does not drag
megabytes behind it. Order, end and attempts are the range reader's (`penstock.seams.RangeSource`).

Without a fetch session: a range names its one partition in each request, which has another place each time, so there
is nothing that need not be said; and a broker keeps a thousand sessions, for two minutes after the last request, so
that ranges read by many short tasks would take those of consumers.
"""

from __future__ import annotations

from penstock.errors import OffsetOutOfRange, PenstockError
from penstock.model import LogRange, Node, Partition
from penstock.protocols.kafka.client.calls import Started
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.fetched import LEFT_OUT, KafkaFetched
from penstock.protocols.kafka.client.reading import KafkaReader, Read
from penstock.protocols.kafka.client.routing import note_error
from penstock.protocols.kafka.client.truncation import validate
from penstock.protocols.kafka.errors import OFFSET_OUT_OF_RANGE
from penstock.protocols.kafka.messages.fetch import FetchResponse
from penstock.seams.client import ReadFrom, ReadLimits

__all__ = ["DEFAULT_FETCH_BYTES", "KafkaRange"]

DEFAULT_FETCH_BYTES = 4 * 1024 * 1024
_LANE = "fetch"
_MAX_WAIT_MS = 500
_SLACK_S = 5.0
_LEAST_FETCH_BYTES = 64 * 1024
_FIRST_GUESS = 1_024.0
_MARGIN = 1.25


class KafkaRange:
    """``penstock.seams.RangeSource``."""

    depth = 1

    def __init__(self, cluster: Cluster, reader: KafkaReader, wanted: LogRange, *, fetch_bytes: int) -> None:
        self.channel = cluster.calls.channel
        self.limits = cluster.calls.options
        self.start = wanted.start
        self.end = wanted.end
        self.ahead = 0
        self._cluster = cluster
        self._reader = reader
        self._calls = cluster.calls
        self._partition = Partition(wanted.topic, wanted.partition)
        self._topic_id = wanted.topic_id
        self._fetch_bytes = fetch_bytes or DEFAULT_FETCH_BYTES
        self._bytes_an_offset = _FIRST_GUESS
        self._asked: tuple[Started, Read, ReadFrom, Node] | None = None

    async def ask(self, offset: int) -> None:
        """Send a fetch. Raises LogTruncated where what lies before ``offset`` is not what was read, TopicRecreated
        where the range is of another topic than the one that has its name now.
        """
        leader = await self._cluster.find_leader(self._partition, "reading a range failed")
        await self._cluster.refresh_recreated([(self._partition.topic, self._topic_id)])
        if (error := self._cluster.recreated(self._partition, offset, self._topic_id)) is not None:
            error.hint = "Plan the range anew: by the offsets that the new topic has"
            raise error
        self._topic_id = self._topic_id or self._cluster.topic_id(self._partition.topic)
        await self._check_past(leader, offset)
        node = self._reader.reads_at(self._partition) or leader
        rest = (self.end - offset) * self._bytes_an_offset * _MARGIN
        size = max(_LEAST_FETCH_BYTES, min(self._fetch_bytes, int(rest)))
        read = ReadFrom(self._partition, offset, size, self._topic_id)
        asking = self._reader.alone(node, [read], ReadLimits(_MAX_WAIT_MS, 1, size))
        held_s = _MAX_WAIT_MS / 1_000
        timeout_s = max(self._calls.options.request_timeout_s, held_s + _SLACK_S)
        started = await self._calls.start(
            node.endpoint, asking.request, lane=_LANE, timeout_s=timeout_s, held_s=held_s, at_most=asking.at_most
        )
        self._asked, self.ahead = (started, asking, read, node), 1

    async def take(self) -> KafkaFetched:
        """The answer to the one fetch that is on its way."""
        assert self._asked is not None
        started, asking, read, node = self._asked
        self._asked, self.ahead = None, 0
        answers = asking.answered(await started.answer(FetchResponse), node)
        # A throttling broker may answer with no partitions at all: nothing new, not an error.
        fetched = answers[0] if answers else KafkaFetched(read, LEFT_OUT, None, self._calls.options)
        if read.offset < (following := fetched.next_offset):
            self._bytes_an_offset = fetched.size / (following - read.offset)
        return fetched

    def note(self, error: PenstockError) -> None:
        """Some errors say that somebody else leads the partition now."""
        self._reader.distrust(self._partition)
        note_error(self._cluster, self._partition, error)

    def gone(self, text: str, offset: int) -> OffsetOutOfRange:
        """OFFSET_OUT_OF_RANGE, as a broker would say it."""
        return OffsetOutOfRange(
            text,
            code=OFFSET_OUT_OF_RANGE,
            name="OFFSET_OUT_OF_RANGE",
            topic=self._partition.topic,
            partition=self._partition.id,
            offset=offset,
            hint="The log was cut off after the range was planned, or the range was not planned by this log's offsets.",
        )

    def close(self) -> None:
        """Hang up on a fetch that is on its way."""
        if self._asked is not None:
            started, self._asked, self.ahead = self._asked[0], None, 0
            started.abandon()

    async def finish(self) -> None:
        """Nothing is asked for beyond the end, so nothing is left to wait for."""
        self.close()

    async def _check_past(self, node: Node, offset: int) -> None:
        parted = await validate(self._cluster, node, [ReadFrom(self._partition, offset, 0)], _LANE)
        if (error := parted.get(self._partition)) is not None:
            raise error
