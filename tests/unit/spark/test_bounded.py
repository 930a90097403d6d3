"""A batch read's range: everything by default, and told apart: mistakes, and records that are gone."""

import pytest

from penstock.errors import ConfigError, UsageError
from penstock.model import Partition
from penstock.spark._bounded import bounded, check_for_batch
from penstock.spark._loss import DataLoss
from penstock.spark._offsets import BatchOffset
from penstock.spark._options import SourceOptions, parse_options
from tests.unit.spark.listed_log import ListedLog

P0 = Partition("t", 0)
LOG = ListedLog({P0: (10, 20)})


def options(start: int, end: int, **more: str) -> SourceOptions:
    spelled = {"startingOffsets": f'{{"t":{{"0":{start}}}}}', "endingOffsets": f'{{"t":{{"0":{end}}}}}'}
    return parse_options({"path": "kafka://h:1/t", **spelled, **more})


def test_everything_that_is_there_by_default() -> None:
    assert bounded(parse_options({"path": "kafka://h:1/t"}), LOG, {P0}) == BatchOffset({P0: 10}, {P0: 20})


@pytest.mark.parametrize(
    ("start", "end", "read"), [(12, 15, (12, 15)), (-2, -1, (10, 20)), (-1, -1, (20, 20)), (10, 20, (10, 20))]
)
def test_given_offsets(start: int, end: int, read: tuple[int, int]) -> None:
    assert bounded(options(start, end), LOG, {P0}) == BatchOffset({P0: read[0]}, {P0: read[1]})


@pytest.mark.parametrize(
    ("start", "end", "told", "read"),
    [
        (5, 15, "5 offsets; the log starts at 10", (10, 15)),
        (5, 8, "3 offsets", (8, 8)),
        (12, 25, "ends at 20", (12, 20)),
        (22, 25, "ends at 20", (20, 20)),
        (22, -1, "ends at 20", (20, 20)),
    ],
)
def test_what_is_not_there_is_an_error_unless_allowed(start: int, end: int, told: str, read: tuple[int, int]) -> None:
    with pytest.raises(DataLoss, match=told):
        bounded(options(start, end), LOG, {P0})
    assert bounded(options(start, end, failOnDataLoss="false"), LOG, {P0}) == BatchOffset({P0: read[0]}, {P0: read[1]})


def test_end_before_start_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="from 15 to 12"):
        bounded(options(15, 12, failOnDataLoss="false"), LOG, {P0})


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"startingTimestamp": "12500"}, (13, 20)),
        ({"startingTimestamp": "-4s"}, (16, 20)),
        ({"startingOffsetsByTimestamp": '{"t":{"0":15000}}', "endingTimestamp": "17000"}, (15, 17)),
        ({"endingOffsetsByTimestamp": '{"t":{"0":"1970-01-01T00:00:18Z"}}'}, (10, 18)),
        ({"endingTimestamp": "999999"}, (10, 20)),
        (
            {"startingTimestamp": "999999", "startingOffsetsByTimestampStrategy": "latest"},
            (20, 20),
        ),
        # The more precise one wins, as in Spark.
        ({"startingTimestamp": "12000", "startingOffsetsByTimestamp": '{"t":{"0":15000}}'}, (12, 20)),
        ({"startingOffsetsByTimestamp": '{"t":{"0":15000}}', "startingOffsets": "earliest"}, (15, 20)),
        ({"startingOffsets": "committed", "group": "g"}, (14, 20)),
        ({"startingOffsets": "committed:earliest", "group": "other"}, (10, 20)),
        ({"startingOffsets": "committed:latest", "group": "other"}, (20, 20)),
    ],
)
def test_starts_and_ends_that_the_log_is_asked_about(given: dict[str, str], read: tuple[int, int]) -> None:
    log = ListedLog({P0: (10, 20)})
    log.clock_ms = 20_000
    log.committed_by = {"g": {P0: 14}}
    found = bounded(parse_options({"path": "kafka://h:1/t", **given}), log, {P0})
    assert found == BatchOffset({P0: read[0]}, {P0: read[1]})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"startingTimestamp": "999999"}, "startingTimestamp: no record at or after that time in t-0"),
        ({"startingOffsets": "committed", "group": "other"}, "group other has committed no offset for t-0"),
        ({"startingOffsetsByTimestamp": '{"u":{"0":1}}'}, "startingOffsetsByTimestamp has nothing for t-0"),
    ],
)
def test_what_the_log_has_no_answer_for_is_told(given: dict[str, str], told: str) -> None:
    with pytest.raises((ConfigError, UsageError), match=told):
        bounded(parse_options({"path": "kafka://h:1/t", **given}), LOG, {P0})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"commitOffsets": "true", "group": "g"}, "commitOffsets is for streams"),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest in a batch"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets cannot be latest in a batch"),
    ],
)
def test_what_makes_no_sense_in_a_batch_is_told(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        check_for_batch(parse_options({"path": "kafka://h:1/t", **given}))
