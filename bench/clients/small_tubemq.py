"""TubeMQ with one message at a time: ours, and TubeMQ's own Java client (tools/peers/java/tubemq/Small), both warm.

After a response without messages both wait `NOT_FOUND_MS` before the next request. The latency depends on that, since
servers do not hold a request until a message arrives.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from bench.children import READY
from bench.clients.small_jvm import measured
from bench.clients.small_reading import SILENCE_S, WARM_SHARE, Seen
from bench.clients.small_writing import FLYING
from bench.clients.writing import Instant
from tools.peers import tubemq_java

if TYPE_CHECKING:
    from penstock import Consumer

__all__ = ["CASES", "FLIGHTS", "PACE", "READERS", "SENDERS", "SmallTubeJob"]

NOT_FOUND_MS: Final = 10
"""The minimum in our client; the default of all clients is 400."""


@dataclass(frozen=True, slots=True)
class SmallTubeJob:
    """``count`` messages after the warm-up, sent to or read from ``topic``; ``rate`` is in messages per second."""

    masters: str
    topic: str
    count: int
    warm: int
    value_bytes: int = 100
    rate: int = 0

    @property
    def address(self) -> str:
        """The address for our clients."""
        return f"tubemq://{self.masters}"


Case = Callable[[SmallTubeJob], Mapping[str, object]]


def send_and_wait(job: SmallTubeJob) -> Mapping[str, object]:
    """``Producer.send().result()``."""
    from penstock import Producer

    value = b"x" * job.value_bytes
    with Producer(job.address, linger_ms=0) as producer:
        for _ in range(job.warm):
            producer.send(job.topic, value=value).result()
        begun = Instant.now()
        for _ in range(job.count):
            producer.send(job.topic, value=value).result()
        return asdict(begun.passed())


def flying(job: SmallTubeJob) -> Mapping[str, object]:
    """A hundred deliveries open at any time."""
    from penstock import Producer

    value = b"x" * job.value_bytes
    with Producer(job.address, linger_ms=0) as producer:
        for _ in range(job.warm):
            producer.send(job.topic, value=value).result()
        begun = Instant.now()
        waiting = deque([producer.send(job.topic, value=value) for _ in range(FLYING)])
        for _ in range(job.count - FLYING):
            waiting.popleft().result()
            waiting.append(producer.send(job.topic, value=value))
        for delivery in waiting:
            delivery.result()
        return asdict(begun.passed())


def assigned(job: SmallTubeJob) -> Mapping[str, object]:
    """``for message in batch`` of ``poll``, without a group."""
    from penstock import Consumer

    with Consumer(f"{job.address}?not_found_wait_ms={NOT_FOUND_MS}") as consumer:
        consumer.assign(dict.fromkeys(consumer.partitions_for(job.topic), 0))
        return _followed(job, consumer, commit=False)


def member(job: SmallTubeJob) -> Mapping[str, object]:
    """The only member of a server-balanced group, which confirms every batch locally, as its rival does."""
    from penstock import Consumer

    options = "auto_offset_reset=earliest&heartbeat_interval_ms=1000&confirm_locally=true"
    address = f"{job.address}/{job.topic}?{options}&not_found_wait_ms={NOT_FOUND_MS}"
    with Consumer(address, group=f"small{time.time_ns()}") as consumer:
        return _followed(job, consumer, commit=True)


def _followed(job: SmallTubeJob, consumer: Consumer, *, commit: bool) -> Mapping[str, object]:
    seen = Seen(job.warm + job.count, counted=int(job.count * (1 - WARM_SHARE)))
    print(READY, flush=True)
    while batch := consumer.poll(SILENCE_S):
        for message in batch:
            if seen.add(message.value or b""):
                return seen.result()
        if commit:
            consumer.commit(batch)
    raise TimeoutError(f"{len(seen.latencies)} came")


def _java(kind: str) -> Case:
    def run(job: SmallTubeJob) -> Mapping[str, object]:
        options = {
            "kind": kind,
            "masters": job.masters,
            "topic": job.topic,
            "count": job.count,
            "warm": job.warm,
            "size": job.value_bytes,
            "rate": job.rate,
            "not-found": NOT_FOUND_MS,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        line = tubemq_java.command("Small", words, heap="512m", quick=False, flags=["-Dpeer.level=error"])
        return measured(line, ready=lambda: print(READY, flush=True))

    return run


PACE: Final = "pace"
SENDERS: Mapping[str, Case] = {"penstock Producer": send_and_wait, "Java": _java("send")}
FLIGHTS: Mapping[str, Case] = {"penstock Producer": flying, "Java": _java("flying")}
READERS: Mapping[str, Case] = {
    "penstock Consumer, group": member,
    "penstock Consumer, assigned": assigned,
    "Java pull (server-balanced)": _java("pull"),
    "Java balance (client-balanced)": _java("balance"),
}
CASES: Mapping[str, Mapping[str, Case]] = {
    "send and wait": SENDERS,
    "a hundred in flight": FLIGHTS,
    "read": READERS,
    PACE: {PACE: _java("pace")},
}
"""Cases by work, then by client. For all clients, Java's producer writes the messages to be read."""
