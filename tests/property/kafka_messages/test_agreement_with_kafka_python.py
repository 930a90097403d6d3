"""kafka-python reads what we write, to the same values, and writes what we read, to the same bytes.

Its classes follow Kafka's schemas down to version 0, so that versions which Kafka 4 removed are compared too.
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.protocols.kafka.wire.codec import encode
from penstock.protocols.kafka.wire.declarations import NO_UUID, Message
from penstock.protocols.kafka.wire.metadata import ApiVersionsResponse
from tests.property.kafka_messages.shapes import FEW, Shape, bare, fields, filled, instances, messages, name_of, plain

# Its packages that hold the classes of today; the others are older generations.
PACKAGES = ("admin", "consumer", "metadata", "producer", "sasl")
MISSING = {68, 69, 71, 76}
"""API keys that it does not have."""
ADDED_ABOVE = {18: 4, 28: 5, 42: 2}
"""By API key, the highest version it has where Kafka 4.4 added one."""

RENAMED = {"enable_2pc": "enable2_pc"}
RENAMED_IN_4_4 = {("TxnOffsetCommitRequest", "generation_id_or_member_epoch"): "generation_id"}
"""By message and field."""
BITS = ("authorized_operations", "cluster_authorized_operations", "topic_authorized_operations")
"""Fields that are sets of bit numbers there, mostly under the first name."""


@cache
def classes() -> dict[tuple[int, bool], Any]:
    """Its request and response classes, by API key and whether they are requests."""
    found: dict[tuple[int, bool], Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that Python is leaving
        protocol = importlib.import_module("kafka.protocol")
        parent = importlib.import_module("kafka.protocol.api_message").ApiMessage
        for module in pkgutil.walk_packages(protocol.__path__, "kafka.protocol."):
            if module.name.split(".")[2] in PACKAGES:
                for one in vars(importlib.import_module(module.name)).values():
                    if isinstance(one, type) and issubclass(one, parent) and one is not parent:
                        found[one.API_KEY, one.is_request()] = one
    return found


def number(bits: set[int] | None) -> int:
    """The number that a set of bits stands for; None is the lowest one, "not asked"."""
    return 1 << 31 if bits is None else sum(1 << bit for bit in bits)


def compare(ours: Any, theirs: Any, version: int, where: str) -> None:
    """Field by field, by name; a tagged field that was not sent is None there, its default here."""
    for name, wire, default in fields(type(ours), version):
        mine = getattr(ours, name)
        if name in BITS:
            bits = getattr(theirs, name) if name in theirs._struct.fields else theirs.authorized_operations
            assert mine & 0xFFFFFFFF == (bits if isinstance(bits, int) else number(bits)) & 0xFFFFFFFF, (
                f"{where}.{name}"
            )
            continue
        word = RENAMED_IN_4_4.get((type(ours).__name__, name), RENAMED.get(name, name))
        other = getattr(theirs, word)
        if wire.tag_number is not None and other is None and mine == default:
            continue
        if wire.kind == "uuid":
            other = NO_UUID if other is None else other.bytes  # its None is the id that means none
        same(mine, other, version, f"{where}.{name}")


def same(mine: Any, other: Any, version: int, where: str) -> None:
    if isinstance(mine, list | tuple):
        assert len(mine) == len(other), where
        for one, another in zip(mine, other, strict=True):
            same(one, another, version, where)
    elif isinstance(mine, Message):
        compare(mine, other, version, where)
    else:
        assert plain(mine, version) == other, where


def agree(shape: Shape, message: Any) -> None:
    if shape.message is ApiVersionsResponse:
        message = replace(message, error_code=0)  # it takes an answer with an error for one of version 0
    wire = b"".join(encode(message, shape.version))
    entity = classes()[shape.key, shape.is_request].decode(wire, version=shape.version)
    compare(message, entity, shape.version, str(shape))
    entity._header = None  # its decoder leaves this unset, its encoder reads it
    assert bytes(entity.encode(version=shape.version)) == wire


def comparable() -> list[tuple[Shape, ...]]:
    found = [
        tuple(each for each in versions if each.version <= ADDED_ABOVE.get(each.key, each.version))
        for versions in messages()
    ]
    return [versions for versions in found if versions[0].key not in MISSING]


def test_it_has_all_messages_but_the_newest() -> None:
    assert {key for versions in messages() if ((key := versions[0].key), True) not in classes()} == MISSING


@pytest.mark.parametrize("versions", comparable(), ids=name_of)
def test_full_and_bare_messages_mean_the_same(versions: tuple[Shape, ...]) -> None:
    for shape in versions:
        agree(shape, filled(shape.message, shape.version))
        agree(shape, bare(shape.message, shape.version))


@pytest.mark.parametrize("versions", comparable(), ids=name_of)
@settings(max_examples=FEW)
@given(data=st.data())
def test_random_messages_mean_the_same(versions: tuple[Shape, ...], data: st.DataObject) -> None:
    for shape in versions:
        agree(shape, data.draw(instances(shape.message, shape.version, tame=True)))
