"""The progress of streams that read our logs, taken from Spark's progress, and as Prometheus text (format 0.0.4).

It needs no connection to a log, because the planner writes its knowledge of the log into the progress (``_follow``).
This module imports no Spark classes; ``_listener`` does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from penstock.model import Partition
from penstock.spark._offsets import BatchOffset

__all__ = ["PartitionLag", "SourceProgress", "StreamProgress", "parse_progress", "prometheus_text", "with_metrics"]


_BYTES_BEHIND = "estimatedTotalBytesBehindLatest"


class PartitionLag(Struct, frozen=True):
    """``offset`` is read next; ``offsets`` is the number of offsets from there to the end of the log.

    ``seconds`` is the age of the oldest unread record: 0.0 if there is none, None if it is unknown.
    """

    offset: int
    offsets: int
    seconds: float | None


class SourceProgress(Struct, frozen=True):
    """One of our sources in one batch. ``size_bytes`` is the estimated size of the batch's keys, values and headers."""

    rows: int
    size_bytes: int
    lag: Mapping[Partition, PartitionLag]
    lost_offsets: int
    failed_commits: int
    bytes_behind: int | None = None
    """Estimated bytes left to read; None before the first sample."""
    end_known: bool = True
    """Whether Spark reported the end of the log; otherwise ``lag`` cannot be known."""

    @property
    def metrics(self) -> dict[str, str]:
        """The values that Spark's own connector, and Databricks', put into ``sources[].metrics``, with their names."""
        behind = [lag.offsets for lag in self.lag.values()]
        if not behind or not self.end_known:
            return {}
        found = {
            "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
            "maxOffsetsBehindLatest": str(max(behind)),
            "minOffsetsBehindLatest": str(min(behind)),
        }
        return found if self.bytes_behind is None else {**found, _BYTES_BEHIND: str(self.bytes_behind)}


class StreamProgress(Struct):
    """One query since it was first seen: totals, and its latest batch."""

    name: str
    batches: int = 0
    rows: int = 0
    size_bytes: int = 0
    batch_seconds: float = 0.0
    lost_offsets: int = 0
    failed_commits: int = 0
    lag: dict[Partition, PartitionLag] = field(default_factory=dict)
    sources: list[SourceProgress] = field(default_factory=list)
    progress: Mapping[str, Any] = field(default_factory=dict)
    """Spark's own progress of the last batch, with ``sources[].metrics`` filled in."""
    running: bool = True
    error: str | None = None
    _last_batch: int = -1

    def add(self, batch: int, seconds: float, sources: list[SourceProgress]) -> None:
        """Count one progress. Progress of an idle query repeats the last batch's number and has no rows."""
        self.batches += batch != self._last_batch
        self._last_batch = batch
        self.batch_seconds = seconds
        self.rows += sum(each.rows for each in sources)
        self.size_bytes += sum(each.size_bytes for each in sources if each.rows)
        self.lost_offsets = sum(each.lost_offsets for each in sources)
        self.failed_commits = sum(each.failed_commits for each in sources)
        self.sources = sources
        self.lag = {partition: lag for each in sources for partition, lag in each.lag.items()}


def parse_progress(progress: Mapping[str, Any]) -> list[SourceProgress]:
    """Our sources in a ``StreamingQueryProgress`` (as parsed JSON); other sources are left out."""
    found = (_source(each) for each in progress.get("sources", ()))
    return [each for each in found if each is not None]


def with_metrics(progress: Any) -> dict[str, Any]:
    """A query's progress as parsed JSON, with the metrics of Spark's own connector added to our sources.

    For tools that read ``sources[].metrics``, which a Python source cannot fill in. ``progress`` comes from a listener
    or ``query.lastProgress``, as an object or as parsed JSON.

    >>> with_metrics(query.lastProgress)["sources"][0]["metrics"]["maxOffsetsBehindLatest"]  # doctest: +SKIP
    '1200'
    """
    spelled = getattr(progress, "json", None)
    result = dict(progress if spelled is None else json.loads(spelled))
    sources = [(each, _source(each)) for each in result.get("sources", ())]
    result["sources"] = [each if ours is None else {**each, "metrics": ours.metrics} for each, ours in sources]
    return result


