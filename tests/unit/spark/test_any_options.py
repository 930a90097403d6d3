"""Whatever is given as options, the answer is options or one of our errors."""

from __future__ import annotations

import json
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigError, UsageError
from penstock.model import Offset, Partition
from penstock.spark._options import OURS, SourceOptions, parse_options
from penstock.spark._starts import resolve
from tests.unit.spark.listed_log import ListedLog

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["t", "0", "1", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
).map(json.dumps)
WORDS = st.sampled_from(
    [
        "true",
        "warn",
        "earliest",
        "latest",
        "committed:latest",
        "-2h",
        "now",
        "5",
        "-1",
        "64m",
        "10s",
        "a,b",
        "a.*",
        "key,offset",
    ]
)
VALUES = JSON | WORDS | st.text(max_size=12)
NAMES = st.sampled_from([name for name in OURS if name not in {"path", "kafka.bootstrap.servers"}])


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_options_are_parsed_or_refused(given: dict[str, str]) -> None:
    with suppress(ConfigError):
        assert isinstance(parse_options({"path": "kafka://h:1/t", **given}), SourceOptions)


@given(st.text(max_size=40))
def test_addresses_are_parsed_or_refused(path: str) -> None:
    with suppress(ConfigError):
        parse_options({"path": path})


@given(st.sampled_from(["startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"]), VALUES)
def test_starts_are_found_or_refused(name: str, text: str) -> None:
    log = ListedLog({Partition("t", 0): (3, 9), Partition("t", 1): (0, 0)})
    with suppress(ConfigError, UsageError):
        options = parse_options({"path": "kafka://h:1/t", "group": "g", name: text})
        earliest, latest = log.earliest(log.bounds), log.latest(log.bounds)
        wanted = Offset.LATEST if options.starting is None else options.starting
        found = resolve("startingOffsets", wanted, earliest=earliest, latest=latest, log=log, group="g")
        assert found.keys() == log.bounds.keys()
        assert all(offset >= 0 for offset in found.values())
