"""Consumer: AsyncConsumer for synchronous code, over the process's one background loop.

Every method has the signature of its namesake there. Batches are decoded in the calling thread, which needs the loop
only when nothing has been fetched ahead. What must not live here: behaviour of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Self

from penstock.client._committable import CommitCallback, OffsetsLike
from penstock.client._loop_thread import Turns, call_in_user_thread, loop_thread
from penstock.client.async_consumer import AsyncConsumer, poll_limit
from penstock.client.rebalance import RebalanceListener
from penstock.columnar import Messages
from penstock.config import OptionValue
from penstock.model import Committed, GroupMetadata, Partition
from penstock.seams import FoundOffset

__all__ = ["Consumer"]

_ITERATION_S = 3_600.0


class Consumer:
    """Reads topics as `Messages`: shared with a group, or alone. For one thread at a time.

    Address and options as for `AsyncConsumer`. Raises ConfigError.

    >>> with penstock.Consumer("kafka://127.0.0.1:9092/flights", group="stats") as consumer:    # doctest: +SKIP
    ...     for batch in consumer:
    ...         print(batch.to_arrow().num_rows)
    ...         consumer.commit(batch)
    """

    def __init__(self, address: str, *, group: str | None = None, **options: OptionValue) -> None:
        self._inner = AsyncConsumer(address, group=group, **options)
        self._inner._call = call_in_user_thread
        self._loop = loop_thread()
        self._turn = Turns(self._loop, "consumer")

    def __enter__(self) -> Self:
        with self._turn as run:
            run(self._inner.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._turn as run:
            run(lambda: self._inner.__aexit__(kind, error, trace))

    def __iter__(self) -> Iterator[Messages]:
        """Batches as they come, for ever; each may be committed once its loop body is through."""
        while not self._inner._closed:
            batch = self.poll(_ITERATION_S)
            if batch:
                yield batch

    def subscribe(self, topics: Collection[str] | str, listener: RebalanceListener | None = None) -> None:
        """Read these topics, together with the group, instead of those before. Raises UsageError after assign."""
        with self._turn as run:
            run(lambda: self._inner.subscribe(topics, listener))

    def assign(self, partitions: Collection[Partition] | Mapping[Partition, int]) -> None:
        """Read exactly these partitions, from the offsets given, else the committed ones.

        Raises UsageError after subscribe.
        """
        with self._turn as run:
            run(lambda: self._inner.assign(partitions))

    def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group."""
        with self._turn as run:
            run(self._inner.unsubscribe)

    def assignment(self) -> frozenset[Partition]:
        """The partitions that are this consumer's now."""
        return self._inner.assignment()

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed."""
        return self._inner.subscription()

    def group_metadata(self) -> GroupMetadata:
        """This consumer as a member of its group, for ``Producer.send_offsets_to_transaction``.

        Raises UsageError without a group.
        """
        return self._inner.group_metadata()

    def partitions_for(self, topic: str) -> tuple[Partition, ...]:
        """All partitions of a topic. Raises UsageError if there is no such topic."""
        with self._turn as run:
            return run(lambda: self._inner.partitions_for(topic))

    def poll(self, timeout_s: float = 1.0, max_records: int | None = None) -> Messages:
        """The next records, of one or several partitions; empty if none came within ``timeout_s``.

        At most ``max_records``, by default ``max_poll_records``. Rebalances happen in here, and listeners run.
        Raises what went wrong since the last poll; records before the trouble were returned before.
        """
        with self._turn as run:
            engine = self._inner._engine or run(self._inner._start)
            limit = poll_limit(max_records, engine)
            deadline = self._loop.now() + timeout_s
            engine.partitions.mark_handled()
            serve = engine.needs_service
            # Without the loop as long as something was fetched ahead and there is nothing else to do.
            batch = Messages() if serve else engine.take_ahead(limit)
            while not batch:
                if not run(partial(self._inner._ready, engine, deadline, serve=serve)):
                    return batch
                batch = engine.take(limit)
                serve = False
            self._loop.post(engine.go_on)
            return batch

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue at ``offset``; records fetched already are dropped."""
        with self._turn as run:
            run(lambda: self._inner.seek(partition, offset))

    def seek_to_beginning(self, partitions: Collection[Partition] = ()) -> None:
        """Continue at the first record there is; no partitions means all assigned ones."""
        with self._turn as run:
            run(lambda: self._inner.seek_to_beginning(partitions))

    def seek_to_end(self, partitions: Collection[Partition] = ()) -> None:
        """Continue with records that are not written yet; no partitions means all assigned ones."""
        with self._turn as run:
            run(lambda: self._inner.seek_to_end(partitions))

    def pause(self, partitions: Collection[Partition]) -> None:
        """Return no records of these until ``resume``; what was fetched is kept."""
        with self._turn as run:
            run(lambda: self._inner.pause(partitions))

    def resume(self, partitions: Collection[Partition]) -> None:
        """Undo ``pause``."""
        with self._turn as run:
            run(lambda: self._inner.resume(partitions))

    def paused(self) -> frozenset[Partition]:
        """What ``pause`` holds back."""
        return self._inner.paused()

    def position(self, partition: Partition) -> int:
        """The offset of the next record that poll will return."""
        with self._turn as run:
            return run(lambda: self._inner.position(partition))

    def commit(self, offsets: OffsetsLike | None = None) -> None:
        """Commit a batch, or offsets of the next records to read, or everything that was polled.

        Where the log waits for batches to be confirmed (TubeMQ), a batch is confirmed with its last record.
        Raises FencedError if another process has taken this member's place, ServerError for what the log refuses.
        """
        with self._turn as run:
            run(lambda: self._inner.commit(offsets))

    def commit_async(self, offsets: OffsetsLike | None = None, callback: CommitCallback | None = None) -> None:
        """Commit beside what you do next; ``callback(offsets, error)`` runs in a later poll, commit or close."""
        with self._turn as run:
            run(lambda: self._inner.commit_async(offsets, callback))

    def reject(self, batch: Messages | None = None) -> None:
        """Have these records returned by ``poll`` once more, with all after them; or everything that is not committed.

        Where the log waits for batches to be confirmed (TubeMQ) it is told that they were not dealt with.
        """
        with self._turn as run:
            run(lambda: self._inner.reject(batch))

    def committed(self, partitions: Collection[Partition]) -> Mapping[Partition, Committed | None]:
        """What the group has committed; None where nothing."""
        with self._turn as run:
            return run(lambda: self._inner.committed(partitions))

    def beginning_offsets(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """The first offset of each partition."""
        with self._turn as run:
            return run(lambda: self._inner.beginning_offsets(partitions))

    def end_offsets(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """The offset that the next record written to each partition will get."""
        with self._turn as run:
            return run(lambda: self._inner.end_offsets(partitions))

    def offsets_for_times(self, times_ms: Mapping[Partition, int]) -> Mapping[Partition, FoundOffset | None]:
        """The first record at or after a time (ms since 1970 UTC); None where there is none so young."""
        with self._turn as run:
            return run(lambda: self._inner.offsets_for_times(times_ms))

    def close(self) -> None:
        """Commit if that is automatic, leave the group, hang up. Calling it again does nothing."""
        with self._turn as run:
            run(self._inner.close)
