"""Which columns are written: found whatever their case, and refused in words before anything is lost."""

from __future__ import annotations

import pytest

from penstock.errors import UsageError
from penstock.spark._sink_rows import check_columns

HEADERS = "array<struct<key:string,value:binary>>"


def places(*fields: tuple[str, str], topic: str | None = "t") -> dict[str, int]:
    return dict(check_columns(fields, topic=topic).places)


def test_columns_are_found_in_any_order_and_case() -> None:
    fields = [("VALUE", "binary"), ("other", "int"), ("Key", "string"), ("headers", HEADERS)]
    assert places(*fields) == {"value": 0, "key": 2, "headers": 3}


def test_what_our_source_gives_can_be_written_as_it_is() -> None:
    source = [("key", "binary"), ("value", "binary"), ("topic", "string"), ("partition", "int"), ("offset", "bigint")]
    fields = [*source, ("timestamp", "timestamp"), ("timestampType", "int")]
    assert places(*fields) == {"key": 0, "value": 1, "partition": 3, "timestamp": 5}
    assert places(*fields, topic=None)["topic"] == 2


@pytest.mark.parametrize("kind", ["string", "binary", "varchar(3)", "char(10)", "string collate UTF8_LCASE", "void"])
def test_text_and_bytes_are_values(kind: str) -> None:
    assert places(("value", kind)) == {"value": 0}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ([("key", "binary")], "column value is missing; the columns are key"),
        ([], "column value is missing; the columns are none"),
        ([("value", "int")], "column value is int, expected string or binary. Serialise it first"),
        ([("value", "struct<a:int>")], "Serialise it first, for example to_json"),
        ([("value", "binary"), ("partition", "bigint")], "column partition is bigint, expected int. Cast it"),
        ([("value", "binary"), ("timestamp", "timestamp_ntz")], "timestamp is timestamp_ntz, expected timestamp"),
        ([("value", "binary"), ("headers", "array<string>")], "headers is array<string>, expected array<struct<"),
        ([("value", "binary"), ("Value", "binary")], "column value appears twice"),
        ([("value", "binary"), ("header", HEADERS)], "column header .* would not be written. Did you mean headers"),
        ([("vaule", "binary")], "column vaule .* would not be written. Did you mean value"),
    ],
)
def test_refused(fields: list[tuple[str, str]], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        check_columns(fields, topic="t")


def test_without_option_and_column_there_is_no_topic() -> None:
    with pytest.raises(UsageError, match="nothing says which topic to write to"):
        check_columns([("value", "binary")], topic=None)
    with pytest.raises(UsageError, match="column topic is int, expected string"):
        check_columns([("value", "binary"), ("topic", "int")], topic=None)
    # The option wins over the column, whatever that holds.
    assert places(("value", "binary"), ("topic", "int")) == {"value": 0}
