"""Committer: commits of offsets, in order, one at a time: explicit, in the background, or automatic.

Also here: the accepted forms of offsets and groups, and CommitUnderWay, a commit that needs no task.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from penstock.client.arguments import LARGEST_OFFSET, check_partition, whole_number
from penstock.client.consumer.membership import Member, State
from penstock.client.errors import CommitFailed
from penstock.client.metrics import ConsumerMeter
from penstock.client.runtime.background_loop import FairLock, internal_error
from penstock.client.runtime.closing import CloseDeadline
from penstock.config.client import ClientLog
from penstock.errors import Closed, ErrorKind, PenstockError, ServerError, TopicRecreated, UsageError
from penstock.interfaces import CommitHeard, CommitRest, FoundOffset, LogClient
from penstock.model import Committed, GroupMetadata, Partition

if TYPE_CHECKING:
    from penstock.records import Messages

__all__ = [
    "JOINS_AGAIN",
    "CommitCallback",
    "CommitUnderWay",
    "Committer",
    "FinishedCommit",
    "GiveUp",
    "OffsetsLike",
    "as_committed",
    "as_group",
    "as_member",
    "finish",
]

# Arguments of ``commit`` and ``send_offsets_to_transaction``.
OffsetsLike: TypeAlias = (
    "Messages[Any, Any] | Mapping[Partition, int] | Mapping[Partition, Committed] | Mapping[Partition, FoundOffset]"
)
"""For ``commit``: a batch, which means all of it and everything before; or offsets of the next records to read."""

CommitCallback = Callable[[Mapping[Partition, Committed], PenstockError | None], object]


class FinishedCommit(Struct, frozen=True):
    """A completed commit whose callback has to be called."""

    callback: CommitCallback
    offsets: Mapping[Partition, Committed]
    error: PenstockError | None

    def __call__(self) -> object:
        """Call the callback."""
        return self.callback(self.offsets, self.error)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the committed offsets."""
        return tuple(sorted({partition.topic for partition in self.offsets}))


_HINT = 'Write commit(batch), commit({Partition("topic", 0): 42}), or commit() for everything that was polled'


def as_committed(offsets: OffsetsLike) -> dict[Partition, Committed]:
    """The offsets given to ``commit``, in one form. Raises UsageError for invalid and for negative ones."""
    plain: object = getattr(offsets, "next_offsets", offsets)  # of a batch
    # The topic ids of a batch: its offsets are not committed in another topic of the same name.
    ids = {part.partition: part.topic_id for part in getattr(offsets, "parts", ())}
    if not isinstance(plain, Mapping):
        kind = type(offsets).__name__
        raise UsageError(f"offsets must be a batch, or partitions with offsets, got {kind}", hint=_HINT)
    found = {
        check_partition(partition): Committed(offset, topic_id=ids.get(partition))
        if type(offset) is int
        else _committed(partition, offset)
        for partition, offset in plain.items()
    }
    for partition, committed in found.items():
        if not 0 <= committed.offset <= LARGEST_OFFSET:
            raise UsageError(
                f"offset {committed.offset} cannot be committed", topic=partition.topic, partition=partition.id
            )
    return found


def _committed(partition: Partition, offset: object) -> Committed:
    if isinstance(offset, FoundOffset):
        return Committed(offset.offset, leader_epoch=offset.leader_epoch)
    return offset if isinstance(offset, Committed) else Committed(whole_number(f"the offset of {partition}", offset))


def as_group(group: str | GroupMetadata) -> GroupMetadata:
    """A group's name, or one member of it. Raises UsageError for an empty name."""
    found: object = GroupMetadata(group) if isinstance(group, str) else group
    if not isinstance(found, GroupMetadata):
        raise UsageError(
            f"a group must be a name or GroupMetadata, got {type(group).__name__}",
            hint="Consumer.group_metadata() gives it",
        )
    if not found.group:
        raise UsageError("a group needs a name")
    return found


async def finish(commits: Collection[asyncio.Task[None]], close_deadline: CloseDeadline) -> None:
    """Return when the commits under way have ended; at the deadline the rest are cancelled."""
    if not commits:
        return
    under_way = list(commits)
    try:
        async with close_deadline.limit():
            await asyncio.wait(under_way)
    except TimeoutError:
        for each in under_way:
            each.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


# A commit whose request is written, and whose answer no task awaits. It is called with the result of its first attempt.
# Remaining work, if any, runs in a task of the caller, and later commits wait for it.
JOINS_AGAIN = "Its partitions may belong to others by now; poll() joins again"

