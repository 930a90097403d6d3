"""DDL as Spark writes it: read into types, refused with the place that is wrong."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.spark._ddl import arrow_type, parse_ddl, spark_json

EVERYTHING = (
    "a boolean, b TINYINT, c smallint, d int, e bigint, f float, g double, h string, i binary, j date, k timestamp,"
    " l timestamp_ntz, m decimal(38,18), n decimal, o array<struct<x: int, `y z` map<string, array<bigint>>>>,"
    " p struct<q:numeric(5),r:timestamp_ltz>"
)


def list_of(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element))


def test_types_are_those_spark_takes_from_a_python_source() -> None:
    found = arrow_type(parse_ddl(EVERYTHING))
    assert [field.type for field in found] == [
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
        pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.decimal128(38, 18), pa.decimal128(10, 0),
        list_of(pa.struct([("x", pa.int32()), ("y z", pa.map_(pa.string(), list_of(pa.int64())))])),
        pa.struct([("q", pa.decimal128(5, 0)), ("r", pa.timestamp("us", "UTC"))]),
    ]  # fmt: skip


def test_pyspark_agrees() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    from pyspark.sql.pandas.types import to_arrow_type

    made = types.StructType.fromJson(spark_json(parse_ddl(EVERYTHING)))
    assert made.fields[14].dataType.simpleString() == "array<struct<x:int,y z:map<string,array<bigint>>>>"
    for field, ours in zip(made.fields, arrow_type(parse_ddl(EVERYTHING)), strict=True):
        assert ours.type == to_arrow_type(field.dataType, timezone="UTC"), field.name


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no column"),
        ("a", "a type is missing at the end"),
        ("a int,", "a name is missing at the end"),
        ("a int b int", "',' is missing before 'b'"),
        ("a int, A string", "column A appears twice"),
        ("a array<int", "'>' is missing at the end"),
        ("a map<int, string>", "keys of a map must be strings"),
        ("a decimal(39,2)", r"decimal\(39,2\) is not valid"),
        ("a decimal(2,3)", r"decimal\(2,3\) is not valid"),
        ("a decimal(x)", "'x' is not a number of digits"),
        ("a interval", "'interval' is not a supported type"),
        ("< int", "a name is missing before '<'"),
        ("`a int", "is not understood"),
        ("a " + "array<" * 40 + "int" + ">" * 40, "nested more than 32 deep"),
        ("a struct<>", "a name is missing before '>'"),
    ],
)
def test_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        parse_ddl(text)
