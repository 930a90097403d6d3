"""Spark: ``format("penstock")`` for batch and streaming reads and writes, and a helper that makes a session.

Names are loaded on first use, so that options and offsets can be used without PySpark, and a Spark worker that
unpickles one class does not import the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from penstock.extras import EXTRAS, refusal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as DataFrame
    from pyspark.sql import SparkSession as SparkSession

    from penstock.spark._checkpoint import Conversion as Conversion
    from penstock.spark._checkpoint import Form as Form
    from penstock.spark._checkpoint import convert_checkpoint as convert_checkpoint
    from penstock.spark._listener import StreamListener as StreamListener
    from penstock.spark._progress import PartitionLag as PartitionLag
    from penstock.spark._progress import SourceProgress as SourceProgress
    from penstock.spark._progress import StreamProgress as StreamProgress
    from penstock.spark._progress import with_metrics as with_metrics
    from penstock.spark._session import register as register
    from penstock.spark._session import session as session
    from penstock.spark._settings import advice as advice
    from penstock.spark._sink_rows import Deduplicator as Deduplicator
    from penstock.spark._sink_rows import drop_repeated as drop_repeated
    from penstock.spark._source import PenstockDataSource as PenstockDataSource

_HOME_OF = {
    "Conversion": "penstock.spark._checkpoint",
    "DataFrame": "pyspark.sql",  # for annotations in modules that must not import PySpark themselves
    "Deduplicator": "penstock.spark._sink_rows",
    "Form": "penstock.spark._checkpoint",
    "PartitionLag": "penstock.spark._progress",
    "PenstockDataSource": "penstock.spark._source",
    "SourceProgress": "penstock.spark._progress",
    "SparkSession": "pyspark.sql",
    "StreamListener": "penstock.spark._listener",
    "StreamProgress": "penstock.spark._progress",
    "advice": "penstock.spark._settings",
    "convert_checkpoint": "penstock.spark._checkpoint",
    "drop_repeated": "penstock.spark._sink_rows",
    "register": "penstock.spark._session",
    "session": "penstock.spark._session",
    "with_metrics": "penstock.spark._progress",
}

__all__ = [*_HOME_OF]  # noqa: PLE0604 - the keys are strings


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value: object = getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRAS["spark"].modules:
            raise
        raise refusal("spark", f"penstock.spark.{name}") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
