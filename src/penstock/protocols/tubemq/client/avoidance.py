"""Avoidance: which brokers and partitions a producer leaves alone for a while, and why. A pure table with the clock
passed in.

| what happened | what is left alone | for how long |
| --- | --- | --- |
| a broker says that it is unavailable (503) | the broker | ``unavailable_broker_ms`` |
| a broker cannot be reached, or does not answer in time | the broker | 3 s, and anew with each attempt |
| ``link_max_failures`` messages to a broker failed within ``link_stats_duration_ms``, and of all that went there more
  than a share of ``link_max_forbidden_rate`` | the broker, if not too many are | ``link_forbidden_duration_ms`` |
| more than three messages to a partition failed in a row | the partition | 3 s |

"Too many" is a share of ``max_sent_forbidden_rate`` of the brokers that were sent to, judged at most every
``max_forbidden_check_ms``: a producer whose own network is bad must not give up all of them.
Source: Apache InLong TubeMQ 2.x, ``RpcServiceFactory`` and ``DefaultBrokerRcvQltyStats``, and their documentation.
"""

from __future__ import annotations

from penstock._dataclasses import dataclass
from penstock.model import Partition
from penstock.protocols.tubemq.config.options import TubeConfig

__all__ = ["Avoidance"]

_MOST_ERRORS_IN_A_ROW = 3
_PARTITION_PAUSE_S = 3.0
_UNREACHABLE_S = 3.0


@dataclass(slots=True)
class _Link:
    """What was sent to one broker since ``begun``."""

    begun: float
    sent: int = 0
    failed: int = 0


class Avoidance:
    """One producer's. Times are seconds of a clock that never goes back."""

    def __init__(self, options: TubeConfig) -> None:
        self._options = options
        self._links: dict[str, _Link] = {}
        self._brokers_until: dict[str, float] = {}
        self._forbidden: dict[str, float] = {}
        self._partitions_until: dict[Partition, float] = {}
        self._errors: dict[Partition, int] = {}
        self._checked = -1e9

    def avoids(self, partition: Partition, now: float) -> bool:
        """Whether it is better to send elsewhere now."""
        return (
            now < self._brokers_until.get(partition.node, now)
            or now < self._forbidden.get(partition.node, now)
            or now < self._partitions_until.get(partition, now)
        )

    def stored(self, partition: Partition, now: float) -> None:
        """A message was stored."""
        self._errors.pop(partition, None)
        self._count(partition.node, now, failed=0)

    def failed(self, partition: Partition, now: float) -> None:
        """A message was refused, or nothing was heard of it."""
        errors = self._errors[partition] = self._errors.get(partition, 0) + 1
        if errors > _MOST_ERRORS_IN_A_ROW:
            self._partitions_until[partition] = now + _PARTITION_PAUSE_S
            del self._errors[partition]
        self._count(partition.node, now, failed=1)
        self._judge(now)

    def unavailable(self, broker: str, now: float) -> None:
        """A broker said that it takes no messages."""
        self._brokers_until[broker] = now + self._options.unavailable_broker_ms / 1_000

    def unreachable(self, broker: str, now: float) -> None:
        """Nothing was heard of a broker."""
        self._brokers_until[broker] = max(self._brokers_until.get(broker, 0.0), now + _UNREACHABLE_S)

    def _count(self, broker: str, now: float, *, failed: int) -> None:
        link = self._links.get(broker)
        if link is None or now - link.begun > self._options.link_stats_duration_ms / 1_000:
            link = self._links[broker] = _Link(now)
        link.sent += 1
        link.failed += failed

    def _judge(self, now: float) -> None:
        """Leave the worst links alone, as many as is allowed."""
        if now - self._checked < self._options.max_forbidden_check_ms / 1_000:
            return
        bad = [
            broker
            for broker, link in self._links.items()
            if link.failed >= self._options.link_max_failures
            and link.failed > self._options.link_max_forbidden_rate * link.sent
        ]
        if not bad:
            return
        self._checked = now
        self._forbidden = {broker: until for broker, until in self._forbidden.items() if now < until}
        room = int(self._options.max_sent_forbidden_rate * len(self._links)) - len(self._forbidden)
        bad.sort(key=lambda broker: -self._links[broker].failed / self._links[broker].sent)
        for broker in [each for each in bad if each not in self._forbidden][: max(room, 0)]:
            self._forbidden[broker] = now + self._options.link_forbidden_duration_ms / 1_000
            del self._links[broker]
