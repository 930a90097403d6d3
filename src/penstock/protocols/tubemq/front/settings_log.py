"""What operators have set, over a restart: records of an internal topic, one for each thing set, the last one counts.

A key is a list of protocol, kind and name, a value the setting's fields, both JSON; a record without a value takes the
setting away. The topic is compacted by the store. What cannot be read (somebody wrote to the topic) is said aloud and
left out: a node that does not start helps nobody.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.tubemq.front.broker.batches import Stored, encode_batch, stored_records
from penstock.protocols.tubemq.front.settings import FlowRules, GroupSettings, Limits, Settings, TopicSettings
from penstock.seams.enode import Enode, FetchPart, extent, fetch_one
from penstock.seams.locks import Locks
from penstock.seams.runtime import Runtime

__all__ = ["SettingsLog"]

_log = logging.getLogger("penstock.node")

_TOPIC: Final = "__penstock_settings"
_CONFIG: Final = {"cleanup.policy": "compact"}
_PROTOCOL: Final = "tubemq"
_READ_BYTES: Final = 1 << 20


class SettingsLog:
    """Reads once at start, writes what is unsaved when it is told to."""

    def __init__(self, settings: Settings, enode: Enode, runtime: Runtime) -> None:
        self._settings = settings
        self._enode = enode
        self._now_ms = runtime.now_ms
        self._saving: Locks[str] = Locks(runtime.promise)

    async def load(self) -> None:
        """Bring back what was set. Raises StoreError, CorruptBatch."""
        if await self._enode.topic(_TOPIC) is None:
            return
        partition = Partition(_TOPIC, 0)
        at, end, _, _ = await extent(self._enode, partition)
        while at < end:
            found = await fetch_one(self._enode, FetchPart(partition, at, _READ_BYTES))
            for record in stored_records(found.read(), at):
                self._apply(record)
            at = found.next_offset
        self._settings.unsaved.clear()

    def _apply(self, record: Stored) -> None:
        try:
            protocol, kind, name = json.loads(record.key or b"")
            if protocol == _PROTOCOL:
                _restore(self._settings, kind, name, json.loads(record.value) if record.value else None)
        except (AttributeError, ValueError, TypeError, RecursionError, PenstockError) as error:
            _log.warning("%s holds a setting at offset %d that cannot be read: %s", _TOPIC, record.offset, error)

    async def save(self) -> None:
        """Write what is unsaved; durable when this returns. Raises StoreError, and then it is still unsaved."""
        async with self._saving.held(_TOPIC):
            await self._save()

    async def _save(self) -> None:
        unsaved = sorted(self._settings.unsaved)
        if not unsaved:
            return
        if await self._enode.topic(_TOPIC) is None:
            await self._enode.create_topic(_TOPIC, 1, _CONFIG)
        now_ms = self._now_ms()
        records = [
            Stored(0, now_ms, True, _json([_PROTOCOL, *key]), _value(self._settings, *key), ()) for key in unsaved
        ]
        await self._enode.append(Partition(_TOPIC, 0), encode_batch(records))
        self._settings.unsaved.difference_update(unsaved)


def _value(settings: Settings, kind: str, name: str) -> bytes | None:
    if kind == "flow":
        return _json(asdict(settings.flow))
    if kind == "limits":
        return _json(asdict(settings.limits))
    kept = settings.groups.get(name) if kind == "group" else settings.topics.get(name)
    return None if kept is None else _json(asdict(kept))


def _restore(settings: Settings, kind: str, name: str, fields: dict[str, Any] | None) -> None:
    """Set one thing again; without ``fields`` it is as if it had never been set."""
    if kind == "flow":
        settings.set_flow(FlowRules(**(fields or {})))
    elif kind == "limits":
        settings.set_limits(Limits(**(fields or {})))
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
