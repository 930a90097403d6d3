"""AsyncAdmin and Admin: topics, groups and offsets from an operator's view.

Admin is AsyncAdmin for synchronous code, over a blocking socket: it needs no thread and no event loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from penstock.client.admin.groups import (
    GroupOffset,
    Lag,
    ResetPlan,
    ResetTo,
    Scope,
    chosen,
    group_lag,
    group_offsets,
    plan_reset,
)
from penstock.client.admin.groups import execute as move
from penstock.client.arguments import (
    EVER,
    OffsetLike,
    OffsetsLike,
    as_committed,
    beginning_offsets,
    check_finding,
    check_names,
    check_offsets,
    check_partitions,
    end_offsets,
    offsets_for_times,
    public_topics,
)
from penstock.client.connecting import open_asyncio, open_blocking, protocol_of, split_options, wall_clock_ms
from penstock.client.runtime.closing import (
    BlockingCalls,
    Handle,
    Interrupts,
    check_loop,
    closed_meanwhile,
    hang_up,
    shown_address,
)
from penstock.config import ConsumerConfig, OptionValue, Settings, reader_settings
from penstock.errors import Closed, UsageError
from penstock.interfaces import (
    FoundOffset,
    GroupDescription,
    GroupDescriptions,
    GroupListings,
    LogClient,
    NewTopic,
    Rebalance,
    TopicSetting,
    WireProtocol,
)
from penstock.model import Committed, Partition, PartitionLike, PreparedTransaction, Record, TopicInfo

__all__ = ["Admin", "AsyncAdmin"]

T = TypeVar("T")


class AsyncAdmin(Handle):
    """Manages topics and groups. Address and options as for `penstock.AsyncConsumer`. Raises ConfigError.

    >>> async def main() -> None:                                            # doctest: +SKIP
    ...     async with penstock.AsyncAdmin("kafka://127.0.0.1:9092") as admin:
    ...         await admin.create_topics([NewTopic("flights", partitions=3)])
    ...         print(await admin.lag("stats"))
    """

    def __init__(self, address: str, **options: OptionValue) -> None:
        plain, keywords, file = split_options(address, options, "client")
        self._protocol = protocol_of(plain)
        self._settings = reader_settings(plain, keywords, file=file, protocol=self._protocol.config)
        self._open: Callable[[WireProtocol, Settings[ConsumerConfig]], LogClient] = open_asyncio
        self._interrupts = Interrupts()
        self._waiting: Callable[[], AbstractContextManager[object]] = self._interrupts.call
        self._client: LogClient | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._pid = os.getpid()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def create_topics(self, topics: Collection[NewTopic | str]) -> None:
        """Create all topics; returns when they are writable. Raises ServerError for the first failure.

        A name stands for a NewTopic with the server's defaults.
        """
        wanted = [NewTopic(each) if isinstance(each, str) else each for each in check_names("topics", topics)]
        with self._asking() as log:
            await log.admin().create_topics(wanted)

    async def delete_topics(self, names: Collection[str]) -> None:
        """Delete topics with all their records. Raises ServerError."""
        wanted = check_names("topics", names)
        with self._asking() as log:
            await log.admin().delete_topics(wanted)

    async def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to ``total`` partitions; keys then map to other partitions than before. Raises ServerError."""
        with self._asking() as log:
            await log.admin().add_partitions(name, total)

    async def topics(self, names: Collection[str] | None = None, *, internal: bool = False) -> Mapping[str, TopicInfo]:
        """Topics by name; missing topics are absent. None: all topics, internal ones only with ``internal``."""
        with self._asking() as log:
            return public_topics(await log.admin().topics(names), names, internal=internal)

    async def topic_config(self, name: str) -> Mapping[str, str]:
        """A topic's settings, in the server's words. Raises ServerError."""
        with self._asking() as log:
            return await log.admin().topic_config(name)

    async def describe_topic_config(self, name: str) -> Mapping[str, TopicSetting]:
        """A topic's settings by name, each with its value, its default and its source. Raises ServerError."""
        with self._asking() as log:
            return await log.admin().describe_topic_config(name)

    async def alter_topic_config(self, name: str, settings: Mapping[str, str | None], *, dry_run: bool = False) -> None:
        """Change these settings of a topic and no others; None resets a setting to its default.

        With ``dry_run`` the server only checks the change. Raises ServerError if the server refuses it; UsageError for
        what the protocol lacks: RocketMQ has none of it, TubeMQ has neither a dry run nor None.
        """
        with self._asking() as log:
            await log.admin().alter_topic_config(name, dict(settings), dry_run=dry_run)

    async def delete_records(self, before: Mapping[Partition, OffsetLike]) -> Mapping[Partition, int]:
        """Delete the records before an offset; returns each partition's first offset afterwards. Raises ServerError."""
        with self._asking() as log:
            return await log.admin().delete_records(check_offsets(before))

    async def groups(
        self, *, states: Collection[str] | None = None, types: Collection[str] | None = None
    ) -> GroupListings:
        """All groups, or those in some states ("Empty", …) or of some types ("classic", "consumer"); case is ignored.

        ``unreachable`` of the result lists the nodes that did not answer. Raises UsageError for a state or a type that
        does not exist, or that the server does not report.
        """
        with self._asking() as log:
            found = await log.admin().groups()
        return GroupListings(chosen(found, states, types), getattr(found, "unreachable", ()))

    async def describe_group(self, group: str) -> GroupDescription:
        """A group's state and members; the state is "Dead" if there is no such group."""
        with self._asking() as log:
            return await log.admin().describe_group(group)

    async def describe_groups(self, groups: Collection[str]) -> GroupDescriptions:
        """Describe many groups by name, in few requests where servers describe several at once (Kafka).

        A group whose server refuses to describe it, or does not answer in time, is in ``failed`` of the result with the
        error. The other groups are described all the same.
        """
        wanted = check_names("groups", groups)
        with self._asking() as log:
            return await log.admin().describe_groups(wanted)

    async def rebalances(self, group: str) -> Sequence[Rebalance] | None:
        """The group's last rebalances, oldest first: the reason, the members, the duration and the moved partitions.

        Nodes of penstock remember 20 per group since their start; None from servers that keep no such history.
        """
        with self._asking() as log:
            return await log.admin().rebalances(group)

    async def delete_groups(self, groups: Collection[str]) -> None:
        """Delete groups without members, with their committed offsets. Raises ServerError."""
        wanted = check_names("groups", groups)
        with self._asking() as log:
            await log.admin().delete_groups(wanted)

    async def committed(
        self, group: str, partitions: Collection[PartitionLike] | None = None
    ) -> Mapping[Partition, Committed]:
        """A group's committed offsets (None: all that it has); partitions without a commit are absent."""
        wanted = None if partitions is None else check_partitions(partitions)
        with self._asking() as log:
            return await log.admin().committed(group, wanted)

    async def commit(self, group: str, offsets: OffsetsLike) -> None:
        """Commit offsets for a group without being a member. Raises ServerError while the group has members."""
        with self._asking() as log:
            await log.admin().commit(group, as_committed(offsets))

    async def lag(self, group: str) -> Mapping[Partition, Lag]:
        """How far a group is behind in every partition with a committed offset: in offsets, and in seconds."""
        with self._asking() as log:
            return await group_lag(log, group, wall_clock_ms)

    async def group_offsets(self, group: str | GroupDescription, *, seconds: bool = True) -> tuple[GroupOffset, ...]:
        """A group's offsets in every partition that it has committed or that a member reads, and that member.

        ``group`` is its name, or a result of `describe_group`. Unknown fields are None. ``seconds`` costs the reading
        of one batch for each partition that is behind. Raises UsageError if there is no such group.
        """
        with self._asking() as log:
            described = await log.admin().describe_group(group) if isinstance(group, str) else group
            found = await group_offsets(log, described, wall_clock_ms, seconds=seconds)
        if described.state == "Dead" and not found:
            raise UsageError(f"no group named {described.group}", hint="`penstock groups list` shows what there is")
        return found

    async def reset_offsets(
        self,
        group: str,
        to: ResetTo,
        *,
        topics: Collection[str] | None = None,
        partitions: Collection[PartitionLike] | None = None,
        execute: bool = False,
    ) -> ResetPlan:
        """Plan to move a group to other offsets; with ``execute``, also do it.

        It covers all partitions of ``topics``, these ``partitions``, or all that the group has committed. Raises
        UsageError while the group has members, and for topics and partitions that do not exist; ServerError.
        """
        scope = Scope.of(topics, partitions)
        with self._asking() as log:
            plan, commits = await plan_reset(log, group, to, scope, wall_clock_ms)
            if not execute:
                return plan
            await move(log, group, commits)
            return replace(plan, executed=True)

    async def delete_offsets(self, group: str, partitions: Collection[PartitionLike]) -> None:
        """Delete a group's offsets in these partitions. Raises ServerError for the first partition that a member reads.

        TubeMQ can only delete whole topics and RocketMQ only whole groups: they raise UsageError.
        """
        wanted = check_partitions(partitions)
        with self._asking() as log:
            await log.admin().delete_offsets(group, wanted)

    async def remove_members(
        self, group: str, instance_ids: Collection[str] | None = None, *, reason: str = "removed by an operator"
    ) -> None:
        """Remove static members from a group by their instance ids; None removes all of its members.

        A removed member that still runs joins again. Raises ServerError for the first member that is not there, or that
        the server does not remove; UsageError where servers cannot remove members (TubeMQ, RocketMQ).
        """
        wanted = None if instance_ids is None else check_names("instance_ids", instance_ids)
        with self._asking() as log:
            if wanted is None:
                await log.admin().remove_all_members(group, reason=reason)
            else:
                await log.admin().remove_members(group, wanted, reason=reason)

    async def beginning_offsets(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, int]:
        """The first offset of each partition."""
        with self._asking() as log:
            return await beginning_offsets(log, partitions)

    async def end_offsets(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, int]:
        """The offset that the next record written to each partition will get."""
        with self._asking() as log:
            return await end_offsets(log, partitions)

    async def offsets_for_times(self, times_ms: Mapping[Partition, int]) -> Mapping[Partition, FoundOffset | None]:
        """The first record at or after a time (ms since 1970 UTC); None where there is no such record."""
        with self._asking() as log:
            return await offsets_for_times(log, times_ms)

    async def find(
        self,
        topic: str,
        *,
        key: str | None = None,
        record_id: str | None = None,
        between_ms: tuple[int, int] = EVER,
        most: int = 32,
    ) -> Sequence[Record]:
        """Records with this key, from between these two times (ms since 1970 UTC), or with this id; oldest first.

        Uses the servers' index, so it works only where there is one: RocketMQ. Its keys are the words of ``KEYS``; an
        id may be one that a producer assigned or one that a broker assigned. A record is found a moment after it was
        written. Raises UsageError for a log without an index, ServerError.
        """
        check_finding(topic, key, record_id, between_ms, most)
        with self._asking() as log:
            if record_id is not None:
                return await log.find_by_id(topic, record_id)
            return await log.find_by_key(topic, key or "", between_ms, most)

    async def complete_transaction(self, prepared: PreparedTransaction, *, commit: bool = True) -> None:
        """End a transaction that another producer has prepared; a repeated call ends it the same way.

        Raises FencedError if its transactional id was initialized again since then, which aborted it; ServerError.
        """
        with self._asking() as log:
            await log.complete(prepared, commit=commit)

    async def close(self) -> None:
        """Close the connections. Calling it again does nothing.

        A call that waits in another task or thread, or that is interrupted by a signal handler that closes, ends at
        once with Closed. Only the resolution of a host name cannot be interrupted.
        """
        self._closed = True
        await self._interrupts.end(closed_meanwhile("admin"))
        client, self._client = self._client, None
        if client is not None:
            await hang_up(client)

    def _described(self) -> str:
        return f"{shown_address(self._settings.address)}, {'closed' if self._closed else 'open'}"

    async def _hang_up(self) -> None:
        client, self._client, self._closed = self._client, None, True
        if client is not None:
            await client.close()

    @contextmanager
    def _asking(self) -> Iterator[LogClient]:
        log = self._log()
        with self._waiting():
            yield log

    def _log(self) -> LogClient:
        if self._closed:
            raise Closed("the admin is closed")
        if self._home is not None:
            check_loop(self._home, "AsyncAdmin", self._pid)
        if self._client is None:
            if self._open is open_asyncio:
                self._home, self._pid = asyncio.get_running_loop(), os.getpid()
            self._client = self._open(self._protocol, self._settings)
        return self._client


