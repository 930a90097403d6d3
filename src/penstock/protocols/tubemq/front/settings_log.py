"""What operators have set, over a restart: entries of a journal, one for each thing set, the last one counts.

A key is a list of protocol, kind and name, a value the setting's fields, both JSON; a record without a value takes the
setting away. Who keeps the journal compacts it. What cannot be read (somebody wrote to it) is said aloud and
left out: a node that does not start helps nobody.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from typing import Any, Final

from penstock.concurrency.locks import Locks
from penstock.concurrency.runtime import Runtime
from penstock.errors import PenstockError
from penstock.interfaces.node import Ended, Entry, Journals, Noted
from penstock.protocols.tubemq.front.settings import (
    BrokerSettings,
    FlowRules,
    GroupSettings,
    Limits,
    Settings,
    TopicSettings,
)

__all__ = ["SettingsLog"]

_log = logging.getLogger("penstock.node")

_TOPIC: Final = "__penstock_settings"
_CONFIG: Final = {"cleanup.policy": "compact"}
_PROTOCOL: Final = "tubemq"


class SettingsLog:
    """Reads once at start, writes what is unsaved when it is told to."""

    def __init__(self, settings: Settings, journals: Journals, runtime: Runtime) -> None:
        self._settings = settings
        self._journal = journals.journal(_TOPIC, places=1, config=_CONFIG)
        self._loading = False
        self._saving: Locks[str] = Locks(runtime.promise)

    async def load(self) -> None:
        """Bring back what was set. Raises StoreError, CorruptBatch."""
        self._loading = True
        await self._journal.replay(self._apply)
        self._loading = False
        self._settings.unsaved.clear()

    def _apply(self, place: int, found: Noted | Ended) -> None:
        # Later on, what turns out to stand in the log is what was set here, or what has been set anew by now.
        if isinstance(found, Ended) or not self._loading:
            return
        try:
            protocol, kind, name = json.loads(found.key or b"")
            if protocol == _PROTOCOL:
                _restore(self._settings, kind, name, json.loads(found.value) if found.value else None)
        except (AttributeError, ValueError, TypeError, RecursionError, PenstockError) as error:
            _log.warning("%s holds a setting at offset %d that cannot be read: %s", _TOPIC, found.position, error)

    async def save(self) -> None:
        """Write what is unsaved; durable when this returns. Raises StoreError, and then it is still unsaved."""
        # One after the other: what another one is writing is not saved yet, and is unsaved again where that fails.
        async with self._saving.held(_TOPIC):
            if self._settings.unsaved:
                await self._save()

    async def _save(self) -> None:
        taken: list[tuple[str, str]] = []

        def compose() -> list[Entry]:
            taken.extend(sorted(self._settings.unsaved))
            # What is set anew while this is written has to be written once more.
            self._settings.unsaved.clear()
            return [(_json([_PROTOCOL, *key]), _value(self._settings, *key)) for key in taken]

        try:
            await self._journal.append(0, compose)
        except BaseException:
            self._settings.unsaved.update(taken)
            raise


def _value(settings: Settings, kind: str, name: str) -> bytes | None:
    if kind == "flow":
        return _json(asdict(settings.flow))
    if kind == "limits":
        return _json(asdict(settings.limits))
    if kind == "broker":
        return _json(asdict(settings.broker))
    kept = settings.groups.get(name) if kind == "group" else settings.topics.get(name)
    return None if kept is None else _json(asdict(kept))


def _restore(settings: Settings, kind: str, name: str, fields: dict[str, Any] | None) -> None:
    """Set one thing again; without ``fields`` it is as if it had never been set."""
    if kind == "flow":
        settings.set_flow(FlowRules(**(fields or {})))
    elif kind == "limits":
        settings.set_limits(Limits(**(fields or {})))
    elif kind == "broker":
        settings.set_broker(BrokerSettings(**(fields or {})))
    elif kind == "topic":
        settings.set_topic(name, _topic(fields or {}))
    elif kind == "group":
        settings.set_group(name, _group(fields or {}))
    else:
        raise ValueError(f"no kind of setting is called {kind!r}")


def _topic(fields: dict[str, Any]) -> TopicSettings:
    shapes = tuple((int(stores), int(partitions)) for stores, partitions in fields.get("shapes", ()))
    if not all(stores > 0 and partitions > 0 for stores, partitions in shapes):
        raise ValueError(f"a topic of {shapes}")
    return TopicSettings(**{**fields, "shapes": shapes})


def _group(fields: dict[str, Any]) -> GroupSettings:
    allowed = {topic: tuple(items) for topic, items in fields.get("allowed", {}).items()}
    flow = FlowRules(**fields.get("flow", {}))
    return GroupSettings(flow, allowed, **{name: fields[name] for name in fields.keys() - {"allowed", "flow"}})


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
