"""Times in every notation, and nothing that is none."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from penstock.errors import ConfigError
from penstock.spark._option_values import Moment, duration_ms, moment

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("1700000000123", 1_700_000_000_123),
        (0, 0),
        ("now", NOW_MS),
        ("-2h", NOW_MS - 7_200_000),
        ("- 1h 30 min", NOW_MS - 5_400_000),
        ("-1.5d", NOW_MS - 129_600_000),
        ("-500ms", NOW_MS - 500),
        ("-2 weeks", NOW_MS - 14 * 86_400_000),
        ("+1h", NOW_MS + 3_600_000),
        ("-100000d", 0),
        ("2023-11-14T22:13:20Z", NOW_MS),
        ("2023-11-14 22:13:20", NOW_MS),
        ("2023-11-15T06:13:20.250+08:00", NOW_MS + 250),
        ("2023-11-14", 1_699_920_000_000),
        (datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), NOW_MS),
        (datetime(2023, 11, 15, 0, 13, 20, tzinfo=timezone(timedelta(hours=2))), NOW_MS),
        (str(datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)), NOW_MS),  # what .option(name, datetime) makes of it
    ],
)
def test_notations(given: object, expected: int) -> None:
    assert moment("startingTimestamp", given).at(NOW_MS) == expected


def test_a_time_before_now_moves_with_now() -> None:
    assert moment("x", "-1s") == Moment(-1_000, relative=True)
    assert moment("x", "-1s").at(5_000) == 4_000


@pytest.mark.parametrize("given", ["", "-", "-2", "-2 fortnights", "2h", "tomorrow", "1e9", True, "2023-13-01", "-h"])
def test_what_is_no_time_is_told(given: object) -> None:
    with pytest.raises(ConfigError, match="x = "):
        moment("x", given)


@pytest.mark.parametrize(
    ("text", "expected"), [("15m", 900_000), ("500ms", 500), ("1h 30m", 5_400_000), ("10 seconds", 10_000)]
)
def test_lengths_of_time(text: str, expected: int) -> None:
    assert duration_ms("x", text) == expected


@pytest.mark.parametrize("text", ["", "5", "-5s", "0s", "5 parsecs"])
def test_what_is_no_length_of_time_is_told(text: str) -> None:
    with pytest.raises(ConfigError):
        duration_ms("x", text)
