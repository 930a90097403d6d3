"""Errors about a job's options call them what the job calls them."""

from __future__ import annotations

import re

import pytest

from penstock.errors import ConfigError
from penstock.spark._options import parse_options
from penstock.spark._sink_options import parse_sink_options

SERVERS = {"kafka.bootstrap.servers": "h:1"}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"kafka.enable.idempotence": "true", "kafka.acks": "1"}, "but kafka.enable.idempotence needs kafka.acks=all"),
        ({"kafka.Linger.Ms": "-1"}, "kafka.Linger.Ms is -1"),
        ({"kafka.delivery.timeout.ms": "5"}, "kafka.delivery.timeout.ms is 5"),
        ({"kafka.max.request.size": "large"}, "kafka.max.request.size is 'large'"),
    ],
)
def test_of_the_sink(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        parse_sink_options({**SERVERS, **given})


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"kafka.fetch.min.bytes": "-1"}, "kafka.fetch.min.bytes is -1"),
        ({"kafka.retry.backoff.ms": "5000"}, "kafka.retry.backoff.ms is 5000"),
    ],
)
def test_of_the_source(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        parse_options({**SERVERS, "subscribe": "t", **given})
