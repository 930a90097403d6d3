"""Options of a read that decodes values: the format, the schema, and how to handle values that cannot be decoded.

What must not live here: decoding (``_decode_json``) and bad records themselves (``_bad_records``).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from types import MappingProxyType

from penstock._dataclasses import dataclass
from penstock.config import ClientConfig, OptionValue
from penstock.errors import ConfigError
from penstock.protocols import address_of, schemes
from penstock.spark._columns import KNOWN
from penstock.spark._ddl import Struct, parse_ddl

__all__ = ["DECODE_OPTIONS", "ERROR", "RAW", "DeadLetters", "Decoding", "Mode", "decoded_ddl", "parse_decoding"]

ERROR, RAW = "_error", "_raw"

DECODE_OPTIONS: Mapping[str, str] = {
    "valueFormat": "binary, or json: the column value becomes a struct of the fields of valueSchema (ours)",
    "valueSchema": "the schema of JSON values as DDL: id bigint, at timestamp, tags array<string> (ours)",
    "mode": "how to handle a value that does not match valueSchema: FAILFAST, PERMISSIVE, DROP or DEADLETTER (ours)",
    "deadLetter": "where DEADLETTER stores records: a topic of the same log, an address with a topic, a folder (ours)",
}


class Mode(enum.Enum):
    """How to handle a value that cannot be decoded.

    FAILFAST: the task fails and names the record. PERMISSIVE: the value is null; the columns _error and _raw hold the
    reason and the bytes. DROP: the record is left out and counted in the program's log. DEADLETTER: the record is left
    out and stored elsewhere.
    """

    FAILFAST = "FAILFAST"
    PERMISSIVE = "PERMISSIVE"
    DROP = "DROP"
    DEADLETTER = "DEADLETTER"


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Where dead letters go: to ``topic`` of the log at ``address``, or to ``folder``.

    ``client`` holds the client options for that log; they may contain secrets and are not shown.
    """

    address: str = ""
    topic: str = ""
    folder: str = ""
    client: Mapping[str, OptionValue] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Decoding:
    """How values are decoded; ``ddl`` is the schema as given."""

    ddl: str
    schema: Struct
    mode: Mode = Mode.FAILFAST
    dead_letters: DeadLetters | None = None


def parse_decoding(
    options: Mapping[str, str],
    address: str,
    columns: Sequence[str],
    client: Mapping[str, OptionValue] = MappingProxyType({}),
) -> Decoding | None:
    """The parsed options; None if values stay bytes. Raises ConfigError.

    ``address`` and ``client`` (options) are those of the log that is read.
    """
    kind = options.get("valueFormat", "binary").strip().lower()
    if kind not in {"binary", "json"}:
        raise ConfigError(f"valueFormat is '{options['valueFormat']}', expected binary or json")
    if kind == "binary":
        for name in ("valueSchema", "mode", "deadLetter"):
            if name in options:
                raise ConfigError(f"{name} has no effect while values stay bytes", hint="Set valueFormat to json")
        return None
    if not options.get("valueSchema", "").strip():
        raise ConfigError(
            "valueFormat=json needs a schema", hint='Set valueSchema, for example to "id bigint, name string"'
        )
    if "value" not in columns:
        raise ConfigError("valueFormat=json decodes the column value, which columns leaves out")
    ddl = options["valueSchema"]
    mode = _mode(options)
    return Decoding(ddl, parse_ddl(ddl, "valueSchema"), mode, _dead_letters(options, mode, address, client))


def decoded_ddl(columns: Sequence[str], decoding: Decoding | None, more: Mapping[str, str] | None = None) -> str:
    """The schema for Spark, as DDL; ``more`` are the types of further columns."""
    types = {**KNOWN, **(more or {})}
    if decoding is not None:
        types["value"] = f"struct<{decoding.ddl}>"
    told = [f"{_quoted(name)} {types[name]}" for name in columns]
    if decoding is not None and decoding.mode is Mode.PERMISSIVE:
        told += [f"{ERROR} string", f"{RAW} binary"]
    return ", ".join(told)


def _quoted(name: str) -> str:
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"


def _mode(options: Mapping[str, str]) -> Mode:
    text = options.get("mode", Mode.FAILFAST.value).strip().upper()
    try:
        return Mode("DROP" if text == "DROPMALFORMED" else text)
    except ValueError:
        known = ", ".join(each.value for each in Mode)
        raise ConfigError(f"mode is '{options['mode']}', expected one of {known}") from None


def _dead_letters(
    options: Mapping[str, str], mode: Mode, address: str, client: Mapping[str, OptionValue]
) -> DeadLetters | None:
    text = options.get("deadLetter", "").strip()
    if mode is not Mode.DEADLETTER:
        if text:
            raise ConfigError(f"deadLetter has no effect with mode={mode.value}", hint="Set mode to DEADLETTER")
        return None
    if not text:
        raise ConfigError(
            "mode=DEADLETTER needs a place to store records", hint="Set deadLetter to a topic, an address or a folder"
        )
    scheme, separator, _ = text.partition("://")
    if separator and scheme.lower() in schemes():
        parsed = address_of(text)
        if len(parsed.topics) != 1:
            raise ConfigError(f"deadLetter names {len(parsed.topics)} topics, expected one")
        bare = type(parsed)(parsed.scheme, parsed.endpoints, (), parsed.options)
        return DeadLetters(str(bare), parsed.topics[0])
    if separator or "/" in text:
        return DeadLetters(folder=text)
    of_any_client = {each.name for each in fields(ClientConfig)}
    shared = {name: value for name, value in client.items() if name in of_any_client}
    return DeadLetters(address, text, client=shared)
