"""``format("penstock")``: the class that Spark looks up. It checks options and returns readers and writers.

Spark creates it many times in many processes: so nothing is opened here, and the modules for writing are imported only
for writing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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
from penstock.spark._options import SourceOptions, decoded_ddl, parse_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["PenstockDataSource", "given_to_table", "recalled", "remembering"]

# SQL tables: ``CREATE TABLE t USING penstock OPTIONS (…)``, whose options must survive until ``t`` is read.
#
# Spark 4.2 and 4.3 pass a table's options to a Python source when the table is created, to ask for its schema, but not
# when it is read; then they pass only the stored schema, with each column's metadata. So the options are stored there.
# DESCRIBE does not show them, but anyone who can read the catalog can read them, so secrets are refused. ``INSERT
# INTO`` passes the schema of the inserted rows, so it must name the address: ``INSERT INTO t WITH (path = …)``.
METADATA = "penstock.options"
_OPTION = "option."
_PROVIDER = "provider"
_SECRET = re.compile(r"passw|secret|token|jaas|credential|private|\bkey\b.*pem", re.IGNORECASE)
_ELSEWHERE = ("env:", "file:")


def given_to_table(options: Mapping[str, str]) -> dict[str, str] | None:
    """A table's OPTIONS and LOCATION; None if the options are a DataFrame's and not a table's.

    Spark mixes them with the table's properties, and passes each of them a second time, as "option.<name>".
    Raises ConfigError for a secret, because everyone who reads the catalog could read it.
    """
    if _PROVIDER not in {name.lower() for name in options}:
        return None
    own = {name[len(_OPTION) :]: text for name, text in options.items() if name.lower().startswith(_OPTION)}
    own |= {name: text for name, text in options.items() if name.lower() == "path"}
    for name, text in own.items():
        if _SECRET.search(name) and not text.startswith(_ELSEWHERE):
            raise ConfigError(
                f"option {name} is a secret, which a table would show to everyone who reads the catalog",
                hint=f"Leave it out, and give it when the table is read: SELECT … FROM t WITH (`{name}` = …)",
            )
    return own


def remembering(ddl: str, options: Mapping[str, str]) -> StructType:
    """The schema with the options in its first column's metadata."""
    from pyspark.sql.types import StructType

    # Not StructType.fromDDL: it asks the JVM, and there is none where this runs.
    made: StructType = StructType.fromJson(spark_json(parse_ddl(ddl)))
    made.fields[0].metadata = {METADATA: json.dumps(dict(options), sort_keys=True)}
    return made


def recalled(schema: StructType | None, options: Mapping[str, str]) -> dict[str, str]:
    """The options of the table with this schema, overridden by those of the statement that reads it."""
    metadata = schema.fields[0].metadata if schema is not None and schema.fields else {}
    if METADATA not in metadata:
        return dict(options)
    kept = json.loads(metadata[METADATA])
    given = {name.lower() for name in options}
    return {**{name: text for name, text in kept.items() if name.lower() not in given}, **options}


# ruff: noqa: N802 - the names of methods are Spark's


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
        # Not in the constructor: a DataSource is also created for writing, which has other options.
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