# Admin: AsyncAdmin for synchronous code, over a blocking socket: no thread, no event loop.
#
# Every method has the signature of its AsyncAdmin counterpart.
class Admin(Handle):
    """Manages topics and groups. Use it from one thread at a time, except ``close``.

    Address and options as for `penstock.AsyncConsumer`. Raises ConfigError.

    >>> with penstock.Admin("kafka://127.0.0.1:9092") as admin:              # doctest: +SKIP
    ...     admin.create_topics([NewTopic("flights", partitions=3)])
    ...     print(admin.lag("stats"))
    """

    def __init__(self, address: str, **options: OptionValue) -> None:
        self._inner = AsyncAdmin(address, **options)
        # With the blocking transport no coroutine ever suspends: each one runs to its end at once.
        self._calls = BlockingCalls("admin", self._inner._hang_up)
        self._inner._open = partial(open_blocking, stop=self._calls.stop)
        self._inner._waiting = nullcontext

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Calling it again does nothing.

        A call that waits in another task or thread, or that is interrupted by a signal handler that closes, ends at
        once with Closed. Only the resolution of a host name cannot be interrupted.
        """
        self._calls.close()

    # Inside.

    def _described(self) -> str:
        return self._inner._described()

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._calls.run(work())

    # Generated by tools/facades.py from AsyncAdmin: change that, then run ./dev check --fix.

    def create_topics(self, topics: Collection[NewTopic | str]) -> None:
        """Create all topics; returns when they are writable. Raises ServerError for the first failure.

        A name stands for a NewTopic with the server's defaults.
        """
        self._run(lambda: self._inner.create_topics(topics))

    def delete_topics(self, names: Collection[str]) -> None:
        """Delete topics with all their records. Raises ServerError."""
        self._run(lambda: self._inner.delete_topics(names))

    def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to ``total`` partitions; keys then map to other partitions than before. Raises ServerError."""
        self._run(lambda: self._inner.add_partitions(name, total))

    def topics(self, names: Collection[str] | None = None, *, internal: bool = False) -> Mapping[str, TopicInfo]:
        """Topics by name; missing topics are absent. None: all topics, internal ones only with ``internal``."""
        return self._run(lambda: self._inner.topics(names, internal=internal))

    def topic_config(self, name: str) -> Mapping[str, str]:
        """A topic's settings, in the server's words. Raises ServerError."""
        return self._run(lambda: self._inner.topic_config(name))

    def describe_topic_config(self, name: str) -> Mapping[str, TopicSetting]:
        """A topic's settings by name, each with its value, its default and its source. Raises ServerError."""
        return self._run(lambda: self._inner.describe_topic_config(name))

    def alter_topic_config(self, name: str, settings: Mapping[str, str | None], *, dry_run: bool = False) -> None:
        """Change these settings of a topic and no others; None resets a setting to its default.

        With ``dry_run`` the server only checks the change. Raises ServerError if the server refuses it; UsageError for
        what the protocol lacks: RocketMQ has none of it, TubeMQ has neither a dry run nor None.
        """
        self._run(lambda: self._inner.alter_topic_config(name, settings, dry_run=dry_run))

    def delete_records(self, before: Mapping[Partition, OffsetLike]) -> Mapping[Partition, int]:
        """Delete the records before an offset; returns each partition's first offset afterwards. Raises ServerError."""
        return self._run(lambda: self._inner.delete_records(before))

    def groups(self, *, states: Collection[str] | None = None, types: Collection[str] | None = None) -> GroupListings:
        """All groups, or those in some states ("Empty", …) or of some types ("classic", "consumer"); case is ignored.

        ``unreachable`` of the result lists the nodes that did not answer. Raises UsageError for a state or a type that
        does not exist, or that the server does not report.
        """
        return self._run(lambda: self._inner.groups(states=states, types=types))

    def describe_group(self, group: str) -> GroupDescription:
        """A group's state and members; the state is "Dead" if there is no such group."""
        return self._run(lambda: self._inner.describe_group(group))

    def describe_groups(self, groups: Collection[str]) -> GroupDescriptions:
        """Describe many groups by name, in few requests where servers describe several at once (Kafka).

        A group whose server refuses to describe it, or does not answer in time, is in ``failed`` of the result with the
        error. The other groups are described all the same.
        """
        return self._run(lambda: self._inner.describe_groups(groups))

    def rebalances(self, group: str) -> Sequence[Rebalance] | None:
        """The group's last rebalances, oldest first: the reason, the members, the duration and the moved partitions.

        Nodes of penstock remember 20 per group since their start; None from servers that keep no such history.
        """
        return self._run(lambda: self._inner.rebalances(group))

    def delete_groups(self, groups: Collection[str]) -> None:
        """Delete groups without members, with their committed offsets. Raises ServerError."""
        self._run(lambda: self._inner.delete_groups(groups))

    def committed(
        self, group: str, partitions: Collection[PartitionLike] | None = None
    ) -> Mapping[Partition, Committed]:
        """A group's committed offsets (None: all that it has); partitions without a commit are absent."""
        return self._run(lambda: self._inner.committed(group, partitions))

    def commit(self, group: str, offsets: OffsetsLike) -> None:
        """Commit offsets for a group without being a member. Raises ServerError while the group has members."""
        self._run(lambda: self._inner.commit(group, offsets))

    def lag(self, group: str) -> Mapping[Partition, Lag]:
        """How far a group is behind in every partition with a committed offset: in offsets, and in seconds."""
        return self._run(lambda: self._inner.lag(group))

    def group_offsets(self, group: str | GroupDescription, *, seconds: bool = True) -> tuple[GroupOffset, ...]:
        """A group's offsets in every partition that it has committed or that a member reads, and that member.

        ``group`` is its name, or a result of `describe_group`. Unknown fields are None. ``seconds`` costs the reading
        of one batch for each partition that is behind. Raises UsageError if there is no such group.
        """
        return self._run(lambda: self._inner.group_offsets(group, seconds=seconds))

    def reset_offsets(
        self,
        group: str,
        to: ResetTo,
        *,
        topics: Collection[str] | None = None,
        partitions: Collection[PartitionLike] | None = None,
        execute: bool = False,
    ) -> ResetPlan:
        """Plan to move a group to other offsets; with ``execute``, also do it.

        It covers all partitions of ``topics``, these ``partitions``, or all that the group has committed. Raises
        UsageError while the group has members, and for topics and partitions that do not exist; ServerError.
        """
        return self._run(
            lambda: self._inner.reset_offsets(group, to, topics=topics, partitions=partitions, execute=execute)
        )

    def delete_offsets(self, group: str, partitions: Collection[PartitionLike]) -> None:
        """Delete a group's offsets in these partitions. Raises ServerError for the first partition that a member reads.

        TubeMQ can only delete whole topics and RocketMQ only whole groups: they raise UsageError.
        """
        self._run(lambda: self._inner.delete_offsets(group, partitions))

    def remove_members(
        self, group: str, instance_ids: Collection[str] | None = None, *, reason: str = "removed by an operator"
    ) -> None:
        """Remove static members from a group by their instance ids; None removes all of its members.

        A removed member that still runs joins again. Raises ServerError for the first member that is not there, or that
        the server does not remove; UsageError where servers cannot remove members (TubeMQ, RocketMQ).
        """
        self._run(lambda: self._inner.remove_members(group, instance_ids, reason=reason))

    def beginning_offsets(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, int]:
        """The first offset of each partition."""
        return self._run(lambda: self._inner.beginning_offsets(partitions))

    def end_offsets(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, int]:
        """The offset that the next record written to each partition will get."""
        return self._run(lambda: self._inner.end_offsets(partitions))

    def offsets_for_times(self, times_ms: Mapping[Partition, int]) -> Mapping[Partition, FoundOffset | None]:
        """The first record at or after a time (ms since 1970 UTC); None where there is no such record."""
        return self._run(lambda: self._inner.offsets_for_times(times_ms))

    def find(
        self,
        topic: str,
        *,
        key: str | None = None,
        record_id: str | None = None,
        between_ms: tuple[int, int] = EVER,
        most: int = 32,
    ) -> Sequence[Record]:
        """Records with this key, from between these two times (ms since 1970 UTC), or with this id; oldest first.

        Uses the servers' index, so it works only where there is one: RocketMQ. Its keys are the words of ``KEYS``; an
        id may be one that a producer assigned or one that a broker assigned. A record is found a moment after it was
        written. Raises UsageError for a log without an index, ServerError.
        """
        return self._run(
            lambda: self._inner.find(topic, key=key, record_id=record_id, between_ms=between_ms, most=most)
        )

    def complete_transaction(self, prepared: PreparedTransaction, *, commit: bool = True) -> None:
        """End a transaction that another producer has prepared; a repeated call ends it the same way.

        Raises FencedError if its transactional id was initialized again since then, which aborted it; ServerError.
        """
        self._run(lambda: self._inner.complete_transaction(prepared, commit=commit))

    # Generated by tools/facades.py from AsyncAdmin: change that, then run ./dev check --fix.
