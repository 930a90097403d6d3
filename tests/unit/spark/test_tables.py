"""Options of SQL tables: told from a DataFrame's, kept in the schema, found again, overruled."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import BinaryType, StructType

from penstock.errors import ConfigError
from penstock.spark import PenstockDataSource
from penstock.spark._source import given_to_table, recalled, remembering

# As Spark 4.3 hands them over when a table is made.
OF_TABLE = {
    "provider": "penstock",
    "owner": "me",
    "subscribe": "t",
    "option.subscribe": "t",
    "option.kafka.bootstrap.servers": "h:1",
    "kafka.bootstrap.servers": "h:1",
    "a.property": "of the table",
}


def test_options_of_a_dataframe_are_not_a_tables() -> None:
    assert given_to_table({"subscribe": "t"}) is None


def test_only_options_are_kept() -> None:
    assert given_to_table(OF_TABLE) == {"subscribe": "t", "kafka.bootstrap.servers": "h:1"}
    located = {"provider": "penstock", "location": "kafka://h:1/t", "path": "kafka://h:1/t"}
    assert given_to_table(located) == {"path": "kafka://h:1/t"}


def test_schema_brings_them_back_through_the_catalog() -> None:
    made = PenstockDataSource(dict(OF_TABLE)).schema()
    assert isinstance(made, StructType)
    assert made.simpleString().startswith("struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,")
    stored = StructType.fromJson(json.loads(made.json()))  # as a catalog keeps it
    assert recalled(stored, {}) == {"subscribe": "t", "kafka.bootstrap.servers": "h:1"}
    assert recalled(stored, {"SUBSCRIBE": "u"}) == {"SUBSCRIBE": "u", "kafka.bootstrap.servers": "h:1"}
    PenstockDataSource({}).reader(stored)


def test_other_schemas_bring_nothing() -> None:
    assert recalled(None, {"a": "1"}) == {"a": "1"}
    assert recalled(StructType(), {}) == {}
    assert recalled(StructType().add("value", BinaryType()), {}) == {}


@pytest.mark.parametrize(
    "name", ["kafka.sasl.password", "kafka.sasl.jaas.config", "tubemq.auth.Token", "client_secret"]
)
def test_secrets_are_refused_unless_they_stand_elsewhere(name: str) -> None:
    with pytest.raises(ConfigError, match=f"option {name} is a secret") as raised:
        given_to_table({"provider": "penstock", f"option.{name}": "hidden"})
    assert "hidden" not in str(raised.value)
    assert given_to_table({"provider": "penstock", f"option.{name}": "env:NAME"}) == {name: "env:NAME"}


def test_remembering_changes_no_type() -> None:
    made = remembering("value binary, offset bigint", {"a": "1"})
    assert made.simpleString() == "struct<value:binary,offset:bigint>"
    assert made.fields[1].metadata == {}
