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
from penstock.protocols.kafka.client.fetch_form import FetchForm
from penstock.protocols.kafka.client.fetch_sessions import Asked, FetchSession, Key, Place
from penstock.protocols.kafka.client.fetched import KafkaFetched
from penstock.protocols.kafka.client.lineage import UNKNOWN
from penstock.protocols.kafka.client.versions import Versions
from penstock.protocols.kafka.errors import NONE
from penstock.protocols.kafka.messages.plain_fetch import Plain, RequestForm
from penstock.seams.channel import PromptLink
from penstock.seams.client import ReadFrom, ReadLimits

__all__ = ["StillRead"]


class StillRead:
    """Of one node's session, on one connection. ``changes`` is the cluster's when the first request was composed."""

    __slots__ = (
        "_cluster", "_form", "_keys", "_places", "_reads", "_session", "changes", "held_s", "limits", "link",
        "requests", "timeout_s",
    )  # fmt: skip

    def __init__(
        self,
        cluster: Cluster,
        link: PromptLink[Versions],
        form: FetchForm,
        session: FetchSession,
        reads: Mapping[Key, tuple[ReadFrom, Place]],
        limits: ReadLimits,
        requests: RequestForm,
        changes: int,
        timeout_s: float,
    ) -> None:
        self._cluster = cluster
        self._form = form
        self._session = session
        self._reads = {key: read for key, (read, _) in reads.items()}
        self._places = {key: place for key, (_, place) in reads.items()}
        self._keys = {read.partition: key for key, read in self._reads.items()}
        self.link = link
        self.limits = limits
        self.held_s = limits.max_wait_ms / 1_000
        self.timeout_s = timeout_s
        self.requests = requests
        self.changes = changes

    @property
    def keys(self) -> Sequence[Key]:
        """What is read, as requests of this version call it."""
        return tuple(self._reads)

    @property
    def reads(self) -> Sequence[ReadFrom]:
        """All that is read, from where it is now."""
        return tuple(self._reads.values())

    def ask(self, moved: Sequence[ReadFrom]) -> Asked | None:
        """The next request; None where more has to be looked at."""
        named: dict[Key, Place] = {}
        for read in moved:
            key = self._keys.get(read.partition)
            if key is None:
                return None
            before = self._places[key]
            epoch = self._cluster.lineage(read.partition).epoch_before(read.offset)
            if epoch not in (UNKNOWN, before.leader_epoch):
                return None  # its leader may have to be asked first whether it has the same past
            named[key] = Place(read.offset, before.leader_epoch, epoch, read.max_bytes)
        asked = self._session.ask_again(named)
        if asked is not None and moved:
            self._places.update(named)
            self._reads.update(zip(named, moved, strict=True))
        return asked

    def answered(self, asked: Asked, plain: Plain) -> list[KafkaFetched]:
        """What came."""
        session_id, parts = plain
        self._session.answered(asked, NONE, session_id, parts)
        found: list[KafkaFetched] = []
        for key, part in parts.items():
            read = self._reads.get(key)
            if read is not None:
                found.append(self._form.plain(read, part))
        return found
