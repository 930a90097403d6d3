"""``format("penstock")``: the class that Spark looks up; it checks options and returns readers and writers.

Spark makes it many times in many processes: nothing is opened here, and what writing needs is imported only for
writing. What must not live here: what readers (``_reading``) and writers (``_sink``) do.
"""

# ruff: noqa: N802 - the names of methods are Spark's

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from penstock.errors import ConfigError
from penstock.spark._ddl import parse_ddl, spark_json
from penstock.spark._decode_options import decoded_ddl
from penstock.spark._options import SourceOptions, parse_options
from penstock.spark._tables import given_to_table, recalled, remembering

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["PenstockDataSource"]


class PenstockDataSource(DataSource):
    """Reads and writes partitioned message logs, with the columns and options of Spark's own Kafka source and sink."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType | str:
        of_table = given_to_table(dict(self.options))
        if of_table is None:
            return _ddl(self._options())
        return remembering(_ddl(parse_options(of_table)), of_table)

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.spark._reading import batch_reader

        return batch_reader(self._options(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from penstock.spark._reading import StreamReader

        return StreamReader(self._options(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.spark._sink import batch_writer

        return batch_writer(dict(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock.spark._sink import stream_writer

        return stream_writer(dict(self.options), schema, overwrite)

    def _options(self, schema: StructType | None = None) -> SourceOptions:
        # Not in the constructor: a DataSource is also made for writing, which has other options.
        options = parse_options(recalled(schema, dict(self.options)))
        if schema is not None:
            wanted = _ddl(options)
            if _names_and_types(schema) != _names_and_types(type(schema).fromJson(spark_json(parse_ddl(wanted)))):
                raise ConfigError(
                    "the schema of a log is given: " + wanted,
                    hint='Leave out .schema(…); the option "columns" chooses among the columns',
                )
        return options


def _ddl(options: SourceOptions) -> str:
    return decoded_ddl(options.columns, options.decoding, {name: each.type for name, each in options.extras.items()})


def _names_and_types(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
