"""Admin: AsyncAdmin for synchronous code, over a blocking socket: no thread, no event loop.

Every method has the signature of its namesake there.
"""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from penstock.client.admin.async_admin import AsyncAdmin
from penstock.client.admin.groups import GroupOffset, Lag, ResetPlan, ResetTo
from penstock.client.arguments import EVER, OffsetLike
from penstock.client.connecting import open_blocking
from penstock.client.consumer.commits import OffsetsLike
from penstock.client.runtime.blocking import BlockingCalls, Handle
from penstock.config import OptionValue
from penstock.interfaces import (
    FoundOffset,
    GroupDescription,
    GroupDescriptions,
    GroupListings,
    NewTopic,
    Rebalance,
    TopicSetting,
)
from penstock.model import Committed, Partition, PartitionLike, PreparedTransaction, Record, TopicInfo

__all__ = ["Admin"]

T = TypeVar("T")


class Admin(Handle):
    """Looks after topics and groups. For one thread at a time, except ``close``.

    Address and options as for `penstock.AsyncConsumer`. Raises ConfigError.

    >>> with penstock.Admin("kafka://127.0.0.1:9092") as admin:              # doctest: +SKIP
    ...     admin.create_topics([NewTopic("flights", partitions=3)])
    ...     print(admin.lag("stats"))
    """

    def __init__(self, address: str, **options: OptionValue) -> None:
        self._inner = AsyncAdmin(address, **options)
        # Under the blocking transport no coroutine ever suspends: each of them is run to its end on the spot.
        self._calls = BlockingCalls("admin", self._inner._hang_up)
        self._inner._open = partial(open_blocking, stop=self._calls.stop)
        self._inner._waiting = nullcontext

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create all; returns when they can be written to. Raises ServerError for the first that could not be."""
        self._run(self._inner.create_topics(topics))

    def delete_topics(self, names: Collection[str]) -> None:
        """Delete topics and everything in them. Raises ServerError."""
        self._run(self._inner.delete_topics(names))

    def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to ``total`` partitions; keys then map to other partitions than before. Raises ServerError."""
        self._run(self._inner.add_partitions(name, total))

    def topics(self, names: Collection[str] | None = None, *, internal: bool = False) -> Mapping[str, TopicInfo]:
        """Topics by name; one that does not exist is absent. None: all, the log's own only with ``internal``."""
        return self._run(self._inner.topics(names, internal=internal))

    def topic_config(self, name: str) -> Mapping[str, str]:
        """A topic's settings, in the server's words. Raises ServerError."""
        return self._run(self._inner.topic_config(name))

    def describe_topic_config(self, name: str) -> Mapping[str, TopicSetting]:
        """A topic's settings by name, each with its value, its default and who set it. Raises ServerError."""
        return self._run(self._inner.describe_topic_config(name))

    def alter_topic_config(self, name: str, settings: Mapping[str, str | None], *, dry_run: bool = False) -> None:
        """Change these settings of a topic and no others; None sets one back to its default.

        With ``dry_run`` the server checks the change and does not make it. Raises ServerError for what the server
        refuses; UsageError for what its protocol has not: RocketMQ none of it, TubeMQ no dry run and no None.
        """
        self._run(self._inner.alter_topic_config(name, settings, dry_run=dry_run))

    def delete_records(self, before: Mapping[Partition, OffsetLike]) -> Mapping[Partition, int]:
        """Delete what lies before an offset; returns each partition's first offset afterwards. Raises ServerError."""
        return self._run(self._inner.delete_records(before))

    def groups(self, *, states: Collection[str] | None = None, types: Collection[str] | None = None) -> GroupListings:
        """All groups, or those in some states ("Empty", …) or of some types ("classic", "consumer"), in any case.

        ``unreachable`` of the result are the nodes that did not answer for theirs. Raises UsageError for a state or a
        type that does not exist, or that the server does not tell.
        """
        return self._run(self._inner.groups(states=states, types=types))

    def describe_group(self, group: str) -> GroupDescription:
        """A group's state and members; its state is "Dead" if there is no such group."""
        return self._run(self._inner.describe_group(group))

    def describe_groups(self, groups: Collection[str]) -> GroupDescriptions:
        """Many groups by name, in a few requests where servers describe several at once (Kafka).

        A group that its server refuses to describe is in ``failed`` of the result, with the error, as is one whose
        server does not answer in time; the others are described all the same.
        """
        return self._run(self._inner.describe_groups(groups))

    def rebalances(self, group: str) -> Sequence[Rebalance] | None:
        """The group's last rebalances, oldest first: why, who, how long, what moved.

        Nodes of penstock remember 20 a group, since they were started; None from servers that keep no account.
        """
        return self._run(self._inner.rebalances(group))

    def delete_groups(self, groups: Collection[str]) -> None:
        """Delete groups without members, and what they have committed. Raises ServerError."""
        self._run(self._inner.delete_groups(groups))

    def committed(
        self, group: str, partitions: Collection[PartitionLike] | None = None
    ) -> Mapping[Partition, Committed]:
        """What a group has committed (None: everything it has); partitions without a commit are absent."""
        return self._run(self._inner.committed(group, partitions))

    def commit(self, group: str, offsets: OffsetsLike) -> None:
        """Commit for a group without being a member of it. Raises ServerError while it has members."""
        self._run(self._inner.commit(group, offsets))

    def lag(self, group: str) -> Mapping[Partition, Lag]:
        """How far a group is behind, for every partition it has committed: in offsets, and in seconds."""
        return self._run(self._inner.lag(group))

    def group_offsets(self, group: str | GroupDescription, *, seconds: bool = True) -> tuple[GroupOffset, ...]:
        """Where a group stands in every partition that it has committed or that a member reads, and who that is.

        ``group`` is its name, or what `describe_group` told of it. What is not known is None. ``seconds`` costs the
        reading of a batch a partition that is behind. Raises UsageError if there is no such group.
        """
        return self._run(self._inner.group_offsets(group, seconds=seconds))

    def reset_offsets(
        self,
        group: str,
        to: ResetTo,
        *,
        topics: Collection[str] | None = None,
        partitions: Collection[PartitionLike] | None = None,
        execute: bool = False,
    ) -> ResetPlan:
        """What it means to put a group somewhere else; with ``execute`` that is done, too.

        In all partitions of ``topics``, in these ``partitions``, or in all that the group has committed. Raises
        UsageError while the group has members, and for topics and partitions that do not exist; ServerError.
        """
        found = self._inner.reset_offsets(group, to, topics=topics, partitions=partitions, execute=execute)
        return self._run(found)

    def delete_offsets(self, group: str, partitions: Collection[PartitionLike]) -> None:
        """Forget where a group stands in these partitions. Raises ServerError for the first that members read.

        TubeMQ forgets whole topics only, RocketMQ whole groups: UsageError.
        """
        self._run(self._inner.delete_offsets(group, partitions))

    def remove_members(
        self, group: str, instance_ids: Collection[str] | None = None, *, reason: str = "removed by an operator"
    ) -> None:
        """Throw static members out of a group, by their instance ids; None: everybody who is there.

        Who still runs joins again. Raises ServerError for the first that is not there, or that the server does not
        remove; UsageError where servers remove nobody (TubeMQ, RocketMQ).
        """
        self._run(self._inner.remove_members(group, instance_ids, reason=reason))

    def beginning_offsets(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, int]:
        """The first offset of each partition."""
        return self._run(self._inner.beginning_offsets(partitions))

    def end_offsets(self, partitions: Collection[PartitionLike]) -> Mapping[Partition, int]:
        """The offset that the next record written to each partition will get."""
        return self._run(self._inner.end_offsets(partitions))

    def offsets_for_times(self, times_ms: Mapping[Partition, int]) -> Mapping[Partition, FoundOffset | None]:
        """The first record at or after a time (ms since 1970 UTC); None where there is none so young."""
        return self._run(self._inner.offsets_for_times(times_ms))

    def find(
        self,
        topic: str,
        *,
        key: str | None = None,
        record_id: str | None = None,
        between_ms: tuple[int, int] = EVER,
        most: int = 32,
    ) -> Sequence[Record]:
        """Records with this key, of a time between these two (ms since 1970 UTC), or with this id; oldest first.

        By the servers' own index, so only where there is one: RocketMQ. Its keys are the words of ``KEYS``; its ids are
        those that producers give and those that brokers do. A record is found a moment after it was written. Raises
        UsageError for a log that has no index, ServerError.
        """
        found = self._inner.find(topic, key=key, record_id=record_id, between_ms=between_ms, most=most)
        return self._run(found)

    def complete_transaction(self, prepared: PreparedTransaction, *, commit: bool = True) -> None:
        """End a transaction that another producer has prepared; asked again, it is still ended the same way.

        Raises FencedError if its transactional id was initialized again since, which has aborted it; ServerError.
        """
        self._run(self._inner.complete_transaction(prepared, commit=commit))

    def close(self) -> None:
        """Hang up. Calling it again does nothing.

        What waits in another task or thread, or under a signal's handler that closes, ends by Closed: at once, but for
        the resolution of a name, which nothing can interrupt.
        """
        self._calls.close()

    # Inside.

    def _described(self) -> str:
        return self._inner._described()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._calls.run(work)
