"""What a data node is asked about topics and their logs: messages in the toy's format, whatever the log keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from penstock.errors import LogOffsetOutOfRange, PenstockError, ProtocolViolation
from penstock.interfaces import Buffer, Promise, Services
from penstock.interfaces.enode import Budget, Fetched, FetchPart, extent
from penstock.model import Codec, Partition
from penstock.records import Producing, decode_v2, encode_v2
from penstock.records.compression import inflate
from tests.toy.dialect import Said
from tests.toy.kernels import checksum
from tests.toy.records import columns_of, encode, unpack_all

Reply = tuple[Said, Buffer]


class LogVerbs:
    """Of one connection. ``changed`` tells the name server that there are other topics, or partitions."""

    def __init__(self, services: Services, changed: Callable[[], Awaitable[None]], *, spoil_sums: bool = False) -> None:
        self._spoil_sums = spoil_sums
        self._enode = services.enode
        self._runtime = services.runtime
        self._changed = changed
        self._parked: set[Promise[None]] = set()
        self.verbs: dict[str, Callable[[Said, memoryview], Awaitable[Reply]]] = {
            "create": self._create,
            "delete": self._delete,
            "grow": self._grow,
            "bounds": self._bounds,
            "write": self._write,
            "pull": self._pull,
        }

    def lost(self) -> None:
        for promise in list(self._parked):
            promise.set(None)

    async def _create(self, said: Said, raw: memoryview) -> Reply:
        if await self._enode.topic(said["topic"]) is None:
            await self._enode.create_topic(said["topic"], said["partitions"], {})
        await self._changed()
        return {}, b""

    async def _delete(self, said: Said, raw: memoryview) -> Reply:
        await self._enode.delete_topic(said["topic"])
        await self._changed()
        return {}, b""

    async def _grow(self, said: Said, raw: memoryview) -> Reply:
        await self._enode.add_partitions(said["topic"], said["partitions"])
        await self._changed()
        return {}, b""

    async def _bounds(self, said: Said, raw: memoryview) -> Reply:
        partition = _partition(said)
        first, end, _, _ = await extent(self._enode, partition)
        if said.get("time") is not None:
            found = await self._enode.offset_for_time(partition, said["time"])
            return {"found": list(found) if found else None}, b""
        return {"first": first, "end": end}, b""

    async def _write(self, said: Said, raw: memoryview) -> Reply:
        """``once``: (who, epoch, number); the same is stored once, however often it comes."""
        messages = list(unpack_all(inflate(Codec(said["codec"]), raw) if said["codec"] else raw))
        if not messages:
            raise ProtocolViolation("a write without messages")
        producing = Producing(*said["once"]) if said.get("once") else Producing()
        batch = encode_v2(columns_of(messages), codec=Codec(said["codec"]), producing=producing)
        appended = await self._enode.append(_partition(said), batch)
        return {"offset": appended.base_offset}, b""

    async def _pull(self, said: Said, raw: memoryview) -> Reply:
        """Of several partitions at once, so that whichever has something ends the wait for all."""
        parts = [
            FetchPart(Partition(topic, number), offset, size, stable=True)
            for topic, number, offset, size in said["from"]
        ]
        found = await self._enode.fetch(parts, Budget())
        idle = {
            part.partition: each.end
            for part, each in zip(parts, found, strict=True)
            if isinstance(each, Fetched) and each.end == part.offset
        }
        if said["wait_ms"] > 0 and len(idle) == len(parts):
            await self._arrival(idle, said["wait_ms"] / 1_000)
            found = await self._enode.fetch(parts, Budget())
        answers = [_answer(part, each) for part, each in zip(parts, found, strict=True)]
        told = [{**said, "size": len(body), "sum": checksum(body) + self._spoil_sums} for said, body in answers]
        return {"found": told}, b"".join(body for _, body in answers)

    async def _arrival(self, known: Mapping[Partition, int], seconds: float) -> None:
        arrival = self._enode.arrival(known)
        timer = self._runtime.call_later(seconds, lambda: arrival.set(None))
        self._parked.add(arrival)
        try:
            await arrival
        finally:
            self._parked.discard(arrival)
            timer.cancel()
            self._enode.forget_arrival(arrival)


def _answer(part: FetchPart, found: Fetched | PenstockError) -> tuple[Said, bytes]:
    """What the log has from there on, as messages; where it lies where the offset is not in it."""
    if isinstance(found, LogOffsetOutOfRange):
        return {"first": found.start_offset, "end": found.end_offset, "next": part.offset}, b""
    if isinstance(found, PenstockError):
        raise found
    decoded = decode_v2(found.read(), start=part.offset, aborted=found.aborted)
    return {"first": found.start, "end": found.end, "next": decoded.next_offset}, encode(decoded.batch)


def _partition(said: Said) -> Partition:
    return Partition(said["topic"], said["partition"])