def _source(result: Mapping[str, Any]) -> SourceProgress | None:
    ends, latest = (_json(result.get(name)) for name in ("endOffset", "latestOffset"))
    try:
        done = BatchOffset.from_json(ends).end
        known = BatchOffset.from_json(latest) if isinstance(latest, dict) and "behind" in latest else None
    except (ValueError, TypeError):
        return None
    behind: Mapping[str, Any] = latest["behind"] if known is not None else {}
    seconds = behind.get("seconds", {})
    lag = {}
    for partition, offset in done.items():
        end = known.end.get(partition, offset) if known is not None else offset
        key = f"{partition.node}/{partition.id}" if partition.node else str(partition.id)
        lag[partition] = PartitionLag(offset, max(0, end - offset), seconds.get(partition.topic, {}).get(key))
    return SourceProgress(
        rows=int(result.get("numInputRows", 0)),
        size_bytes=int(behind.get("batchBytes", 0)),
        lag=lag,
        lost_offsets=int(behind.get("lostOffsets", 0)),
        failed_commits=int(behind.get("failedCommits", 0)),
        bytes_behind=behind.get("bytes"),
        end_known=known is not None,
    )


def _json(offset: object) -> Any:
    try:
        return json.loads(offset) if isinstance(offset, str) else offset
    except (ValueError, RecursionError):
        return None


_QUERY_METRICS = (
    ("batches_total", "counter", "Batches that were completed"),
    ("rows_total", "counter", "Rows that were read"),
    ("bytes_total", "counter", "Estimated bytes of keys, values and headers that were read"),
    ("batch_duration_seconds", "gauge", "Duration of the last batch"),
    ("lost_offsets", "gauge", "Offsets that were skipped in this run because their records were gone"),
    ("failed_commits", "gauge", "Commits of the group that failed in this run"),
    ("running", "gauge", "1 while the query runs"),
)
_PARTITION_METRICS = (
    ("offset", "gauge", "Offset that is read next"),
    ("lag_offsets", "gauge", "Offsets between that and the end of the log"),
    ("lag_seconds", "gauge", "Age of the oldest record that is not read yet"),
)
_SOURCE_METRICS = (
    ("avgOffsetsBehindLatest", "gauge", "Offsets left to read, mean of a source's partitions"),
    ("maxOffsetsBehindLatest", "gauge", "Offsets left to read, most of a source's partitions"),
    ("minOffsetsBehindLatest", "gauge", "Offsets left to read, least of a source's partitions"),
    (_BYTES_BEHIND, "gauge", "Estimated bytes left to read"),
)
"""With the names that Spark's own connector uses."""


def prometheus_text(streams: Mapping[str, StreamProgress]) -> str:
    """All queries, by their ids, as a Prometheus server scrapes them."""
    lines: list[str] = []
    for name, kind, text in (*_QUERY_METRICS, *_PARTITION_METRICS, *_SOURCE_METRICS):
        lines += [f"# HELP penstock_stream_{name} {text}.", f"# TYPE penstock_stream_{name} {kind}"]
        for query, stream in streams.items():
            labels = {"id": query, "query": stream.name}
            for more, value in _values(name, stream):
                spelled = ",".join(f'{key}="{_escaped(text)}"' for key, text in {**labels, **more}.items())
                lines.append(f"penstock_stream_{name}{{{spelled}}} {value:.15g}")
    return "\n".join(lines) + "\n"


def _values(name: str, stream: StreamProgress) -> Iterator[tuple[dict[str, str], float]]:
    of_query: dict[str, float] = {
        "batches_total": stream.batches,
        "rows_total": stream.rows,
        "bytes_total": stream.size_bytes,
        "batch_duration_seconds": stream.batch_seconds,
        "lost_offsets": stream.lost_offsets,
        "failed_commits": stream.failed_commits,
        "running": stream.running,
    }
    if name in of_query:
        yield {}, of_query[name]
        return
    if name in {each for each, _, _ in _SOURCE_METRICS}:
        for number, source in enumerate(stream.sources):
            if name in source.metrics:
                yield {"source": str(number)}, float(source.metrics[name])
        return
    for partition, lag in sorted(stream.lag.items()):
        labels = {"topic": partition.topic, "partition": str(partition.id)}
        if partition.node:
            labels["node"] = partition.node
        value = {"offset": lag.offset, "lag_offsets": lag.offsets, "lag_seconds": lag.seconds}[name]
        if value is not None:
            yield labels, value


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
