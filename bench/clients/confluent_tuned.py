"""Settings with which confluent-kafka reads fastest. It imports nothing, because measured fresh processes use it."""

from __future__ import annotations

__all__ = ["TUNED"]

TUNED: dict[str, str | int | float | bool] = {
    # librdkafka stops fetching for fetch.queue.backoff.ms (1000 by default!) once a partition's queue is full: with
    # its defaults a fast reader sees a tenth of what the library can do.
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1 << 20,
    "max.partition.fetch.bytes": 4 << 20,
    "check.crcs": True,
}
