"""Our consumer as a member of a group in a thread of its own, watched as the Java drivers are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from penstock import Consumer, Partition, Record

WITHIN_S = 60.0


class Ours:
    """Polls, notes and commits until it is stopped. ``records`` and ``holding`` grow and change while you look."""

    def __init__(self, address: str, group: str, *, commit: bool, at: Mapping[Partition, int] | None) -> None:
        self._address, self._group, self._commit, self._at = address, group, commit, at
        self.records: list[Record] = []
        self.holding: list[str] = []
        self.error: BaseException | None = None
        self._news = threading.Condition()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"member of {group}")

    @property
    def bodies(self) -> list[bytes | None]:
        """Values in the order they came."""
        with self._news:
            return [record.value for record in self.records]

    def wait(self, what: Callable[[Ours], object], timeout_s: float = WITHIN_S) -> None:
        """Until ``what(self)`` is true. Raises what the consumer raised, or TimeoutError."""
        with self._news:
            done = self._news.wait_for(lambda: what(self) or self.error, timeout_s)
            if self.error is not None:
                raise self.error
            if not done:
                raise TimeoutError(f"{len(self.records)} records, holding {self.holding}")

    def wait_messages(self, count: int) -> list[bytes | None]:
        """The values, once there are so many."""
        self.wait(lambda ours: len(ours.records) >= count)
        return self.bodies

    def wait_holding(self, count: int) -> list[str]:
        """Keys (broker:topic:partition) of what it holds, once these are so many."""
        self.wait(lambda ours: len(ours.holding) == count)
        return self.holding

    def start(self) -> None:
        """Join the group."""
        self._thread.start()

    def abandon(self, error: BaseException) -> None:
        """Leave because the test failed."""
        self.error = self.error or error
        self._over.set()
        self._thread.join(WITHIN_S)

    def stop(self) -> None:
        """Leave in order. Raises what the consumer raised."""
        self._over.set()
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            with Consumer(self._address, group=self._group) as consumer:
                if self._at is not None:
                    consumer.assign(self._at)
                while not self._over.is_set():
                    batch = consumer.poll(0.1)
                    with self._news:
                        self.records += batch
                        self.holding = sorted(f"{each.node}:{each.topic}:{each.id}" for each in consumer.assignment())
                        self._news.notify_all()
                    if batch and self._commit:
                        consumer.commit(batch)
        except BaseException as error:  # whoever waits is told
            with self._news:
                self.error = error
                self._news.notify_all()


@contextmanager
def ours(
    address: str,
    group: str,
    topic: str = "",
    *,
    at: Mapping[Partition, int] | None = None,
    commit: bool = True,
    **options: object,
) -> Iterator[Ours]:
    """A member of ``group`` that reads ``topic``, or what ``at`` says, until the block ends. Options of an address."""
    fixed = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 1_000}
    query = "&".join(f"{name}={value}" for name, value in {**fixed, **options}.items())
    member = Ours(f"{address}/{topic}?{query}", group, commit=commit, at=at)
    member.start()
    try:
        yield member
    except BaseException as error:
        member.abandon(error)
        raise
    member.stop()
