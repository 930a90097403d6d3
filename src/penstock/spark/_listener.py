"""A listener for streaming queries: rows, bytes and lag of every stream that reads one of our logs.

>>> listener = penstock.spark.StreamListener()                  # doctest: +SKIP
>>> spark.streams.addListener(listener)                         # doctest: +SKIP
>>> print(listener.prometheus())                                # doctest: +SKIP

``_progress`` interprets Spark's progress.
"""

# ruff: noqa: N802 - the names of methods are Spark's

from __future__ import annotations

import os
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

from msgspec.structs import replace
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from penstock.spark._progress import StreamProgress, parse_progress, prometheus_text, with_metrics

__all__ = ["StreamListener"]

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class StreamListener(StreamingQueryListener):
    """Follows all streaming queries of a session, in one of Spark's threads; may be read from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._streams: dict[str, StreamProgress] = {}
        self._server: ThreadingHTTPServer | None = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._stream(str(event.id), event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        result = with_metrics(event.progress)
        sources = parse_progress(result)
        stream = self._stream(str(result["id"]), result.get("name"))
        with self._lock:
            stream.running, stream.error = True, None
            stream.add(int(result["batchId"]), result.get("batchDuration", 0) / 1_000, sources)
            stream.progress = result

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """No new data: the last progress stays."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        stream = self._stream(str(event.id), None)
        with self._lock:
            stream.running, stream.error = False, event.exception

    @property
    def streams(self) -> Mapping[str, StreamProgress]:
        """The progress of each query, by its id; a copy."""
        with self._lock:
            return {query: replace(stream) for query, stream in self._streams.items()}

    def prometheus(self) -> str:
        """All progress in Prometheus' text format."""
        return prometheus_text(self.streams)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the same text to a file, atomically, as node_exporter's textfile collector needs it."""
        target = Path(path)
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        beside.write_text(self.prometheus(), encoding="utf-8")
        beside.replace(target)

    def serve(self, port: int = 0, host: str = "127.0.0.1") -> str:
        """Answer scrapes until ``close``; returns the address. Port 0 takes a free one."""
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = listener.prometheus().encode()
                self.send_response(200)
                self.send_header("Content-Type", _CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Scrapes are not logged."""

        self.close()
        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        Thread(target=self._server.serve_forever, name="penstock-metrics", daemon=True).start()
        return f"http://{host}:{self._server.server_port}/metrics"

    def close(self) -> None:
        """Stop answering scrapes."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _stream(self, query: str, name: str | None) -> StreamProgress:
        with self._lock:
            stream = self._streams.setdefault(query, StreamProgress(name or query))
            stream.name = name or stream.name
            return stream
