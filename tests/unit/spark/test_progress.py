"""What a stream's progress says, gathered and as Prometheus text."""

from __future__ import annotations

import json
from typing import Any

from penstock.model import Partition
from penstock.spark._progress import PartitionLag, StreamProgress, parse_progress, prometheus_text, with_metrics

P0, P1 = Partition("t", 0), Partition("t", 1)
OURS = {
    "startOffset": {"v": 1, "from": {"t": {"0": 0}}, "to": {"t": {"0": 0}}},
    "endOffset": {"v": 1, "from": {"t": {"0": 0, "1": 0}}, "to": {"t": {"0": 40, "1": 5}}},
    "latestOffset": {
        "v": 1,
        "from": {"t": {"0": 40, "1": 5}},
        "to": {"t": {"0": 100, "1": 5}},
        "behind": {
            "seconds": {"t": {"0": 12.5, "1": 0}},
            "bytes": 6_000,
            "batchBytes": 4_500,
            "lostOffsets": 3,
            "failedCommits": 1,
        },
    },
    "numInputRows": 45,
}


def as_text(source: dict[str, Any]) -> dict[str, Any]:
    return {name: json.dumps(value) if name.endswith("Offset") else value for name, value in source.items()}


def test_lag_of_each_partition() -> None:
    for source in (OURS, as_text(OURS)):
        (found,) = parse_progress({"sources": [source]})
        assert found.lag == {P0: PartitionLag(40, 60, 12.5), P1: PartitionLag(5, 0, 0)}
        assert (found.rows, found.size_bytes, found.lost_offsets, found.failed_commits) == (45, 4_500, 3, 1)


def test_sources_of_others_are_left_alone() -> None:
    others = [
        {"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 9}}, "numInputRows": 5},
        {"endOffset": 17, "latestOffset": None},
        {"endOffset": "no json", "latestOffset": "{"},
        {},
    ]
    assert parse_progress({"sources": others}) == []


def test_progress_without_a_report_has_offsets_only() -> None:
    (found,) = parse_progress({"sources": [{**OURS, "latestOffset": None}]})
    assert found.lag[P0] == PartitionLag(40, 0, None)


def test_totals_grow_batch_by_batch_and_idle_progress_counts_nothing() -> None:
    stream = StreamProgress("q")
    sources = parse_progress({"sources": [OURS]})
    stream.add(0, 1.5, sources)
    stream.add(1, 0.5, sources)
    stream.add(1, 0.0, parse_progress({"sources": [{**OURS, "numInputRows": 0}]}))
    assert (stream.batches, stream.rows, stream.size_bytes) == (2, 90, 9_000)


def test_text_for_prometheus() -> None:
    stream = StreamProgress('a "name"')
    stream.add(7, 1.25, parse_progress({"sources": [OURS]}))
    text = prometheus_text({"id-1": stream})
    labels = 'id="id-1",query="a \\"name\\""'
    for line in (
        "# TYPE penstock_stream_rows_total counter",
        f"penstock_stream_rows_total{{{labels}}} 45",
        f"penstock_stream_batch_duration_seconds{{{labels}}} 1.25",
        f"penstock_stream_running{{{labels}}} 1",
        f'penstock_stream_lag_offsets{{{labels},topic="t",partition="0"}} 60',
        f'penstock_stream_lag_seconds{{{labels},topic="t",partition="0"}} 12.5',
        f'penstock_stream_offset{{{labels},topic="t",partition="1"}} 5',
        f'penstock_stream_maxOffsetsBehindLatest{{{labels},source="0"}} 60',
        f'penstock_stream_avgOffsetsBehindLatest{{{labels},source="0"}} 30',
    ):
        assert line in text.splitlines()
    assert text.endswith("\n")
    assert all(line.startswith(("# HELP ", "# TYPE ", "penstock_stream_")) for line in text.splitlines())


def test_unknown_age_is_left_out() -> None:
    stream = StreamProgress("q", lag={Partition("t", 0, "broker-a"): PartitionLag(1, 2, None)})
    text = prometheus_text({"id": stream})
    assert "lag_seconds{" not in text
    assert 'penstock_stream_lag_offsets{id="id",query="q",topic="t",partition="0",node="broker-a"} 2' in text


def test_prometheus_own_parser_understands_it() -> None:
    from prometheus_client import parser

    stream = StreamProgress('new\nline \\ and "quotes"')
    stream.add(0, 1.0, parse_progress({"sources": [OURS]}))
    families = {each.name: each for each in parser.text_string_to_metric_families(prometheus_text({"id": stream}))}
    (rows,) = families["penstock_stream_rows"].samples
    assert (rows.value, rows.labels["query"]) == (45, stream.name)


def test_metrics_have_the_names_and_the_looks_of_sparks_own_connector() -> None:
    other = {"description": "rate", "metrics": {"its": "own"}}
    told = with_metrics({"id": "q", "sources": [as_text(OURS), other]})
    assert told["sources"][0]["metrics"] == {
        "avgOffsetsBehindLatest": "30.0",
        "maxOffsetsBehindLatest": "60",
        "minOffsetsBehindLatest": "0",
        "estimatedTotalBytesBehindLatest": "6000",
    }
    assert told["sources"][1] == other


def test_nothing_is_claimed_of_an_end_that_is_not_known() -> None:
    (found,) = parse_progress({"sources": [{**OURS, "latestOffset": None}]})
    assert found.metrics == {}
