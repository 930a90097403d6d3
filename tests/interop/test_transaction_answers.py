"""Request by request, right ones and wrong ones: our node answers a transactional producer as a real broker does."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.client import Admin
from penstock.interfaces import NewTopic
from penstock.protocols.kafka.wire.offsets import FindCoordinatorRequest
from penstock.testing import Broker
from tests.interop.wire import Wire, told, wired
from tests.unit.kafka_front.transaction_kit import FIRST, SECOND, Writer, committed_offset, fetch
from tools.peers import kafka

pytestmark = pytest.mark.interop

Told = list[tuple[str, object]]
KNOWN = {
    # 3.9 looks at the sequence first.
    ("3.9.2", FIRST, "produce under an epoch of the future"): (45, 47),
    # The log of the partition, which fences the producer, is asked before the coordinator there, and after it here.
    ("4.3.1", FIRST, "produce as an id that nobody has"): (47, 49),
    ("4.3.1", SECOND, "produce as an id that nobody has"): (47, 49),
    ("4.4.0", FIRST, "produce as an id that nobody has"): (47, 49),
    ("4.4.0", SECOND, "produce as an id that nobody has"): (47, 49),
}
"""Where ours differs: (theirs, ours)."""


class Scenario:
    """Everything is asked of one transactional id; ``found`` has each answer by its name."""

    def __init__(self, wire: Wire, topic: str, version: int) -> None:
        self.wire, self.topic, self.version = wire, topic, version
        self.name = f"tx-{uuid.uuid4().hex[:8]}"
        self.group = f"g-{self.name}"
        self.writer = Writer(wire, self.name, version)
        self.found: Told = []

    async def note(self, what: str, ask: Callable[[], Awaitable[Any]]) -> None:
        self.found.append((what, await told(ask)))

    async def run(self) -> Told:
        for key, kind in ((self.name, 1), (self.group, 0)):
            await told(lambda key=key, kind=kind: self._coordinator(key, kind))  # type: ignore[misc]
        await self.beginning()
        await self.within()
        await self.offsets()
        await self.ends()
        await self.epochs()
        await self.fenced()
        return self.found

    async def _coordinator(self, key: str, kind: int) -> int:
        answer = await self.wire.ask(FindCoordinatorRequest(coordinator_keys=[key], key_type=kind), 4)
        return int(answer.coordinators[0].error_code)

    async def beginning(self) -> None:
        writer, topic = self.writer, self.topic
        await self.note("no time at all", lambda: writer.init(timeout_ms=0))
        await self.note("too much time", lambda: writer.init(timeout_ms=10**8))
        await self.note("an empty id", lambda: Writer(self.wire, "", self.version).init())
        await self.note("init", writer.init)
        await self.note("commit nothing", lambda: writer.end(commit=True))
        await self.note("abort nothing", lambda: writer.end(commit=False))
        self.found.append(("epoch", writer.epoch))
        if self.version == FIRST:
            await self.note("produce before adding", lambda: writer.produce(topic, b"x"))
            await self.note("the same in an old version", lambda: writer.produce(topic, b"x", version=10))
        await self.note("add what there is not", lambda: writer.add((topic, 77)))
        await self.note("add all or nothing", self._add_both)

    async def _add_both(self) -> list[int]:
        return sorted(await self.writer.add((self.topic, 0), ("no-such-topic", 0)))

    async def within(self) -> None:
        writer, topic = self.writer, self.topic
        await self.note("write", lambda: writer.write(topic, b"a"))
        await self.note("a plain batch", lambda: writer.produce(topic, b"p", attributes=0))
        producer_id, epoch = writer.producer_id, writer.epoch
        for name, wrong in (("of the future", epoch + 1), ("of the past", epoch - 1)):
            writer.epoch = wrong
            await self.note(f"produce under an epoch {name}", lambda: writer.produce(topic, b"f"))
            await self.note(f"end under an epoch {name}", lambda: writer.end(commit=True))
            await self.note(f"add under an epoch {name}", lambda: writer.add((topic, 0)))
        writer.producer_id, writer.epoch = producer_id + 999, epoch
        await self.note("produce as another", lambda: writer.produce(topic, b"q", partition=1))
        await self.note("end as another", lambda: writer.end(commit=True))
        await self.note("add as another", lambda: writer.add((topic, 0)))
        writer.producer_id = producer_id

    async def offsets(self) -> None:
        writer, group = self.writer, self.group
        member = {"generation_id": 3, "member_id": "m"}
        await self.note("offsets", lambda: writer.commit_offsets(group, self.topic, 5))
        await self.note("offsets of a lost group", lambda: writer.commit_offsets(f"{group}2", self.topic, 5, **member))
        await self.note("offsets of a stranger", lambda: writer.commit_offsets(group, self.topic, 5, **member))
        await self.note("offsets of no topic", lambda: writer.commit_offsets(group, "no-such-topic", 5))
        self.found.append(("undecided", await committed_offset(self.wire, group, self.topic)))
        self.found.append(("unasked", await committed_offset(self.wire, group, self.topic, stable=False)))
        part = await fetch(self.wire, self.topic)
        self.found.append(("open", (part.high_watermark - part.last_stable_offset, list(part.aborted_transactions))))

    async def ends(self) -> None:
        writer = self.writer
        before = writer.epoch
        await self.note("commit", lambda: writer.end(commit=True))
        now = writer.epoch
        for name, epoch in (("again", before), ("anew", now)):
            for commit in (True, False):
                writer.epoch = epoch
                await self.note(f"{'commit' if commit else 'abort'} {name}", lambda c=commit: writer.end(commit=c))  # type: ignore[misc]
        self.found.append(("epochs", (now - before, writer.epoch - before)))
        self.found.append(("committed", await committed_offset(self.wire, self.group, self.topic)))

    async def epochs(self) -> None:
        writer = self.writer
        before = writer.epoch
        await self.note("raise the epoch", lambda: writer.init(known=True))
        writer.epoch = before
        await self.note("raise it again", lambda: writer.init(known=True))
        self.found.append(("raised", writer.epoch - before))
        other = Writer(self.wire, self.name, self.version)
        for name, identity in (("older", (writer.producer_id, before - 1)), ("other", (writer.producer_id + 5, 0))):
            other.producer_id, other.epoch = identity
            await self.note(f"raise it as {name}", lambda: other.init(known=True))
        writer.sequences.clear()

    async def fenced(self) -> None:
        writer, topic = self.writer, self.topic
        await self.note("write once more", lambda: writer.write(topic, b"b"))
        new = Writer(self.wire, self.name, self.version)
        await self.note("take over", new.init)
        self.found.append(("taken", new.epoch - writer.epoch))
        await self.note("produce fenced", lambda: writer.produce(topic, b"z"))
        await self.note("commit fenced", lambda: writer.end(commit=True))
        await self.note("abort fenced", lambda: writer.end(commit=False))
        await self.note("raise fenced", lambda: writer.init(known=True))
        await self.note("offsets fenced", lambda: writer.commit_offsets(self.group, topic, 5))
        nobody = Writer(self.wire, f"nobody-{self.name}", self.version)
        nobody.producer_id, nobody.epoch = writer.producer_id, writer.epoch
        await self.note("end as an id that nobody has", lambda: nobody.end(commit=True))
        await self.note("produce as an id that nobody has", lambda: nobody.produce(topic, b"1"))
        await self.note("raise as an id that nobody has", lambda: nobody.init(known=True))


def answers(bootstrap: str, version: int) -> Told:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    with Admin(f"kafka://{bootstrap}") as admin:
        admin.create_topics([NewTopic(topic, 2, 1)])

    async def main() -> Told:
        async with wired(bootstrap) as wire:
            return await Scenario(wire, topic, version).run()

    return asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("version", [FIRST, SECOND])
def test_our_node_answers_as_a_real_broker(any_kafka: kafka.Broker, broker: Broker, version: int) -> None:
    if version == SECOND and any_kafka.version.startswith("3."):
        pytest.skip("3.9 knows the first version of transactions only")
    theirs, ours = answers(any_kafka.bootstrap, version), answers(broker.bootstrap, version)
    assert [what for what, _ in theirs] == [what for what, _ in ours]
    differing = {
        (any_kafka.version, version, what): (their, our)
        for (what, their), (_, our) in zip(theirs, ours, strict=True)
        if their != our
    }
    assert differing == {key: told for key, told in KNOWN.items() if key[:2] == (any_kafka.version, version)}
