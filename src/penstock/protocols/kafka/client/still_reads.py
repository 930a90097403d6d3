"""A read that is asked again: the last one in a node's session, as long as hardly anything has changed since.

The next request is then the last one but for its numbers and the partitions that go on elsewhere, and most answers are
plain. Nothing is looked at for a partition that neither brought something nor goes on elsewhere: a consumer that waits
for records asks for all of them, again and again. What must be looked at is a new place, whose record before may be of
another leader (`truncation`), and whether anything is known anew of the cluster (`Cluster.changes`).

What must not live here: connections, and what is done about an answer that is not plain (`reading`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.fetch_sessions import Asked, FetchSession, Key, Place
from penstock.protocols.kafka.client.fetched import KafkaFetched
from penstock.protocols.kafka.client.lineage import UNKNOWN, Lineage
from penstock.protocols.kafka.client.versions import Versions
from penstock.protocols.kafka.errors import NONE
from penstock.protocols.kafka.messages.plain_fetch import Plain, RequestForm
from penstock.seams.channel import PromptLink
from penstock.seams.client import ReadFrom, ReadLimits

__all__ = ["StillRead"]


class _Still:
    """One partition: what it is called, from where it is read, and which leaders wrote what was seen of it."""

    __slots__ = ("key", "lineage", "place", "read")

    def __init__(self, key: Key, read: ReadFrom, place: Place, lineage: Lineage) -> None:
        self.key = key
        self.read = read
        self.place = place
        self.lineage = lineage


class StillRead:
    """Of one node's session, on one connection. ``changes`` is the cluster's when the first request was composed."""

    __slots__ = (
        "_by_key", "_by_partition", "_options", "asked", "changes", "held_s", "limits", "link", "requests",
        "session", "timeout_s",
    )  # fmt: skip

    def __init__(
        self,
        cluster: Cluster,
        link: PromptLink[Versions],
        session: FetchSession,
        reads: Mapping[Key, tuple[ReadFrom, Place]],
        limits: ReadLimits,
        requests: RequestForm,
        changes: int,
        timeout_s: float,
    ) -> None:
        self._options = cluster.calls.options
        self.session = session
        self._by_key = {
            key: _Still(key, read, place, cluster.lineage(read.partition)) for key, (read, place) in reads.items()
        }
        self._by_partition = {each.read.partition: each for each in self._by_key.values()}
        self.link = link
        self.limits = limits
        self.held_s = limits.max_wait_ms / 1_000
        self.timeout_s = timeout_s
        self.requests = requests
        self.changes = changes
        self.asked: Asked | None = None
        """What is under way."""

    @property
    def keys(self) -> Sequence[Key]:
        """What is read, as requests of this version call it."""
        return tuple(self._by_key)

    @property
    def reads(self) -> Sequence[ReadFrom]:
        """All that is read, from where it is now."""
        return tuple(each.read for each in self._by_key.values())

    def ask(self, moved: Sequence[ReadFrom]) -> Asked | None:
        """The next request; None where more has to be looked at."""
        named: dict[Key, Place] = {}
        for read in moved:
            each = self._by_partition.get(read.partition)
            if each is None:
                return None
            epoch = each.lineage.epoch_before(read.offset)
            told = each.place.leader_epoch
            if epoch not in (UNKNOWN, told):
                return None  # its leader may have to be asked first whether it has the same past
            each.read = read
            each.place = named[each.key] = Place(read.offset, told, epoch, read.max_bytes)
        asked = self.asked = self.session.ask_again(named)
        return asked

    def answered(self, plain: Plain) -> list[KafkaFetched]:
        """What came."""
        asked, self.asked = self.asked, None
        assert asked is not None
        session_id, parts = plain
        self.session.answered(asked, NONE, session_id, parts)
        found: list[KafkaFetched] = []
        for key, part in parts.items():
            each = self._by_key.get(key)
            if each is not None:
                fetched = KafkaFetched(each.read, part, None, self._options)
                for stretch in fetched.stretches:
                    if stretch.epoch >= 0:
                        each.lineage.saw(stretch)
                found.append(fetched)
        return found
