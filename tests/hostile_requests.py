"""Requests of as many entries as are asked for, to every API: made of the declarations, so that no API is forgotten.

For each array of a request there is one in which that array is long and all around it as short as can be, with texts
that are all the same, and with texts that differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.protocols.kafka.server.front import TABLE
from penstock.protocols.kafka.wire.declarations import Wire, all_fields
from penstock.protocols.kafka.wire.framing import api_of, name_of

__all__ = ["Hostile", "hostile_names", "hostile_request"]

_UUID_BYTES = 16
_EXACT = {
    "session_timeout_ms": 10_000,
    "timeout_ms": 1_000,
    "max_wait_ms": 0,
    "acks": -1,
    "session_epoch": -1,
    "protocol_type": "consumer",
    "member_id": "",
    "resource_type": 2,
    "response_partition_limit": 2_000,
    "replication_factor": 1,
    "validate_only": True,
    "transaction_timeout_ms": 1_000,
    "num_partitions": 1,
    "timestamp": -1,
    "config_operation": 1,
}
"""So that a request is looked into, and not refused for something else at once; and makes no topics."""


class Hostile(NamedTuple):
    """``name``: the API, its long array, and whether texts are the same."""

    name: str
    key: int
    version: int
    message: Any


def hostile_names() -> Iterator[str]:
    """Of all that there are."""
    for key, row in TABLE.items():
        pair = api_of(key)
        assert pair is not None
        for version in sorted({row.lowest, row.highest}):
            for path in _arrays(pair.request, version):
                for texts in ("same", "different"):
                    yield f"{pair.name} v{version} {'.'.join(path)} {texts}"


def hostile_request(name: str, count: int, topic: str) -> Hostile:
    """The request of that name, with ``count`` entries in its array and ``topic`` in the place of texts."""
    api, version, path, texts = name.split()
    key = next(each for each in TABLE if name_of(each) == api)
    pair = api_of(key)
    assert pair is not None
    row = None if texts == "same" else 0
    message = _struct(pair.request, int(version[1:]), tuple(path.split(".")), count, topic, row)
    return Hostile(name, key, int(version[1:]), message)


def _arrays(kind: type, version: int, around: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for field in all_fields(kind):
        if field.wire.kind == "array" and field.wire.present(version):
            yield (*around, field.name)
            if isinstance(field.wire.item, type):
                yield from _arrays(field.wire.item, version, (*around, field.name))


def _struct(kind: type, version: int, path: tuple[str, ...], count: int, topic: str, row: int | None) -> Any:
    values: dict[str, Any] = {}
    for field in all_fields(kind):
        if not field.wire.present(version):
            continue
        name = field.name
        if field.wire.kind == "array":
            inner = path[1:] if path and path[0] == name else ()
            long = path == (name,)
            many = count if long else 1 if path and path[0] == name else 0
            values[name] = [
                _value(field.wire.item, name, version, inner, count, topic, each if long and row is not None else row)
                for each in range(many)
            ]
        elif name in _EXACT:
            values[name] = _EXACT[name]
        elif field.wire.tag_number is None:
            values[name] = _value(field.wire, name, version, (), count, topic, row)
    return kind(**values)


def _value(
    wire: Wire | type | None, name: str, version: int, path: tuple[str, ...], count: int, topic: str, row: int | None
) -> Any:
    if isinstance(wire, type):
        return _struct(wire, version, path, count, topic, row)
    assert wire is not None
    if wire.kind == "struct":
        if wire.may_be_null(version):
            return None
        assert isinstance(wire.item, type)
        return _struct(wire.item, version, path, count, topic, row)
    if wire.kind == "str":
        return f"{topic}{row}" if row else topic
    if wire.kind == "uuid":
        return bytes(_UUID_BYTES) if not row else row.to_bytes(_UUID_BYTES, "big")
    if wire.kind in ("bytes", "records"):
        return b""
    return False if wire.kind == "bool" else (row or 0) % 100
