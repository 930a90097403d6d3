"""A read that is asked again, in the hands of the thread that waits for its records.

It does what `reading` does on the loop with plain answers, and gives back everything else, as it came. What must not
live here: sockets, and who may receive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.fetched import KafkaFetched
from penstock.protocols.kafka.client.read_replicas import ReadReplicas
from penstock.protocols.kafka.client.still_reads import StillRead
from penstock.protocols.kafka.messages.plain_fetch import read_plain
from penstock.seams.channel import LentConnection
from penstock.seams.client import ReadFrom

__all__ = ["KafkaLentRead"]


class KafkaLentRead:
    """``penstock.seams.lending.LentRead``."""

    __slots__ = ("_cluster", "_lent", "_replicas", "_still", "fileno", "forget")

    def __init__(self, still: StillRead, lent: LentConnection, cluster: Cluster, replicas: ReadReplicas) -> None:
        self._still = still
        self._lent = lent
        self._cluster = cluster
        self._replicas = replicas
        self.fileno = lent.fileno
        self.forget = lent.forget

    @property
    def over(self) -> bool:
        """See `LentRead`."""
        return self._lent.over

    def receive(self) -> Sequence[KafkaFetched] | None:
        """See `LentRead`."""
        frame = self._lent.receive()
        if frame is None:
            return None
        still = self._still
        plain = read_plain(frame.body, still.requests.version)
        if plain is None or still.asked is None:
            self._lent.give_back(frame)
            return None
        return still.answered(plain)

    def ask(self, moved: Sequence[ReadFrom]) -> bool:
        """See `LentRead`."""
        still = self._still
        if still.changes != self._cluster.changes or not self._replicas.quiet:
            return False
        asked = still.ask(moved)
        if asked is None:
            return False
        outgoing = partial(still.requests.framed, asked.epoch, asked.named)
        if self._lent.send(outgoing, timeout_s=still.timeout_s, held_s=still.held_s):
            return True
        still.session.lost(asked)
        return False

    def give_back(self, then: Callable[[], None] | None = None) -> None:
        """See `LentRead`."""
        self._lent.give_back(None, then)

    def break_off(self) -> None:
        """See `LentRead`."""
        self._lent.break_off(self._still.session.in_doubt)
