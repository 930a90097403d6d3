"""Reading from brokers.

`KafkaReader` sends one long poll to one node at a time, in a fetch session. `RepeatedFetch` repeats it with few
changes, and `KafkaLentRead` does so in the caller's thread. `KafkaRange` reads a range of one partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from penstock.concurrency.locks import TryLock
from penstock.errors import OffsetOutOfRange, PenstockError
from penstock.interfaces.channel import LentConnection, PromptLink
from penstock.interfaces.client import FetchHeard, ReadFrom, ReadLimits
from penstock.interfaces.framing import Frame
from penstock.model import Endpoint, LogRange, Node, Partition
from penstock.protocols.kafka.client.cluster import UNKNOWN, Cluster, LeaderEpochs, note_error
from penstock.protocols.kafka.client.connection import ByVersion, KafkaOptions, Started, Versions
from penstock.protocols.kafka.client.fetch import (
    LEFT_OUT,
    WHAT,
    Asked,
    FetchForm,
    FetchPosition,
    FetchSession,
    KafkaFetched,
    Key,
    ReadReplicas,
    alone,
    is_new,
    leads,
    validate,
)
from penstock.protocols.kafka.errors import NONE, OFFSET_OUT_OF_RANGE, error_for
from penstock.protocols.kafka.wire.fetch import FIRST_PLAIN, FetchRequest, FetchResponse, Plain, RequestForm, read_plain

__all__ = ["DEFAULT_FETCH_BYTES", "KafkaLentRead", "KafkaRange", "KafkaReader", "Read", "RepeatedFetch"]


# A repeated fetch: the last request of a node's session, for as long as hardly anything changes.
#
# The next request differs from the last one only in its numbers and in the positions that have moved, and most
# responses are plain (`wire.fetch`). A waiting consumer repeats its request many times, so partitions without a change
# must cost nothing. Two things are checked: whether another leader wrote the record before a new position
# (`fetch.truncated`), and whether the cluster's metadata has changed (`Cluster.changes`).
class _Still:
    """One partition: its key in requests, its position, and the leader epochs seen in its log."""

    __slots__ = ("key", "lineage", "place", "read")

    def __init__(self, key: Key, read: ReadFrom, place: FetchPosition, lineage: LeaderEpochs) -> None:
        self.key = key
        self.read = read
        self.place = place
        self.lineage = lineage


class RepeatedFetch:
    """A node's session on one connection. ``changes``: `Cluster.changes` when the first request was built."""

    __slots__ = (
        "_by_key", "_by_partition", "_options", "asked", "changes", "held_s", "limits", "link", "requests",
        "session", "timeout_s",
    )  # fmt: skip

    def __init__(
        self,
        cluster: Cluster,
        link: PromptLink[Versions],
        session: FetchSession,
        reads: Mapping[Key, tuple[ReadFrom, FetchPosition]],
        limits: ReadLimits,
        requests: RequestForm,
        changes: int,
        timeout_s: float,
    ) -> None:
        self._options = cluster.calls.options
        self.session = session
        self._by_key = {
            key: _Still(key, read, place, cluster.lineage(read.partition)) for key, (read, place) in reads.items()
        }
        self._by_partition = {each.read.partition: each for each in self._by_key.values()}
        self.link = link
        self.limits = limits
        self.held_s = limits.max_wait_ms / 1_000
        self.timeout_s = timeout_s
        self.requests = requests
        self.changes = changes
        self.asked: Asked | None = None
        """The request in flight."""

    @property
    def keys(self) -> Sequence[Key]:
        """The partitions' keys in requests of this version."""
        return tuple(self._by_key)

    @property
    def reads(self) -> Sequence[ReadFrom]:
        """All partitions with their present positions."""
        return tuple(each.read for each in self._by_key.values())

    def ask(self, moved: Sequence[ReadFrom]) -> Asked | None:
        """The next request; None if a full request is needed."""
        named: dict[Key, FetchPosition] = {}
        for read in moved:
            each = self._by_partition.get(read.partition)
            if each is None:
                return None
            epoch = each.lineage.epoch_before(read.offset)
            result = each.place.leader_epoch
            if epoch not in (UNKNOWN, result):
                return None  # the leader may have to be asked first whether its log was truncated
            each.read = read
            each.place = named[each.key] = FetchPosition(read.offset, result, epoch, read.max_bytes)
        asked = self.asked = self.session.ask_again(named)
        return asked

    def answered(self, plain: Plain) -> list[KafkaFetched]:
        """Process a plain response; returns its partitions."""
        asked, self.asked = self.asked, None
        assert asked is not None
        session_id, parts = plain
        self.session.answered(asked, NONE, session_id, parts)
        found: list[KafkaFetched] = []
        for key, part in parts.items():
            each = self._by_key.get(key)
            if each is not None:
                fetched = KafkaFetched(each.read, part, None, self._options)
                for stretch in fetched.stretches:
                    if stretch.epoch >= 0:
                        each.lineage.saw(stretch)
                found.append(fetched)
        return found


