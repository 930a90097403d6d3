"""RocketMQ's requests one by one, in one event loop and without a client: held polls, and pulls of large messages.

All servers (a broker, a Snode, a Proxy) get the same bytes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psutil  # type: ignore[import-untyped]

from penstock.config.address import parse_address
from penstock.interfaces.channel import Connection
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.protocols.rocketmq.wire.framing import RocketDialect, command_of
from penstock.protocols.rocketmq.wire.messages import PullFlag, PullMessage, SendMessage
from penstock.protocols.rocketmq.wire.rpc import PULL_MESSAGE, SEND_MESSAGE_V2, read_answer, request
from tools.peers.rocketmq_frames import BROKER_FACTS, agreed

__all__ = ["CASES", "RawJob"]

HELD_MS = 60_000
PATIENCE_S = 90.0
LOOK_S = 0.2
SETTLE_S = 1.5
"""Wait until all polls have reached the broker, and again after it has processed all of them."""


@dataclass(frozen=True, slots=True)
class RawJob:
    """``count`` polls or messages of ``value_bytes`` to ``server``; ``pids``: the processes whose memory is measured.

    ``broker_port``: the broker's own port, to ask whether all polls are held there.
    """

    server: str
    broker: str
    topic: str
    count: int
    value_bytes: int = 100
    queues: int = 4
    connections: int = 10
    rounds: int = 5
    pids: Sequence[int] = ()
    broker_port: int = 0


def held(job: RawJob) -> dict[str, Any]:
    """Polls of new groups: ms until each ends, and MB by which ``pids`` grow while all are held."""
    return asyncio.run(_held(job))


def pulled(job: RawJob) -> dict[str, Any]:
    """Pulls of single messages: ms of each."""
    return asyncio.run(_pulled(job))


def sent(job: RawJob) -> dict[str, Any]:
    """Fills a queue with messages."""
    return asyncio.run(_sent(job))


CASES = {"held": held, "pulled": pulled, "sent": sent}


async def _held(job: RawJob) -> dict[str, Any]:
    channel = _channel()
    links = [await _connected(channel, job, f"poll-{number}") for number in range(job.connections)]
    sender = await _connected(channel, job, "send")
    ends = {queue: await _send(sender, job, queue) + 1 for queue in range(job.queues)}
    took: list[float] = []
    grown: list[float] = []
    for number in range(job.rounds + 1):  # the groups are new, and a cold broker takes seconds for them
        before = _resident_mb(job.pids)
        waiting = [
            asyncio.ensure_future(_poll(links[row % len(links)], job, f"r{number}g{row}", row % job.queues, ends))
            for row in range(job.count)
        ]
        await asyncio.sleep(SETTLE_S)
        await asyncio.to_thread(_all_lie_there, job)
        await asyncio.sleep(SETTLE_S)
        if early := sum(each.done() for each in waiting):
            raise RuntimeError(f"{early} of {job.count} polls were not held")
        more_mb = _resident_mb(job.pids) - before
        begun = time.perf_counter()
        for queue in ends:
            await _send(sender, job, queue)
        ended = await asyncio.gather(*waiting)
        grown.append(more_mb)
        took += [(when - begun) * 1_000 for when in ended] if number else []
        ends = {queue: end + 1 for queue, end in ends.items()}
    await channel.close()
    return {**_shares(took), "grown_mb": max(grown), "threads": [psutil.Process(pid).num_threads() for pid in job.pids]}


def _all_lie_there(job: RawJob) -> None:
    """Wait until the broker has processed all pulls that it has received. Raises RuntimeError on a timeout."""
    until = time.monotonic() + HELD_MS / 1_000
    while int(agreed(job.broker_port, BROKER_FACTS).table()["table"]["pullThreadPoolQueueSize"]):
        if time.monotonic() > until:
            raise RuntimeError("the broker does not come to an end with the polls that it has got")
        time.sleep(LOOK_S)


async def _pulled(job: RawJob) -> dict[str, Any]:
    channel = _channel()
    link = await _connected(channel, job, "pull")
    took = []
    for offset in range(job.count):
        begun = time.perf_counter()
        frame = await link.call(_pull(job, "raw", 0, offset, PullFlag.INLINE), timeout_s=PATIENCE_S)
        answer = read_answer(PULL_MESSAGE, frame)
        took.append((time.perf_counter() - begun) * 1_000)
        if len(answer.body) < job.value_bytes:
            raise RuntimeError(f"{len(answer.body)} bytes where {job.value_bytes} were sent")
    await channel.close()
    return _shares(took)


async def _sent(job: RawJob) -> dict[str, Any]:
    channel = _channel()
    link = await _connected(channel, job, "send")
    for _ in range(job.count):
        await _send(link, job, 0)
    await channel.close()
    return {"sent": job.count}


def _channel() -> AsyncioChannel[None]:
    return AsyncioChannel(RocketDialect())


async def _connected(channel: AsyncioChannel[None], job: RawJob, lane: str) -> Connection:
    (endpoint,) = parse_address(f"rocketmq://{job.server}").endpoints
    return (await channel.link(endpoint, lane)).connection


async def _poll(link: Connection, job: RawJob, group: str, queue: int, ends: Mapping[int, int]) -> float:
    """Send a poll; returns the time of its end."""
    flags = PullFlag.INLINE | PullFlag.SUSPEND
    frame = await link.call(_pull(job, group, queue, ends[queue], flags), timeout_s=PATIENCE_S, held_s=HELD_MS / 1_000)
    when = time.perf_counter()
    if command_of(frame).code:
        raise RuntimeError(f"a poll ended with {command_of(frame).code}: {command_of(frame).remark}")
    return when


def _pull(job: RawJob, group: str, queue: int, offset: int, flags: PullFlag) -> Any:
    header = PullMessage(
        consumer_group=group,
        topic=job.topic,
        queue_id=queue,
        queue_offset=offset,
        max_msg_nums=1,
        sys_flag=flags,
        suspend_timeout_millis=HELD_MS if flags & PullFlag.SUSPEND else 0,
        subscription="*",
        expression_type="TAG",
        broker_name=job.broker,
    )
    return request(PULL_MESSAGE, header)


async def _send(link: Connection, job: RawJob, queue: int) -> int:
    """Send a message; returns its offset."""
    header = SendMessage(
        producer_group="bench",
        topic=job.topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue,
        sys_flag=0,
        born_timestamp=time.time_ns() // 1_000_000,
        flag=0,
        broker_name=job.broker,
    )
    frame = await link.call(request(SEND_MESSAGE_V2, header, b"x" * job.value_bytes), timeout_s=PATIENCE_S)
    return read_answer(SEND_MESSAGE_V2, frame).header.queue_offset


def _resident_mb(pids: Sequence[int]) -> float:
    return float(sum(psutil.Process(pid).memory_info().rss for pid in pids)) / 1e6


def _shares(took: Sequence[float]) -> dict[str, float]:
    ordered = sorted(took)
    at = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1.0}
    return {name: ordered[min(len(ordered) - 1, int(len(ordered) * share))] for name, share in at.items()}
