"""What the front itself remembers over a restart: small things by kind and name, in a journal; the last value counts.

Keys are lists of kind and name, values are JSON. What cannot be read (somebody wrote to it) is said aloud and left out:
a node that does not start helps nobody. What must not live here: what the kinds mean.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from penstock.seams.journal import Ended, Entry, Journals, Noted

__all__ = ["Ledger"]

_log = logging.getLogger("penstock.node")

_TOPIC: Final = "__penstock_rocketmq"
_CONFIG: Final = {"cleanup.policy": "compact"}


class Ledger:
    """Read once at start, written to as things change."""

    def __init__(self, journals: Journals) -> None:
        self._journal = journals.journal(_TOPIC, places=1, config=_CONFIG)
        self._kept: dict[str, dict[str, Any]] = {}

    async def load(self) -> None:
        """Bring back what was written. Raises StoreError, CorruptBatch."""
        await self._journal.replay(self._apply)

    def get(self, kind: str, name: str) -> Any:
        """What is kept under a name; None for nothing."""
        return self._kept.get(kind, {}).get(name)

    def of(self, kind: str) -> Mapping[str, Any]:
        """Everything of a kind, by its name, also what will be kept later: for who looks often."""
        return self._kept.setdefault(kind, {})

    def all(self, kind: str) -> Iterator[tuple[str, Any]]:
        """Everything of a kind, by its name; to be read at once."""
        return iter(self._kept.get(kind, {}).items())

    async def put(self, kind: str, name: str, value: Any) -> None:
        """Keep something; None takes it away. Durable when this returns. Raises StoreError."""
        await self.compose(kind, name, lambda: value)

    async def compose(self, kind: str, name: str, make: Callable[[], Any]) -> Any:
        """Keep what ``make`` returns, which is called when nothing can come between that and the order of the journal.

        Returns it. Raises StoreError, and what ``make`` raises: then nothing is kept.
        """
        made: list[Any] = []

        def entries() -> list[Entry]:
            made.append(make())
            return [(_json([kind, name]), None if made[-1] is None else _json(made[-1]))]

        await self._journal.append(0, entries)
        self._set(kind, name, made[-1])
        return made[-1]

    def _apply(self, place: int, found: Noted | Ended) -> None:
        del place
        if isinstance(found, Ended):
            return
        try:
            kind, name = json.loads(found.key or b"")
            self._set(str(kind), str(name), json.loads(found.value) if found.value else None)
        except (ValueError, TypeError, RecursionError) as error:
            _log.warning("%s holds something at offset %d that cannot be read: %s", _TOPIC, found.position, error)

    def _set(self, kind: str, name: str, value: Any) -> None:
        of_kind = self._kept.setdefault(kind, {})
        if value is None:
            of_kind.pop(name, None)
        else:
            of_kind[name] = value


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
