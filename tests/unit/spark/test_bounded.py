"""A batch read's range: everything by default, and told apart: mistakes, and records that are gone."""

import pytest

from penstock.errors import ConfigError
from penstock.model import Partition
from penstock.spark._bounded import bounded
from penstock.spark._loss import DataLoss
from penstock.spark._offsets import BatchOffset
from penstock.spark._options import SourceOptions, parse_options

P0 = Partition("t", 0)
EARLIEST, LATEST = {P0: 10}, {P0: 20}


def options(start: int, end: int, **more: str) -> SourceOptions:
    spelled = {"startingOffsets": f'{{"t":{{"0":{start}}}}}', "endingOffsets": f'{{"t":{{"0":{end}}}}}'}
    return parse_options({"path": "kafka://h:1/t", **spelled, **more})


def test_everything_that_is_there_by_default() -> None:
    assert bounded(parse_options({"path": "kafka://h:1/t"}), EARLIEST, LATEST) == BatchOffset(EARLIEST, LATEST)


@pytest.mark.parametrize(
    ("start", "end", "read"), [(12, 15, (12, 15)), (-2, -1, (10, 20)), (-1, -1, (20, 20)), (10, 20, (10, 20))]
)
def test_given_offsets(start: int, end: int, read: tuple[int, int]) -> None:
    assert bounded(options(start, end), EARLIEST, LATEST) == BatchOffset({P0: read[0]}, {P0: read[1]})


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
        bounded(options(start, end), EARLIEST, LATEST)
    assert bounded(options(start, end, failOnDataLoss="false"), EARLIEST, LATEST) == BatchOffset(
        {P0: read[0]}, {P0: read[1]}
    )


def test_end_before_start_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="from 15 to 12"):
        bounded(options(15, 12, failOnDataLoss="false"), EARLIEST, LATEST)
