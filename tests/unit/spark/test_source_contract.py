"""What Spark relies on without saying so: cheap constructors, small pickles, a module that never fails to import."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("pyspark")

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from penstock.model import LogRange, Partition
from penstock.spark import PenstockDataSource
from penstock.spark._follow import Follower
from penstock.spark._options import parse_options
from penstock.spark._reading import BatchReader, FilteringReader, StreamReader
from penstock.spark._tasks import ReadTask
from tests.unit.spark.listed_log import ListedLog

# Nothing listens there: whoever connects too early fails.
OPTIONS = {"path": "kafka://127.0.0.1:1/t", "kafka.client.id": "secret"}
PICKLER = CloudPickleSerializer()
P0, P1 = Partition("t", 0), Partition("t", 1)


def reader(log: ListedLog, **options: str) -> StreamReader:
    made = StreamReader(parse_options({**OPTIONS, **options}))
    made._followed = Follower(made.options, log)
    return made


def test_nothing_connects_before_it_is_asked_to_plan() -> None:
    source = PenstockDataSource(dict(OPTIONS))
    assert source.schema().startswith("key binary, value binary, topic string")
    copy = PICKLER.loads(PICKLER.dumps(source))
    assert copy.schema() == source.schema()


def test_reader_travels_small_and_without_its_connections() -> None:
    made = reader(ListedLog({P0: (0, 5)}))
    made.initialOffset()
    pickled = PICKLER.dumps(made)
    assert len(pickled) < 2_000
    assert PICKLER.loads(pickled)._followed is None


def test_task_carries_all_it_needs() -> None:
    task = ReadTask([LogRange("t", 0, 5, 9)])
    copy = PICKLER.loads(PICKLER.dumps(task))
    assert isinstance(copy, InputPartition)
    assert copy.ranges == (LogRange("t", 0, 5, 9),)
    assert repr(copy) == "ReadTask(t-0[5:9])"


def test_read_of_nothing_yields_nothing() -> None:
    made = reader(ListedLog({}))
    assert list(made.read(InputPartition(None))) == []  # Spark's stand-in for an empty list of tasks
    assert list(made.read(ReadTask([]))) == []


def test_planning_trusts_the_end_alone() -> None:
    made = reader(ListedLog({P0: (0, 5), P1: (0, 9)}), startingOffsets="earliest")
    start = json.loads(json.dumps(made.initialOffset()))
    end = json.loads(json.dumps(made.latestOffset(start, ReadAllAvailable())))
    for other_start in (start, {"anything": 1}, end):
        tasks = made.partitions(other_start, end)
        assert [each for task in tasks for each in task.ranges] == [LogRange("t", 0, 0, 5), LogRange("t", 1, 0, 9)]
    assert made.partitions(start, start) == []


def test_idle_stream_answers_with_the_very_start() -> None:
    made = reader(ListedLog({P0: (0, 5)}))
    shuffled = {"to": {"t": {"0": 5}}, "v": 1, "from": {"t": {"0": 2}}}
    assert json.dumps(made.latestOffset(shuffled, ReadAllAvailable())) == json.dumps(shuffled)


def test_read_limit_is_the_option_and_what_spark_says_wins() -> None:
    made = reader(ListedLog({P0: (0, 50)}), startingOffsets="earliest", maxOffsetsPerTrigger="7")
    assert made.getDefaultReadLimit() == ReadMaxRows(7)
    assert reader(ListedLog({})).getDefaultReadLimit() == ReadAllAvailable()
    start = made.initialOffset()
    assert made.latestOffset(start, ReadMaxRows(7))["to"] == {"t": {"0": 7}}
    assert made.latestOffset(start, ReadAllAvailable())["to"] == {"t": {"0": 50}}


def test_report_shows_what_is_left() -> None:
    made = reader(ListedLog({P0: (0, 50)}), startingOffsets="earliest")
    assert made.reportLatestOffset() is None
    made.latestOffset(made.initialOffset(), ReadMaxRows(7))
    made._follower.log.clock_ms = 10_500  # record 7 was written at 7 s
    assert made.reportLatestOffset() == {
        "v": 1,
        "from": {"t": {"0": 7}},
        "to": {"t": {"0": 50}},
        "behind": {
            "seconds": {"t": {"0": 3.5}},
            "bytes": 4_300,
            "batchBytes": 700,
            "lostOffsets": 0,
            "failedCommits": 0,
        },
    }


def test_signatures_are_those_spark_calls() -> None:
    for name in ("initialOffset", "latestOffset", "partitions", "commit", "reportLatestOffset", "getDefaultReadLimit"):
        ours = inspect.signature(getattr(StreamReader, name)).parameters
        assert list(ours) == list(inspect.signature(getattr(DataSourceStreamReader, name)).parameters)
    # Overriding it makes every batch read fail where filter push-down is switched off, which is the default.
    assert "pushFilters" not in vars(type(PenstockDataSource(dict(OPTIONS)).reader(schema_of_source())))


def schema_of_source() -> object:
    from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType, TimestampType

    made = StructType()
    for name, kind in (
        ("key", BinaryType()),
        ("value", BinaryType()),
        ("topic", StringType()),
        ("partition", IntegerType()),
        ("offset", LongType()),
        ("timestamp", TimestampType()),
        ("timestampType", IntegerType()),
    ):
        made.add(name, kind)
    return made


def test_filters_are_taken_only_in_the_program_that_spark_hands_them_to(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(PenstockDataSource(dict(OPTIONS)).reader(schema_of_source())) is BatchReader
    monkeypatch.setitem(sys.modules, "pyspark.sql.worker.data_source_pushdown_filters", sys)
    assert type(PenstockDataSource(dict(OPTIONS)).reader(schema_of_source())) is FilteringReader


def run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_shim_imports_nothing_of_ours() -> None:
    run(
        """
        import sys
        import pyspark.sql.datasource
        before = set(sys.modules)
        import pyspark_penstock
        assert pyspark_penstock.DefaultSource.name() == "penstock"
        assert set(sys.modules) - before == {"pyspark_penstock"}, set(sys.modules) - before
        """
    )


@pytest.mark.parametrize("broken", ["pyspark", "pyspark.sql.datasource", "penstock"])
def test_shim_never_fails_to_import(broken: str) -> None:
    run(
        f"""
        import sys
        sys.modules[{broken!r}] = None
        import pyspark_penstock
        assert hasattr(pyspark_penstock, "DefaultSource") == ({broken!r} == "penstock")
        """
    )


def test_shim_hands_over() -> None:
    from pyspark_penstock import DefaultSource

    source = DefaultSource(dict(OPTIONS))
    assert source.schema() == PenstockDataSource(dict(OPTIONS)).schema()
    assert isinstance(source.streamReader(schema_of_source()), StreamReader)
