"""A thousand long polls of groups that no broker has heard of, held at once through one Snode over a real broker."""

from __future__ import annotations

import asyncio
import time
import urllib.request

import psutil
import pytest

from tests.chaos.snode_process import SnodeProcess
from tests.eventually import comes_to
from tests.interop.peers.rocketmq_fixtures import RocketMQ
from tests.interop.rocketmq.held_polls import HeldPolls, share
from tools.peers import jvm, rocketmq
from tools.peers.rocketmq_frames import BROKER_FACTS, agreed

pytestmark = [pytest.mark.interop, pytest.mark.long]

POLLS = 1_000
ROUNDS = 5
WITHIN_S = 60.0
KB_EACH = 30.0
MB_MORE = 4.0
"""What the allocator may keep of five thousand polls more than of the first thousand."""


class Looks:
    """At the node and its broker, from outside."""

    def __init__(self, cluster: rocketmq.Cluster, snode: SnodeProcess, ops: int) -> None:
        self._broker = cluster.broker.port
        self._process = psutil.Process(snode.pid)
        self._ops = ops

    @property
    def resident_mb(self) -> float:
        return float(self._process.memory_info().rss) / 1e6

    @property
    def threads(self) -> int:
        return int(self._process.num_threads())

    def held(self) -> int:
        """As the node's own page says."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._ops}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return int(float(next(line for line in lines if line.startswith("penstock_held_requests{")).split()[-1]))

    def lie_there(self, count: int) -> None:
        """The node holds so many, and the broker has looked at all of them."""
        comes_to(self.held, count, WITHIN_S)
        comes_to(lambda: agreed(self._broker, BROKER_FACTS).table()["table"]["pullThreadPoolQueueSize"], "0", WITHIN_S)


async def one_round(polls: HeldPolls, looks: Looks, number: int) -> tuple[float, int, list[float]]:
    """MB that the node has while all are held, its threads, and the ms from a send to each poll's end."""
    offset = await polls.send() + 1
    waiting = polls.hold([f"never-seen-{number}-{row}" for row in range(POLLS)], offset)
    await asyncio.to_thread(looks.lie_there, POLLS)
    assert not any(each.done() for each in waiting)
    there = looks.resident_mb, looks.threads
    begun = time.perf_counter()
    assert await polls.send() == offset
    answers = await asyncio.wait_for(asyncio.gather(*waiting), WITHIN_S)
    assert {(code, fields["nextBeginOffset"]) for code, fields, _ in answers} == {(0, str(offset + 1))}
    await asyncio.to_thread(comes_to, looks.held, 0)
    return (*there, [(when - begun) * 1_000 for _, _, when in answers])


@pytest.mark.parametrize("version", rocketmq.VERSIONS)
def test_a_thousand_polls_take_little_memory_and_no_thread_and_all_wake(
    version: str, rocketmq_own: RocketMQ, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = rocketmq_own(version)
    cluster.create_topic("t", 1)
    port, ops = jvm.free_ports(2)
    where = (f"rocketmq://{cluster.address}", f"rocketmq://127.0.0.1:{port}")
    with SnodeProcess(*where, "--metrics", f"http://127.0.0.1:{ops}") as snode:
        looks = Looks(cluster, snode, ops)
        told = asyncio.run(rounds(HeldPolls(port, "broker-1", "t"), looks))
    with capsys.disabled():
        print(f"\n{version}: {told}")


async def rounds(polls: HeldPolls, looks: Looks) -> str:
    """What was measured, as one line."""
    await polls.open()
    try:
        offset = await polls.send() + 1
        first = polls.hold([f"first-{row}" for row in range(10)], offset)  # every connection and every way, once
        await asyncio.to_thread(looks.lie_there, 10)
        await polls.send()
        await asyncio.gather(*first)
        begun_mb, begun_threads = looks.resident_mb, looks.threads
        after_mb: list[float] = []
        woken: list[float] = []
        for number in range(ROUNDS):
            held_mb, threads, took = await one_round(polls, looks, number)
            if not number:
                each_kb = (held_mb - begun_mb) * 1_000 / POLLS
            assert threads == begun_threads
            after_mb.append(looks.resident_mb)
            woken += took
        assert each_kb < KB_EACH
        assert max(after_mb[1:]) - after_mb[0] < MB_MORE, after_mb
        return (
            f"{POLLS} polls held: {each_kb:.1f} KB each, {begun_threads} threads before and while, "
            f"woken after p50 {share(woken, 0.5):.0f} ms, p99 {share(woken, 0.99):.0f} ms; "
            f"MB before {begun_mb:.1f}, after each round {', '.join(f'{each:.1f}' for each in after_mb)}"
        )
    finally:
        await polls.close()
