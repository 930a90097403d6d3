"""Readers that wait: one held fetch a broker tells of all partitions that anybody waits for, in a fetch session.

A broker is asked for a byte of each from its known end on, and holds its answer until there is something, for a quarter
of a second at most: so long a partition may wait for its place in the question where nobody waited for it before. It
keeps that place for two seconds after its last reader has left, because readers come back. What arrives is not kept:
readers read it again, at their own places and in their own size. Source: KIP-227.

What must not live here: what readers do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Final

from penstock._dataclasses import dataclass
from penstock.errors import PenstockError, ServerError, StoreError
from penstock.model import Node, Partition
from penstock.protocols.kafka.client.calls import ByVersion
from penstock.protocols.kafka.client.fetch_sessions import Asked, FetchSession, Key, Place
from penstock.protocols.kafka.client.routing import note_error
from penstock.protocols.kafka.enode.asking import Asking
from penstock.protocols.kafka.errors import NONE, OFFSET_OUT_OF_RANGE, error_for, row
from penstock.protocols.kafka.messages.declare import NO_UUID
from penstock.protocols.kafka.messages.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from penstock.seams.runtime import Promise, Runtime

__all__ = ["Arrivals"]

_LANE: Final = "wait"
_HELD_S: Final = 0.25
_STAYS_S: Final = 2.0
_BETWEEN_S: Final = 0.002
"""Between two questions: where much arrives all the time, nobody need be told of each batch."""
_PAUSE_S: Final = 0.1
_HIGHEST_WITH_NAMES: Final = 12


@dataclass(eq=False, slots=True)
class _Watched:
    """A partition that somebody waits for, or did a moment ago; ``end`` and ``start`` as told last, -1 unknown."""

    end: int
    start: int = -1
    left_s: float = 0.0
    waiting: set[Promise[None]] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class _Watch:
    """What is asked of one broker."""

    node: Node
    parts: dict[Partition, _Watched] = field(default_factory=dict)
    session: FetchSession = field(default_factory=FetchSession)
    idle: Promise[None] | None = None


class Arrivals:
    """One an enode."""

    def __init__(self, asking: Asking, runtime: Runtime) -> None:
        self._asking = asking
        self._cluster = asking.cluster
        self._runtime = runtime
        self._watched: dict[Partition, _Watched] = {}
        self._watches: dict[str, _Watch] = {}
        self._homes: dict[Partition, _Watch] = {}
        self._of: dict[Promise[None], Collection[Partition]] = {}

    def wait(self, known: Mapping[Partition, int]) -> Promise[None]:
        """``penstock.seams.enode.Enode.arrival``."""
        told: Promise[None] = self._runtime.promise()
        self._of[told] = tuple(known)
        for partition, end in known.items():
            watched = self._watched.get(partition)
            if watched is None:
                watched = self._watched[partition] = _Watched(end)
            elif end > watched.end:
                self._wake(watched)  # somebody has seen more than they know
                watched.end = end
            elif end < watched.end:
                self.forget(told)
                told.set(None)
                return told
            watched.waiting.add(told)
            self._place(partition, watched)
        return told

    def forget(self, promise: Promise[None]) -> None:
        """``penstock.seams.enode.Enode.forget_arrival``."""
        now = self._runtime.monotonic()
        for partition in self._of.pop(promise, ()):
            watched = self._watched.get(partition)
            if watched is not None:
                watched.waiting.discard(promise)
                watched.left_s = now

    def _wake(self, watched: _Watched) -> None:
        for promise in tuple(watched.waiting):
            self.forget(promise)
            promise.set(None)

    # Which broker is asked.

    def _place(self, partition: Partition, watched: _Watched) -> None:
        """Have its leader asked, or find out who that is."""
        home = self._homes.get(partition)
        if home is not None:
            if home.idle is not None:
                home.idle.set(None)
            return
        node = self._cluster.leader(partition)
        if node is None:
            self._runtime.spawn(self._find(partition, watched), f"find the leader of {partition}")
        else:
            self._ask_of(node, partition, watched)

    def _ask_of(self, node: Node, partition: Partition, watched: _Watched) -> None:
        watch = self._watches.get(node.name)
        if watch is None or watch.node != node:
            watch = self._watches[node.name] = _Watch(node)
            self._runtime.spawn(self._keep_asking(watch), f"wait for records at {node.endpoint}")
        watch.parts[partition] = watched
        self._homes[partition] = watch
        if watch.idle is not None:
            watch.idle.set(None)

    async def _find(self, partition: Partition, watched: _Watched) -> None:
        while self._watched.get(partition) is watched and partition not in self._homes:
            try:
                node = await self._asking.leader(partition)
            except StoreError:
                self._drop(partition)  # it is gone: readers look themselves
                return
            except PenstockError:
                await self._runtime.sleep(_PAUSE_S)
                continue
            if self._watched.get(partition) is watched and partition not in self._homes:
                self._ask_of(node, partition, watched)

    def _leave(self, partition: Partition) -> None:
        """Its leader is somebody else, perhaps."""
        home, watched = self._homes.pop(partition, None), self._watched.get(partition)
        if home is not None:
            home.parts.pop(partition, None)
        if watched is not None:
            self._runtime.spawn(self._find(partition, watched), f"find the leader of {partition} again")

    def _drop(self, partition: Partition) -> None:
        home, watched = self._homes.pop(partition, None), self._watched.pop(partition, None)
        if home is not None:
            home.parts.pop(partition, None)
        if watched is not None:
            self._wake(watched)

    # Asking one broker.

    async def _keep_asking(self, watch: _Watch) -> None:
        while self._tidied(watch):
            if not any(each.waiting for each in watch.parts.values()):
                await self._rest(watch)
                continue
            try:
                await self._ask(watch)
            except PenstockError as error:
                for partition in tuple(watch.parts):
                    note_error(self._cluster, partition, error)
                    self._leave(partition)
                await self._runtime.sleep(_PAUSE_S)
            else:
                await self._runtime.sleep(_BETWEEN_S)
        if self._watches.get(watch.node.name) is watch:
            del self._watches[watch.node.name]

    def _tidied(self, watch: _Watch) -> bool:
        """Whether anything is left, without what nobody has waited for since a while and what is led by others."""
        now = self._runtime.monotonic()
        for partition, watched in tuple(watch.parts.items()):
            if not watched.waiting and now - watched.left_s > _STAYS_S:
                self._drop(partition)
            elif self._cluster.leader(partition) not in (watch.node, None):
                self._leave(partition)
        return bool(watch.parts)

    async def _rest(self, watch: _Watch) -> None:
        """Until somebody waits, or those that left have been away for long."""
        idle = watch.idle = self._runtime.promise()
        timer = self._runtime.call_later(_STAYS_S, lambda: idle.set(None))
        try:
            await idle
        finally:
            timer.cancel()
            watch.idle = None

    async def _ask(self, watch: _Watch) -> None:
        """One question and its answer. Raises ConnectionLost, RequestTimeout, ServerError."""
        cluster, session = self._cluster, watch.session
        parts = dict(watch.parts)  # others come while a connection is waited for: they are in the next question
        ids = {partition.topic: cluster.topic_id(partition.topic) for partition in parts}
        by_ids = None not in ids.values()
        names: dict[Key, Partition] = {}
        asked: Asked | None = None

        def build(version: int) -> FetchRequest:
            nonlocal asked
            with_ids = version > _HIGHEST_WITH_NAMES
            for partition in parts:
                names[ids[partition.topic] or NO_UUID if with_ids else partition.topic, partition.id] = partition
            places = {key: Place(parts[each].end, -1, -1, 1) for key, each in names.items()}
            asked = session.ask(places, by_ids=with_ids)
            return _request(asked, with_ids)

        try:
            answer = await cluster.calls.call(
                watch.node.endpoint,
                ByVersion(FetchRequest, build, ids=by_ids),
                FetchResponse,
                lane=_LANE,
                held_s=_HELD_S,
            )
        except BaseException:
            if asked is not None:
                session.lost(asked)
            raise
        told: dict[Key, FetchResponsePartition] = {
            (topic.topic or topic.topic_id, each.partition_index): each
            for topic in answer.responses
            for each in topic.partitions
        }
        if asked is not None:
            session.answered(asked, answer.error_code, answer.session_id, told)
        if answer.error_code != NONE and not row(answer.error_code).retriable:
            raise error_for(answer.error_code, "waiting for records failed", node=watch.node.name)
        for key, each in told.items():
            if key in names:
                self._heard(names[key], each)

    def _heard(self, partition: Partition, told: FetchResponsePartition) -> None:
        watched = self._watched.get(partition)
        if watched is None:
            return
        if told.error_code != NONE:
            error = error_for(
                told.error_code, "waiting for records failed", topic=partition.topic, partition=partition.id
            )
            self._refused(partition, watched, error)
            return
        moved = watched.start >= 0 and told.log_start_offset != watched.start
        watched.start = told.log_start_offset
        if told.high_watermark > watched.end or moved:
            watched.end = max(watched.end, told.high_watermark)
            self._wake(watched)

    def _refused(self, partition: Partition, watched: _Watched, error: ServerError) -> None:
        if error.code == OFFSET_OUT_OF_RANGE or not error.retriable:
            self._drop(partition)
        else:
            note_error(self._cluster, partition, error)
            self._leave(partition)


def _request(asked: Asked, by_ids: bool) -> FetchRequest:
    topics: dict[str | bytes, list[FetchRequestPartition]] = {}
    for (name, number), place in asked.named.items():
        part = FetchRequestPartition(partition=number, fetch_offset=place.offset, partition_max_bytes=place.max_bytes)
        topics.setdefault(name, []).append(part)
    forgotten: dict[str | bytes, list[int]] = {}
    for name, number in asked.forgotten:
        forgotten.setdefault(name, []).append(number)
    return FetchRequest(
        max_wait_ms=int(_HELD_S * 1_000),
        min_bytes=1,
        max_bytes=1,
        session_id=asked.session_id,
        session_epoch=asked.epoch,
        topics=[
            FetchRequestTopic(topic=name, partitions=parts)
            if isinstance(name, str)
            else FetchRequestTopic(topic_id=name, partitions=parts)
            for name, parts in topics.items()
        ],
        forgotten_topics_data=[
            FetchRequestForgottenTopic(topic=name, partitions=numbers)
            if isinstance(name, str)
            else FetchRequestForgottenTopic(topic_id=name, partitions=numbers)
            for name, numbers in forgotten.items()
        ],
    )
