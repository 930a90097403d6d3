"""Whatever servers answer, the caller gets records or one of our errors, and in finite time."""

from __future__ import annotations

import random
from contextlib import suppress

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.client.ranges.range_reader import RangeRead
from penstock.errors import PenstockError
from penstock.interfaces import Buffers, Frame
from penstock.interfaces.client import ReadFrom, ReadLimits
from penstock.model import Codec, Committed, LogRange, Offset, OffsetSpec, Partition
from penstock.protocols.tubemq.client.sender import TubeSender
from penstock.protocols.tubemq.wire.rpc import frame
from tests.unit.tubemq_client import cluster as model
from tests.unit.tubemq_client.cluster import FIGURES, Cluster, Stage, go, stage

ONE = Partition("demo", 0, "1")


class Liar(model.Server):
    """Changes bytes of its answers, but not of their frames: those would only end the connection."""

    dice = random.Random(0)
    rate = 0.0

    async def handle(self, frame_in: Frame) -> Buffers | None:
        answer = await super().handle(frame_in)
        if answer is None or Liar.dice.random() >= Liar.rate:
            return answer
        whole = bytearray(b"".join(bytes(piece) for piece in answer)[16:])
        for _ in range(Liar.dice.randrange(1, 4)):
            whole[Liar.dice.randrange(len(whole))] = Liar.dice.randrange(256)
        return frame(frame_in.correlation, [bytes(whole)])


async def use(s: Stage) -> None:
    """Everything a client can do, one after the other, whatever became of the one before."""
    client = s.client

    async def read() -> None:
        wanted = RangeRead(client, LogRange("demo", 0, 0, 28 * 6, "1"))
        while await wanted.next() is not None:
            pass

    async def poll() -> None:
        found = (await client.topics(["demo"])).get("demo")
        node = found and found.partitions and found.partitions[0].leader
        if node:
            for fetched in await client.read(node, [ReadFrom(ONE, 0, 1)], ReadLimits(100, 1, 1)):
                fetched.decode()

    async def send() -> None:
        sender = TubeSender(client.shared)
        await sender.open()
        await sender.beat()
        rows = pa.RecordBatch.from_pydict({"value": pa.array([b"a", b"b"], pa.binary())})
        node = client.leader(ONE)
        if node is not None:
            await sender.send(node, [sender.pack(ONE, rows, Codec.NONE)], acks=1, timeout_s=1.0)

    for work in (
        lambda: client.topics(["demo", "nosuch"], fresh=True),
        lambda: client.offsets({ONE: OffsetSpec(name=Offset.LATEST)}),
        read,
        poll,
        lambda: client.commit("stats", {ONE: Committed(28)}),
        lambda: client.committed("stats", [ONE]),
        send,
    ):
        with suppress(PenstockError):
            await work()


@given(st.integers(0, 2**32), st.sampled_from([0.05, 0.3, 1.0]), st.booleans())
def test_answers_that_lie_are_errors_of_ours(seed: int, rate: float, publishing: bool) -> None:
    async def work() -> None:
        filled = Cluster({"demo": (1, 2)})
        for number in range(6):
            filled.put("demo", number % 2, b"%d" % number)
        Liar.dice, Liar.rate = random.Random(seed), rate
        figures = replace(FIGURES, api_timeout_ms=300, short_log_patience_ms=100, publishing=publishing)
        async with stage(filled, figures=figures, server=Liar) as s:
            await use(s)
            Liar.rate = 0.0

    go(work())
