"""kio reads what we write, to the same values, and writes what we read, to the same bytes.

kio's classes are made from Kafka's own schemas. It refuses error codes it does not know and turns times into
``timedelta`` and ``datetime``, so instances here are tame; see shapes.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import io
import uuid
from typing import Any

import kio.index
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from penstock.protocols.kafka.wire.codec import decode, encode
from penstock.protocols.kafka.wire.declarations import NO_UUID
from tests.property.kafka_messages.shapes import FEW, Shape, bare, filled, instances, messages, name_of, plain

MILLISECOND = datetime.timedelta(milliseconds=1)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

# Versions that Kafka 4 removed, so that kio has none: by API key, the lowest version it has.
REMOVED_BELOW = {0: 3, 1: 4, 2: 1, 8: 2, 9: 1, 19: 2, 20: 1, 23: 2, 32: 1}

# Versions that Kafka 4.4 added, which kio does not have yet: by API key, the highest version it has.
ADDED_ABOVE = {18: 4, 28: 5, 42: 2}

RENAMED = {"enable_2pc": "enable2_pc"}
RENAMED_IN_4_4 = {("TxnOffsetCommitRequest", "generation_id_or_member_epoch"): "generation_id"}
"""By message and field."""


def known_to_kio(shape: Shape) -> bool:
    return REMOVED_BELOW.get(shape.key, 0) <= shape.version <= ADDED_ABOVE.get(shape.key, shape.version)


def theirs(shape: Shape) -> Any:
    load = kio.index.load_request_schema if shape.is_request else kio.index.load_response_schema
    return load(shape.key, shape.version)


def as_plain(value: Any) -> Any:
    """kio's value as the dicts, lists and numbers that ``shapes.plain`` makes of ours."""
    match value:
        case enum.IntEnum():
            return value.value
        case datetime.timedelta():
            return value // MILLISECOND
        case datetime.datetime():
            return (value - EPOCH) // MILLISECOND
        case uuid.UUID():
            return value.bytes
        case tuple():
            return [as_plain(one) for one in value]
    if dataclasses.is_dataclass(value):
        return {field.name: as_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


def in_their_words(value: Any) -> Any:
    """Ours, where kio says otherwise: no ``_ms`` in names, None for the id that means none and for the time -1."""
    if isinstance(value, dict):
        words = {RENAMED.get(name, name.removesuffix("_ms")): in_their_words(one) for name, one in value.items()}
        if words.get("log_append_time") == -1:
            words["log_append_time"] = None
        return {name: None if name.endswith("_id") and one == NO_UUID else one for name, one in words.items()}
    if isinstance(value, list):
        return [in_their_words(one) for one in value]
    return value


def agree(shape: Shape, message: Any) -> None:
    wire = b"".join(encode(message, shape.version))
    entity, size = entity_reader(theirs(shape))(wire, 0)
    assert size == len(wire)
    words = in_their_words(plain(message, shape.version))
    kind = shape.message.__name__
    assert as_plain(entity) == {RENAMED_IN_4_4.get((kind, name), name): each for name, each in words.items()}
    written = io.BytesIO()
    entity_writer(theirs(shape))(written, entity)
    assert plain(decode(shape.message, shape.version, written.getvalue()), shape.version) == plain(
        message, shape.version
    )
    assert written.getvalue() == wire


@pytest.mark.parametrize("versions", messages(), ids=name_of)
def test_full_and_bare_messages_mean_the_same(versions: tuple[Shape, ...]) -> None:
    compared = [shape for shape in versions if known_to_kio(shape)]
    assert compared
    for shape in compared:
        agree(shape, filled(shape.message, shape.version))
        agree(shape, bare(shape.message, shape.version))


@pytest.mark.parametrize("versions", messages(), ids=name_of)
@settings(max_examples=FEW)
@given(data=st.data())
def test_random_messages_mean_the_same(versions: tuple[Shape, ...], data: st.DataObject) -> None:
    for shape in versions:
        if known_to_kio(shape):
            agree(shape, data.draw(instances(shape.message, shape.version, tame=True)))
