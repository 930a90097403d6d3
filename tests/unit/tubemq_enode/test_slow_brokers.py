"""A TubeMQ broker that is slow stores a message once: nobody is invited to send again what it may store yet."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import OutcomeUnknown, PenstockError, UpstreamLost
from penstock.interfaces import Buffers, Frame
from penstock.model import Partition
from penstock.protocols.tubemq.wire import rpc as m
from penstock.protocols.tubemq.wire.rpc import read_call
from penstock.records.scalar_codec import Stored, encode_batch
from tests.unit.tubemq_client.cluster import SILENCE, Cluster, Server, Stage
from tests.unit.tubemq_enode.test_numbers import Around, on_stage, opened

AT = Partition("demo", 0)
SEND = m.SEND_MESSAGE.number


def batch(value: bytes) -> memoryview:
    return encode_batch([Stored(0, 1, True, None, value, ())])


def now() -> float:
    return asyncio.get_running_loop().time()


class Slow(Server):
    """Each message takes it 20 s."""

    async def handle(self, frame: Frame) -> Buffers | None:
        if read_call(frame.body).method == SEND:
            await asyncio.sleep(20)
        return await super().handle(frame)


def test_a_slow_broker_is_waited_for() -> None:
    async def work(s: Stage, around: Around) -> None:
        enode, begun = await opened(around), now()
        (found,) = await enode.append_all([(AT, batch(b"1"))])
        assert not isinstance(found, PenstockError)
        assert now() - begun == pytest.approx(20, abs=0.5)
        assert len(s.cluster.asked(m.SEND_MESSAGE)) == 1
        await enode.close(1)

    on_stage(Cluster({"demo": (1, 1)}), work, server=Slow)


def test_what_is_not_answered_is_not_sent_again_and_what_waits_behind_it_is_given_back() -> None:
    def stores_and_says_nothing(request: object) -> object:
        del request
        return SILENCE

    async def work(s: Stage, around: Around) -> None:
        enode, begun = await opened(around), now()
        first = asyncio.ensure_future(enode.append_all([(AT, batch(b"1"))]))
        await asyncio.sleep(1)
        second = asyncio.ensure_future(enode.append_all([(AT, batch(b"2"))]))
        (found,), (behind,) = await first, await second
        assert isinstance(found, OutcomeUnknown)
        assert isinstance(behind, UpstreamLost)
        assert (found.retriable, behind.retriable) == (False, True)
        assert now() - begun == pytest.approx(25.5, abs=0.6)
        assert len(s.cluster.asked(m.SEND_MESSAGE)) == 1
        await enode.close(1)

    on_stage(Cluster({"demo": (1, 1)}, refuse={SEND: stores_and_says_nothing}), work)
