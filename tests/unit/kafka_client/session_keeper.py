"""A broker's side of fetch sessions as KIP-227 says it, for tests: what it remembers, and when it refuses."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.protocols.kafka.client.fetch import Key

UNKNOWN_ID, WRONG_EPOCH, OTHER_NAMES = 70, 71, 106


@dataclass
class Kept:
    by_ids: bool
    epoch: int = 1
    places: dict[Key, Any] = field(default_factory=dict)


@dataclass
class Keeper:
    """``room`` is for how many sessions."""

    room: int = 1_000
    sessions: dict[int, Kept] = field(default_factory=dict)
    _ids: Any = field(default_factory=lambda: itertools.count(1_001))

    def asked(
        self, session_id: int, epoch: int, named: Mapping[Key, Any], forgotten: Collection[Key], *, by_ids: bool
    ) -> tuple[int, int, Mapping[Key, Any]]:
        """Error code, session id and what is to be read, by a request's numbers and partitions."""
        if epoch <= 0:
            assert not forgotten
            self.sessions.pop(session_id, None)
            if epoch < 0 or not named or len(self.sessions) >= self.room:
                return 0, 0, dict(named)
            made = next(self._ids)
            self.sessions[made] = Kept(by_ids, places=dict(named))
            return 0, made, dict(named)
        kept = self.sessions.get(session_id)
        if kept is None:
            return UNKNOWN_ID, 0, {}
        if kept.epoch != epoch:
            return WRONG_EPOCH, 0, {}
        if kept.by_ids != by_ids:
            return OTHER_NAMES, 0, {}
        kept.epoch = 1 if kept.epoch == 2**31 - 1 else kept.epoch + 1
        kept.places.update(named)
        for key in forgotten:
            del kept.places[key]  # whoever has it forget what it does not know is out of step
        if not kept.places:
            del self.sessions[session_id]
            return 0, 0, {}
        return 0, session_id, dict(kept.places)

    def evict(self) -> None:
        """Others took all the room."""
        self.sessions.clear()
