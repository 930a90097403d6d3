"""What users are given is a Struct, which the functions of ``dataclasses`` and ``copy`` take all the same."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys

import pytest

import penstock
from penstock import Endpoint, LogRange, Node, Record, TopicInfo
from penstock.config import ConsumerConfig
from penstock.config.fields import fields
from penstock.model import Value


def public_values() -> list[type[Value]]:
    found = (getattr(penstock, name) for name in penstock.__all__)
    return [each for each in found if inspect.isclass(each) and issubclass(each, Value)]


@pytest.mark.parametrize("kind", public_values(), ids=lambda kind: kind.__name__)
def test_fields_of_all_public_values_are_found(kind: type[Value]) -> None:
    assert dataclasses.is_dataclass(kind)
    assert tuple(each.name for each in dataclasses.fields(kind)) == kind.__struct_fields__
    assert inspect.signature(kind)


def test_values_are_copied_with_changes_and_become_dicts() -> None:
    node = Node("1", Endpoint("localhost", 9092))
    assert dataclasses.replace(node, rack="a") == Node("1", Endpoint("localhost", 9092), "a")
    assert dataclasses.asdict(TopicInfo("t", None, ()))["name"] == "t"
    if sys.version_info >= (3, 13):
        assert copy.replace(node, name="2").name == "2"


def test_values_are_hashed_pickled_and_not_changed() -> None:
    record: Record[bytes, bytes] = Record("t", 0, 1, 2, b"k", b"v", extra={"a": "b"})
    assert pickle.loads(pickle.dumps(record)) == record
    assert len({record, dataclasses.replace(record), dataclasses.replace(record, offset=2)}) == 2
    with pytest.raises(AttributeError):
        record.offset = 5  # type: ignore[misc]
    assert LogRange("t", 0, 1, 2) != LogRange("t", 0, 1, 3)


def test_secrets_are_not_shown() -> None:
    config = ConsumerConfig(tls=True, tls_certificate_file="c.pem", tls_key_password="open sesame")
    assert "sesame" not in repr(config)
    assert "client_id='penstock'" in repr(config)
    assert [each.name for each in fields(ConsumerConfig) if each.secret] == ["tls_key_password"]