# A repeated fetch in the thread that waits for its records. It processes plain answers as the reader does on the event
# loop, and hands back all other responses unread.
class KafkaLentRead:
    """``penstock.interfaces.client.LentRead``."""

    __slots__ = ("_cluster", "_lent", "_replicas", "_still", "fileno", "forget")

    def __init__(self, still: RepeatedFetch, lent: LentConnection, cluster: Cluster, replicas: ReadReplicas) -> None:
        self._still = still
        self._lent = lent
        self._cluster = cluster
        self._replicas = replicas
        self.fileno = lent.fileno
        self.forget = lent.forget

    @property
    def over(self) -> bool:
        """See `LentRead`."""
        return self._lent.over

    def receive(self) -> Sequence[KafkaFetched] | None:
        """See `LentRead`."""
        frame = self._lent.receive()
        if frame is None:
            return None
        still = self._still
        plain = read_plain(frame.body, still.requests.version)
        if plain is None or still.asked is None:
            self._lent.give_back(frame)
            return None
        return still.answered(plain)

    def ask(self, moved: Sequence[ReadFrom]) -> bool:
        """See `LentRead`."""
        still = self._still
        if still.changes != self._cluster.changes or not self._replicas.quiet:
            return False
        asked = still.ask(moved)
        if asked is None:
            return False
        outgoing = partial(still.requests.framed, asked.epoch, asked.named)
        if self._lent.send(outgoing, timeout_s=still.timeout_s, held_s=still.held_s):
            return True
        still.session.lost(asked)
        return False

    def give_back(self, then: Callable[[], None] | None = None) -> None:
        """See `LentRead`."""
        self._lent.give_back(None, then)

    def break_off(self) -> None:
        """See `LentRead`."""
        self._lent.break_off(self._still.session.in_doubt)


# The reader: one long poll to one node at a time, inside or outside a fetch session.
#
# If the broker has lost its session, or the two are out of step, the full request is sent at once; a second failure is
# an error like others. A range needs no session: it names one partition each time, and brokers keep only a thousand
# sessions in all (`KafkaRange`).

_LANE = "fetch"
_SLACK_S = 5.0
_FAREWELL_S = 1.0


class Read:
    """One request of a reader. Its content is determined once, when its version is known."""

    __slots__ = ("_asked", "_form", "_limits", "_places", "_session", "version")

    def __init__(
        self,
        form: FetchForm,
        limits: ReadLimits,
        session: FetchSession | None = None,
        asked: Asked | None = None,
        version: int = -1,
    ) -> None:
        """``asked``, in ``version``: the content, if the request was sent before."""
        self._form = form
        self._limits = limits
        self._session = session
        self._asked = asked
        self._places: Mapping[Key, FetchPosition] = {}
        self.version = version

    @property
    def request(self) -> ByVersion:
        """The request for `Calls`."""
        return ByVersion(FetchRequest, self._build, ids=True)

    @property
    def at_most(self) -> int:
        """The highest usable version."""
        return self._form.at_most

    def answered(self, answer: FetchResponse, node: Node) -> Sequence[KafkaFetched] | None:
        """The results; None if the session is gone and the request must be repeated. Raises ServerError."""
        assert self._asked is not None
        on_result = self._form.partitions_of(answer, self.version)
        if self._session is not None:
            self._session.answered(self._asked, answer.error_code, answer.session_id, on_result)
        if answer.error_code == NONE:
            return self._form.fetched(on_result, answer.node_endpoints)
        if self._asked.incremental:
            return None
        raise error_for(answer.error_code, WHAT, node=str(node.endpoint))

    def lost(self) -> None:
        """The response will not come, or will not be read."""
        if self._session is not None and self._asked is not None:
            self._session.lost(self._asked)

    def still(
        self, cluster: Cluster, link: PromptLink[Versions], reads: Sequence[ReadFrom], changes: int
    ) -> RepeatedFetch | None:
        """This read as a repeated fetch; None if its session was not kept, or has other partitions than this read."""
        session, version = self._session, self.version
        if session is None or version < FIRST_PLAIN or not session.knows(self._places):
            return None
        shown = self._form.request(Asked(session.id, 0, {}), self._limits)
        requests = RequestForm(shown, version, cluster.calls.options.client_id)
        named = dict(zip(self._places, zip(reads, self._places.values(), strict=True), strict=True))
        timeout_s = _patience_s(cluster.calls.options, self._limits)
        return RepeatedFetch(cluster, link, session, named, self._limits, requests, changes, timeout_s)

    def _build(self, version: int) -> FetchRequest:
        self.version = version
        places = self._places = self._form.places(version)
        session = self._session
        self._asked = alone(places) if session is None else session.ask(places, by_ids=self._form.by_ids(version))
        return self._form.request(self._asked, self._limits)