GiveUp: TypeAlias = Callable[[], None]
"""Stop waiting for the commit. Does nothing once it is over or given up."""


class CommitUnderWay:
    """``stored`` is called on success; ``leave`` when the commit is over, and before ``heard`` gets None."""

    __slots__ = ("_heard", "_leave", "_stored", "_waiting")

    def __init__(self, stored: Callable[[], None], leave: Callable[[], None], heard: CommitHeard) -> None:
        self._stored = stored
        self._leave: Callable[[], None] | None = leave
        self._heard = heard
        self._waiting = True

    def heard(self, rest: CommitRest | None) -> None:
        """The first attempt is over. Raises nothing."""
        if not self._waiting:
            return
        self._waiting = False
        if rest is not None:
            self._heard(partial(self._go_on, rest))
            return
        self._stored()
        self._end()
        self._heard(None)

    def give_up(self) -> None:
        """`GiveUp`."""
        self._waiting = False
        self._end()

    async def _go_on(self, rest: CommitRest) -> None:
        try:
            with as_member():
                await rest()
            self._stored()
        finally:
            self._end()

    def _end(self) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()


@contextmanager
def as_member() -> Iterator[None]:
    """A member that has lost everything without knowing it learns it from its commit, as CommitFailed."""
    try:
        yield
    except ServerError as error:
        if error.kind is not ErrorKind.NOT_A_MEMBER:
            raise
        raise CommitFailed(f"this consumer cannot commit: {error.message}", hint=JOINS_AGAIN) from error


