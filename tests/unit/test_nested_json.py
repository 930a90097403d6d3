"""JSON and TOML from outside, nested so deeply that Python's parsers give up: each reader says so in its own error."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import pytest

from penstock.cli.sources import json_records
from penstock.config.options import toml_options
from penstock.errors import ConfigError, CorruptBatch, ProtocolViolation, UsageError
from penstock.model import Offset
from penstock.protocols.kafka.wire import coordinator_admin
from penstock.protocols.rocketmq.wire import lenient_json
from penstock.protocols.tubemq.client import web_api
from penstock.protocols.tubemq.flow_control import parse_rules
from penstock.spark import _checkpoint
from penstock.spark._ddl import parse_ddl
from penstock.spark._decode_json import decode_row
from penstock.spark._options import parse_subscription
from penstock.spark._sink_once import Marker
from penstock.spark._starts import where

DEEP = "[" * 100_000 + "]" * 100_000
OBJECTS = '{"a":' * 100_000 + "1" + "}" * 100_000


def lines(text: str) -> object:
    return list(json_records(BytesIO(b'{"value": 1}\n{"value": ' + text.encode() + b"}\n")))


READERS: list[tuple[Callable[[str], object], type[Exception], str]] = [
    (lines, UsageError, "line 2 is nested too deeply"),
    (
        lambda text: toml_options(f"[client]\na = {text.replace(':', '=')}", "consumer"),
        ConfigError,
        "the TOML file is n",
    ),
    (coordinator_admin.read_rebalances, ProtocolViolation, "an account of rebalances"),
    (lenient_json.parse, ProtocolViolation, "deeper than 100"),
    (lambda text: web_api._object("admin_query", text.encode()), ProtocolViolation, "no JSON"),
    (parse_rules, ProtocolViolation, "flow-control rules cannot be used"),
    (lambda text: where("startingOffsets", text, allowed=[Offset.EARLIEST]), ConfigError, "startingOffsets"),
    (lambda text: parse_subscription({"assign": text}, ()), ConfigError, "assign"),
    (lambda text: Marker.from_bytes(text.encode()), CorruptBatch, "not a marker"),
    (lambda text: decode_row(text.encode(), parse_ddl("a int")), ValueError, "nested too deeply"),
]


@pytest.mark.parametrize("text", [DEEP, OBJECTS], ids=["lists", "objects"])
@pytest.mark.parametrize(("read", "error", "told"), READERS)
def test_what_is_nested_too_deeply_is_refused(
    read: Callable[[str], object], error: type[Exception], told: str, text: str
) -> None:
    with pytest.raises(error, match=told) as caught:
        read(text)
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("text", [DEEP, OBJECTS], ids=["lists", "objects"])
def test_it_is_no_offset_of_a_checkpoint(text: str) -> None:
    assert _checkpoint._json(text) is None


def test_a_name_of_thousand_parts_is_no_option() -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        toml_options(f"[client]\n{'a.' * 1_000}a = 1\n", "consumer")
