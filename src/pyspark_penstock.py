"""Where Spark finds ``format("penstock")`` by itself: it imports every top-level module that is named pyspark_….

That happens in every session that touches any Python data source, and an exception here would end all of those: so the
module imports nothing of ours before the format is really used, and leaves its class undefined where PySpark lacks one.
What must not live here: anything but handing over.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

with suppress(Exception):
    from pyspark.sql.datasource import DataSource

    class DefaultSource(DataSource):
        """``penstock.spark.PenstockDataSource``, imported when it is used."""

        @classmethod
        def name(cls) -> str:
            return "penstock"

        def schema(self) -> StructType | str:
            return self._real().schema()

        def reader(self, schema: StructType) -> DataSourceReader:
            return self._real().reader(schema)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
            return self._real().streamReader(schema)

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
            return self._real().writer(schema, overwrite)

        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
            return self._real().streamWriter(schema, overwrite)

        def _real(self) -> DataSource:
            from penstock.spark import PenstockDataSource

            return PenstockDataSource(self.options)