class Committer:
    """The commits of one consumer."""

    def __init__(
        self,
        client: LogClient,
        group: str | None,
        auto_interval_ms: int | None,
        log: ClientLog,
        meter: ConsumerMeter,
        heard: Callable[[Mapping[Partition, Committed]], None] | None = None,
    ) -> None:
        self._client = client
        self._log = log
        self._meter = meter
        self._heard = heard
        self._group = group
        self._auto_interval_s = None if auto_interval_ms is None else auto_interval_ms / 1_000
        self._loop = asyncio.get_running_loop()
        self._one_at_a_time = FairLock()
        self._running: set[asyncio.Task[None]] = set()
        self._next_auto = self._loop.time() + (self._auto_interval_s or 0.0)
        self._auto_failure: PenstockError | None = None
        self._known: dict[Partition, Committed] = {}
        self.finished: deque[FinishedCommit] = deque()
        self.member: Member | None = None

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        """Commit now, after all commits begun before. Raises the log's errors."""
        answer: asyncio.Future[CommitRest | None] = self._loop.create_future()
        give_up = self.commit_at_once(offsets, partial(_settle, answer))
        if give_up is None:
            losses = self._losses
            if self._running:
                await asyncio.sleep(0)  # a commit whose task was just created takes its place in the queue first
            await self._commit(offsets, losses)
            return
        try:
            rest = await answer
            if rest is not None:
                await rest()
        except BaseException:
            give_up()
            raise

    def commit_at_once(self, offsets: Mapping[Partition, Committed], heard: CommitHeard) -> GiveUp | None:
        """``commit``, if its request can be written now; otherwise does nothing and returns None.

        ``heard`` is called once, after this has returned, and must not raise. Later commits wait until the work passed
        to ``heard`` has ended. Returns the function that gives the commit up; ``heard`` is not called after that.
        """
        member = self.member
        if member is None or self._heard is not None or self._running or not offsets:
            return None  # interceptors run in the committing task's context; a commit that has just begun goes first
        if member.fenced is not None or not member.holds or not self._one_at_a_time.take():
            return None
        attempt = CommitUnderWay(partial(self._stored, offsets, self._loop.time()), self._one_at_a_time.leave, heard)
        try:
            begun = member.commit_at_once(offsets, attempt.heard)
        except BaseException:
            attempt.give_up()
            raise
        if not begun:
            attempt.give_up()
            return None
        return attempt.give_up

    @property
    def _losses(self) -> int:
        return 0 if self.member is None else self.member.losses

    async def _commit(self, offsets: Mapping[Partition, Committed], losses: int) -> None:
        """``losses``: how often the member had lost everything when these records were handled."""
        self._need_group()
        async with self._one_at_a_time:
            if not offsets:
                return
            assert self._group is not None
            begun = self._loop.time()
            if self.member is None:
                await self._client.commit(self._group, offsets)
            else:
                self._need_membership(self.member, losses)
                await self._commit_as(self.member, offsets)
            self._stored(offsets, begun)

    def _stored(self, offsets: Mapping[Partition, Committed], begun: float) -> None:
        """The log has stored the offsets."""
        self._known.update(offsets)
        self._meter.commit.add(self._loop.time() - begun)
        if self._heard is not None:
            self._heard(offsets)

    async def _commit_as(self, member: Member, offsets: Mapping[Partition, Committed]) -> None:
        """See `as_member`."""
        with as_member():
            await member.membership.commit(offsets)

    def commit_async(self, offsets: Mapping[Partition, Committed], callback: CommitCallback | None) -> None:
        """Commit in the background; ``callback`` waits in ``finished`` for the thread that polls."""
        self._need_group()
        self._run(self._commit_and_tell(offsets, callback, self._losses))

    def auto(self, handled: Callable[[], Mapping[Partition, Committed]]) -> None:
        """Called by each poll: start an automatic commit if one is due. Raises the error of an earlier one."""
        failure, self._auto_failure = self._auto_failure, None
        if failure is not None:
            raise failure
        if self.due:
            self._next_auto = self._loop.time() + (self._auto_interval_s or 0.0)
            self._run(self._commit_auto(handled(), self._losses))

    @property
    def due(self) -> bool:
        """Whether a poll has a commit to start or an error to raise."""
        if self._auto_interval_s is None:
            return False
        return self._auto_failure is not None or self._loop.time() >= self._next_auto

    async def commit_handled(self, handled: Mapping[Partition, Committed]) -> None:
        """The automatic commit at the end of an assignment; nothing if commits are not automatic."""
        if self._auto_interval_s is not None:
            try:
                await self.commit(self._news(handled))
            except TopicRecreated as error:
                self._log.info("there is nothing to commit in the new topic yet: %s", error)

    async def close(self, close_deadline: CloseDeadline) -> None:
        """Wait for commits under way."""
        await finish(self._running, close_deadline)

    def _news(self, handled: Mapping[Partition, Committed]) -> dict[Partition, Committed]:
        return {partition: each for partition, each in handled.items() if not self._is_known(partition, each)}

    def _is_known(self, partition: Partition, handled: Committed) -> bool:
        """Whether this is the last committed offset. Another topic of the same name may have the same offset."""
        known = self._known.get(partition)
        if known is None or known.offset != handled.offset:
            return False
        return None in (known.topic_id, handled.topic_id) or known.topic_id == handled.topic_id

    def forget(self) -> None:
        """Partitions changed owners: others may have committed other offsets since."""
        self._known.clear()

    async def _commit_auto(self, handled: Mapping[Partition, Committed], losses: int) -> None:
        try:
            await self._commit(self._news(handled), losses)
        except TopicRecreated as error:
            # The reader finds this too, and warns. Offsets of the old topic are not committed in the new one.
            self._log.info("an automatic commit came too late: %s", error)
        except PenstockError as error:
            gone = self.member is not None and (self.member.state is not State.IN or self.member.losses != losses)
            if error.retriable or gone or isinstance(error, CommitFailed):
                self._log.warning("automatic commit failed, the next one will cover it: %s", error)
            else:
                self._auto_failure = error
        except Exception as error:
            self._auto_failure = internal_error("the automatic commit", error)

    async def _commit_and_tell(
        self, offsets: Mapping[Partition, Committed], callback: CommitCallback | None, losses: int
    ) -> None:
        failure: PenstockError | None = None
        try:
            await self._commit(offsets, losses)
        except asyncio.CancelledError:
            failure = Closed("the consumer was closed before this was committed")
        except Exception as error:
            failure = error if isinstance(error, PenstockError) else internal_error("the commit", error)
            if callback is None:
                self._log.warning("asynchronous commit failed: %s", failure)
        if callback is not None:
            self.finished.append(FinishedCommit(callback, offsets, failure))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work, name="penstock commit")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _need_group(self) -> None:
        if self._group is None:
            raise UsageError("there is no group to commit for", hint="Give the consumer group=NAME")

    def _need_membership(self, member: Member, losses: int) -> None:
        if member.fenced is not None:
            raise member.fenced
        # While a commit waited for others, its member may have lost everything and joined again. The new identity would
        # be allowed to commit, but these offsets belong to the old one, and others may have read further since.
        if not member.holds or member.losses != losses:
            state = "gone" if member.holds else member.state.value
            raise CommitFailed(
                f"this consumer cannot commit: it is {state} of its group ({member.reason})",
                hint=JOINS_AGAIN,
            )


def _settle(answer: asyncio.Future[CommitRest | None], rest: CommitRest | None) -> None:
    if not answer.done():
        answer.set_result(rest)