class KafkaReader:
    """The reads of one client: its fetch sessions, and the followers to read from."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._calls = cluster.calls
        self._sessions: dict[Endpoint, FetchSession] = {}
        self._last: dict[Endpoint, Callable[[], RepeatedFetch | None]] = {}
        self._stills: dict[Endpoint, RepeatedFetch] = {}
        self._replicas = ReadReplicas(cluster.calls.options.metadata_max_age_ms / 1_000)

    # The node to read from.

    def reads_at(self, partition: Partition) -> Node | None:
        """The follower that the leader has named, while it can be reached; else the leader, None if unknown."""
        if (leader := self._cluster.leader(partition)) is None:
            return None
        if self._replicas.any and (node := self._replica(partition)) is not None:
            return node
        return None if self._calls.channel.rests(leader.endpoint) else leader

    def _replica(self, partition: Partition) -> Node | None:
        cluster, channel = self._cluster, self._calls.channel
        now = channel.monotonic()
        node_id = self._replicas.node_id(partition, cluster.leader_epoch(partition), now)
        if node_id is None:
            return None
        node = cluster.node(node_id)
        if node is not None and not channel.rests(node.endpoint):
            return node
        self._replicas.shun(partition, now)
        return None

    def distrust(self, partition: Partition) -> None:
        """A read of this partition failed at its node."""
        self._replicas.shun(partition, self._calls.channel.monotonic())

    # Reading.

    def alone(self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits) -> Read:
        """A request without a session, which the caller sends."""
        return self._made(node, reads, limits, None)

    async def read(self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, lane: str) -> list[KafkaFetched]:
        """One long poll to one node; ``lane`` "" is the client's fetch lane, which uses sessions.

        Errors of single partitions are in ``KafkaFetched.error``; a partition without news is left out. Raises
        ConnectionLost, RequestTimeout (the partitions' leader is then distrusted), ProtocolViolation, ServerError.
        """
        try:
            reads = self._led(node, reads)
            parted: Mapping[Partition, PenstockError] = self._recreated(reads)
            if parted:
                await self._cluster.refresh_recreated([(each.partition.topic, each.topic_id) for each in reads])
                parted = self._recreated(reads)
            parted = parted or await validate(self._cluster, node, reads, lane or _LANE)
            if parted:
                options = self._calls.options
                found = [(each, parted[each.partition]) for each in reads if each.partition in parted]
                return [KafkaFetched(each, LEFT_OUT, error, options) for each, error in found]
            session = None if lane else self._session(node)
            while reads:
                answers = await self._ask(node, self._made(node, reads, limits, session), limits, lane or _LANE)
                if answers is not None:
                    return list(answers)
        except PenstockError as error:
            self._note(reads, error)
            raise
        return []

    async def _ask(self, node: Node, read: Read, limits: ReadLimits, lane: str) -> Sequence[KafkaFetched] | None:
        try:
            answer = await self._calls.call(
                node.endpoint,
                read.request,
                FetchResponse,
                lane=lane,
                timeout_s=_patience_s(self._calls.options, limits),
                held_s=limits.max_wait_ms / 1_000,
                at_most=read.at_most,
            )
        except BaseException:
            read.lost()
            raise
        return read.answered(answer, node)

    def read_at_once(self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, heard: FetchHeard) -> bool:
        """As ``read``, if a connection is free and no leader must be asked first whether its log was truncated."""
        link = self._calls.prompt(node.endpoint, _LANE)
        if link is None or any(is_new(self._cluster, each) for each in reads) or self._recreated(reads):
            return False
        try:
            self._tell(link, node, reads, limits, heard)
        except PenstockError:
            return False  # `read` meets the same error, and can raise it to its caller
        return True

    def _tell(
        self,
        link: PromptLink[Versions],
        node: Node,
        reads: Sequence[ReadFrom],
        limits: ReadLimits,
        heard: FetchHeard,
    ) -> None:
        """Send the read; ``heard`` gets its result. Raises PenstockError if nothing was written."""
        changes = self._cluster.changes
        read = self._made(node, reads, limits, self._session(node))

        def on_result(answer: Frame | PenstockError) -> None:
            found: Sequence[KafkaFetched] | Exception | None
            try:
                found = self._results(link, read, answer, reads, node)
                if found is None:
                    self._tell(link, node, reads, limits, heard)
                    return
                self._last[node.endpoint] = lambda: read.still(self._cluster, link, reads, changes)
            except Exception as error:
                found = error
            heard(found)

        options = self._calls.options
        try:
            outgoing, version = self._calls.encoded(link, read.request, read.at_most)
            assert version == read.version
            held_s = limits.max_wait_ms / 1_000
            self._calls.tell(link, outgoing, on_result, timeout_s=_patience_s(options, limits), held_s=held_s)
        except BaseException:
            read.lost()
            raise

    def _results(
        self,
        link: PromptLink[Versions],
        read: Read,
        answer: Frame | PenstockError,
        reads: Sequence[ReadFrom],
        node: Node,
    ) -> Sequence[KafkaFetched] | None:
        """Process a response. Raises as ``read``."""
        try:
            if isinstance(answer, PenstockError):
                raise answer
            response = self._calls.read(link, FetchResponse, read.version, answer)
        except PenstockError as error:
            read.lost()
            self._note(reads, error)
            raise
        return read.answered(response, node)

    # Repeated fetches.

    def read_again(self, node: Node, moved: Sequence[ReadFrom], heard: FetchHeard) -> bool:
        """Repeat the last read of this node; see ``LogClient.read_again``."""
        still = self._stills.get(node.endpoint) or self._still(node)
        if still is None or still.changes != self._cluster.changes or not self._replicas.quiet:
            return False
        if self._calls.channel.prompt(node.endpoint, _LANE) is not still.link or (asked := still.ask(moved)) is None:
            return False

        def on_result(answer: Frame | PenstockError) -> None:
            found: Sequence[KafkaFetched] | Exception | None
            try:
                plain = None if isinstance(answer, PenstockError) else read_plain(answer.body, still.requests.version)
                found = self._unusual(still, answer, node) if plain is None else still.answered(plain)
                if found is None:
                    self._tell(still.link, node, still.reads, still.limits, heard)
                    return
            except Exception as error:
                found = error
            heard(found)

        outgoing = partial(still.requests.framed, asked.epoch, asked.named)
        try:
            self._calls.tell(still.link, outgoing, on_result, timeout_s=still.timeout_s, held_s=still.held_s)
        except PenstockError:
            self._session(node).lost(asked)
            return False
        return True

    def lend(self, node: Node, hold: TryLock) -> KafkaLentRead | None:
        """Hand the read in flight over to the caller's thread; see ``LogClient.lend_read``."""
        still = self._stills.get(node.endpoint)
        if still is None or still.asked is None:
            return None
        lent = still.link.connection.lend(hold)
        return None if lent is None else KafkaLentRead(still, lent, self._cluster, self._replicas)

    def _still(self, node: Node) -> RepeatedFetch | None:
        """The node's last read as a repeated fetch, if it can be repeated."""
        last = self._last.pop(node.endpoint, None)
        still = None if last is None else last()
        if still is not None:
            self._stills[node.endpoint] = still
        return still

    def _unusual(
        self, still: RepeatedFetch, answer: Frame | PenstockError, node: Node
    ) -> Sequence[KafkaFetched] | None:
        """Process a response that is not plain, as ``_results``."""
        reads = still.reads
        asked, still.asked = still.asked, None
        form = FetchForm(self._cluster, node, reads, self._replicas, still.keys)
        read = Read(form, still.limits, self._sessions.get(node.endpoint), asked, still.requests.version)
        return self._results(still.link, read, answer, reads, node)

    # Closing.

    async def close(self) -> None:
        """End the sessions at the brokers, which would keep them for two minutes otherwise."""
        sessions, self._sessions = self._sessions, {}
        self._stills.clear()
        self._last.clear()
        goodbyes = [
            self._calls.call(
                endpoint,
                FetchRequest(session_id=last.session_id, session_epoch=last.epoch),
                FetchResponse,
                timeout_s=_FAREWELL_S,
                at_most=12,
            )
            for endpoint, session in sessions.items()
            if (last := session.farewell()) is not None and self._calls.prompt(endpoint, "") is not None
        ]
        await self._calls.channel.gather(goodbyes)

    # Internals.

    def _made(self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, session: FetchSession | None) -> Read:
        return Read(FetchForm(self._cluster, node, reads, self._replicas), limits, session)

    def _session(self, node: Node) -> FetchSession:
        """The session with this endpoint: a broker that moves to another endpoint has forgotten its sessions."""
        self._stills.pop(node.endpoint, None)  # a full request ends the repeated fetch
        self._last.pop(node.endpoint, None)
        return self._sessions.setdefault(node.endpoint, FetchSession())

    def _led(self, node: Node, reads: Sequence[ReadFrom]) -> Sequence[ReadFrom]:
        """If this is a follower: without the partitions whose leader must be asked first about truncation."""
        strange = [
            each for each in reads if is_new(self._cluster, each) and not leads(self._cluster, node, each.partition)
        ]
        for each in strange:
            self._replicas.back(each.partition)
        return [each for each in reads if each not in strange] if strange else reads

    def _recreated(self, reads: Sequence[ReadFrom]) -> dict[Partition, PenstockError]:
        """The errors for positions in deleted topics whose names other topics have now."""
        found = {each.partition: self._cluster.recreated(each.partition, each.offset, each.topic_id) for each in reads}
        return {partition: error for partition, error in found.items() if error is not None}

    def _note(self, reads: Sequence[ReadFrom], error: PenstockError) -> None:
        for each in reads:
            note_error(self._cluster, each.partition, error)


def _patience_s(options: KafkaOptions, limits: ReadLimits) -> float:
    return max(options.request_timeout_s, limits.max_wait_ms / 1_000 + _SLACK_S)


# A range's fetches. Only one is in flight, because its position comes from the headers of the previous response.
#
# A fetch requests about as many bytes as the rest of the range is estimated to have, so that a small range does not
# fetch megabytes after its end. The caller of `penstock.interfaces.client.RangeSource` decides about order, end and
# retries.
#
# A range uses no fetch session. Each request names its one partition with a new position, so a session would save
# nothing. And a broker keeps a thousand sessions, each for two minutes after its last request: many short tasks would
# evict the sessions of consumers.

DEFAULT_FETCH_BYTES = 4 * 1024 * 1024

_MAX_WAIT_MS = 500

_LEAST_FETCH_BYTES = 64 * 1024
_FIRST_GUESS = 1_024.0
_MARGIN = 1.25


class KafkaRange:
    """``penstock.interfaces.client.RangeSource`` for one partition of a Kafka cluster."""

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
        """Send a fetch.

        Raises LogTruncated if the records before ``offset`` are not those that were read, and TopicRecreated if the
        range is of a deleted topic whose name another topic has now.
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
        """The response to the fetch in flight."""
        assert self._asked is not None
        started, asking, read, node = self._asked
        self._asked, self.ahead = None, 0
        answers = asking.answered(await started.answer(FetchResponse), node)
        # A throttling broker may answer without any partition: nothing new, not an error.
        fetched = answers[0] if answers else KafkaFetched(read, LEFT_OUT, None, self._calls.options)
        if read.offset < (following := fetched.next_offset):
            self._bytes_an_offset = fetched.size / (following - read.offset)
        return fetched

    def note(self, error: PenstockError) -> None:
        """Distrust the partition's leader if the error may mean that it has moved."""
        self._reader.distrust(self._partition)
        note_error(self._cluster, self._partition, error)

    def gone(self, text: str, offset: int) -> OffsetOutOfRange:
        """OFFSET_OUT_OF_RANGE, as a broker would send it."""
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
        """Close the connection of a fetch in flight."""
        if self._asked is not None:
            started, self._asked, self.ahead = self._asked[0], None, 0
            started.abandon()

    async def finish(self) -> None:
        """Stop. There is nothing to wait for, because nothing is fetched beyond the end."""
        self.close()

    async def _check_past(self, node: Node, offset: int) -> None:
        parted = await validate(self._cluster, node, [ReadFrom(self._partition, offset, 0)], _LANE)
        if (error := parted.get(self._partition)) is not None:
            raise error
