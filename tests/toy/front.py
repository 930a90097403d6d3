"""The toy's server side, over the node's services: unordered answers, pushed events, a long poll."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from penstock.errors import PenstockError, ProtocolViolation
from penstock.model import Committed, Partition
from penstock.seams import Buffer, Buffers, FetchPart, Frame, Peer, Promise, Services, extent, fetch_one
from penstock.store.errors import LogOffsetOutOfRange
from tests.toy.framing import ANSWER, EVENT, REQUEST, ToyFraming, pack, unpack
from tests.toy.master import Key, Master, Member

Said = dict[str, Any]
Reply = tuple[Said, Buffer]


class ToyFront:
    scheme = "toy"

    def __init__(self, services: Services) -> None:
        self.services = services
        self.masters: dict[str, Master] = {}

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    def session(self, peer: Peer) -> ToySession:
        return ToySession(self, peer)


class ToySession:
    ordered = False

    def __init__(self, front: ToyFront, peer: Peer) -> None:
        self._front = front
        self._enode = front.services.enode
        self._peer = peer
        self._joined: list[tuple[str, str]] = []
        self._mine: list[Member] = []
        self._parked: set[Promise[None]] = set()
        self._verbs: dict[str, Callable[[Said, memoryview], Awaitable[Reply]]] = {
            "topics": self._topics,
            "create": self._create,
            "bounds": self._bounds,
            "write": self._write,
            "read": self._read,
            "join": self._join,
            "leave": self._leave,
            "released": self._released,
            "commit": self._commit,
            "committed": self._committed,
            "delete": self._delete,
            "grow": self._grow,
            "groups": self._groups,
            "forget": self._forget,
        }

    def framing(self) -> ToyFraming:
        return ToyFraming()

    async def handle(self, frame: Frame) -> Buffers | None:
        said, raw = unpack(frame)
        verb = self._verbs.get(str(said.get("do")))
        if verb is None:
            raise ProtocolViolation(f"the toy has no verb {said.get('do')!r}")
        try:
            answer, body = await verb(said, raw)
        except PenstockError as error:
            answer, body = {"error": type(error).__name__, "text": str(error)}, b""
        return pack(ANSWER, frame.correlation, answer, body)

    def lost(self) -> None:
        for promise in list(self._parked):
            promise.set(None)
        for group, member in self._joined:
            if self._front.masters.get(group, Master()).members.get(member) in self._mine:
                self._front.masters[group].leave(member)

    async def _topics(self, said: Said, raw: memoryview) -> Reply:
        return {"topics": {topic.name: topic.partitions for topic in await self._enode.topics()}}, b""

    async def _create(self, said: Said, raw: memoryview) -> Reply:
        if await self._enode.topic(said["topic"]) is None:
            await self._enode.create_topic(said["topic"], said["partitions"], {})
        return {}, b""

    async def _bounds(self, said: Said, raw: memoryview) -> Reply:
        partition = _partition(said)
        first, end, _, _ = await extent(self._enode, partition)
        if said.get("time") is not None:
            found = await self._enode.offset_for_time(partition, said["time"])
            return {"found": list(found) if found else None}, b""
        return {"first": first, "end": end}, b""

    async def _write(self, said: Said, raw: memoryview) -> Reply:
        appended = await self._enode.append(_partition(said), bytearray(raw))
        return {"offset": appended.base_offset}, b""

    async def _read(self, said: Said, raw: memoryview) -> Reply:
        partition = _partition(said)
        end = (await extent(self._enode, partition)).end
        if end <= said["offset"] and said["wait_ms"] > 0:
            arrival = self._enode.arrival({partition: end})
            timer = self._front.services.runtime.call_later(said["wait_ms"] / 1000, lambda: arrival.set(None))
            self._parked.add(arrival)
            await arrival
            self._parked.discard(arrival)
            timer.cancel()
            self._enode.forget_arrival(arrival)
        try:
            found = await fetch_one(self._enode, FetchPart(partition, said["offset"], said["bytes"]))
        except LogOffsetOutOfRange as error:
            return {"first": error.start_offset, "end": error.end_offset}, b""
        return {"first": found.start, "end": found.end}, found.read()

    async def _join(self, said: Said, raw: memoryview) -> Reply:
        group, member = said["group"], said["member"]
        master = self._front.masters.setdefault(group, Master())
        self._joined.append((group, member))
        wanted = [
            (topic.name, number)
            for topic in await self._enode.topics()
            if topic.name in said["topics"]
            for number in range(topic.partitions)
        ]

        def tell(event: str, keys: list[Key]) -> None:
            self._peer.push(pack(EVENT, 0, {"event": event, "group": group, "keys": keys}))

        before = next((name for name, other in master.members.items() if other.instance == said["instance"]), None)
        if said["instance"] and before not in (None, member):
            master.members[str(before)].tell("fenced", [])
            master.leave(str(before))
        self._mine.append(master.join(member, tell, wanted, said["instance"]))
        return {}, b""

    async def _leave(self, said: Said, raw: memoryview) -> Reply:
        if said["group"] in self._front.masters:
            self._front.masters[said["group"]].leave(said["member"])
        return {}, b""

    async def _released(self, said: Said, raw: memoryview) -> Reply:
        self._front.masters[said["group"]].released(said["member"], [(t, p) for t, p in said["keys"]])
        return {}, b""

    async def _commit(self, said: Said, raw: memoryview) -> Reply:
        offsets = {Partition(topic, number): Committed(offset) for topic, number, offset in said["offsets"]}
        await self._front.services.offsets.commit(said["group"], offsets)
        return {}, b""

    async def _delete(self, said: Said, raw: memoryview) -> Reply:
        await self._enode.delete_topic(said["topic"])
        return {}, b""

    async def _grow(self, said: Said, raw: memoryview) -> Reply:
        await self._enode.add_partitions(said["topic"], said["partitions"])
        return {}, b""

    async def _groups(self, said: Said, raw: memoryview) -> Reply:
        known: dict[str, list[Any]] = {group: [] for group in self._front.services.offsets.groups()} | {
            group: [[name, sorted(member.owns)] for name, member in master.members.items()]
            for group, master in self._front.masters.items()
        }
        return {"groups": known}, b""

    async def _forget(self, said: Said, raw: memoryview) -> Reply:
        group = said["group"]
        await self._front.services.offsets.forget(group, list(self._front.services.offsets.committed(group)))
        self._front.masters.pop(group, None)
        return {}, b""

    async def _committed(self, said: Said, raw: memoryview) -> Reply:
        found = self._front.services.offsets.committed(said["group"])
        return {"offsets": [[at.topic, at.id, kept.offset] for at, kept in found.items()]}, b""


def _partition(said: Said) -> Partition:
    return Partition(said["topic"], said["partition"])


__all__ = ["REQUEST", "ToyFront"]
