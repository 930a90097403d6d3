"""What a Spark task does when it writes: hand its batches to a producer, wait until every row is stored, say how many.

Runs in Spark's worker processes, which are reused for many tasks: so producers, with their connections and their
idempotent identity, are kept in a module-level table. What must not live here: transactions, PySpark.
"""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.client import BatchDelivery, Producer
from penstock.config import OptionValue
from penstock.errors import PenstockError
from penstock.spark._sink_columns import Columns
from penstock.spark._sink_options import SinkOptions
from penstock.spark._sink_rows import RowIds, by_topic, with_row_ids

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MOST_PRODUCERS", "close_kept", "send_all", "write_task"]

MOST_PRODUCERS = 4
"""Producers kept per worker process: with more combinations of cluster and options, tasks reconnect."""

_Key = tuple[str, tuple[tuple[str, OptionValue], ...]]
_producers: dict[_Key, Producer] = {}


def write_task(
    options: SinkOptions, columns: Columns, batches: Iterable[pa.RecordBatch], ids: RowIds | None = None
) -> int:
    """Write all rows, and return how many; each is acknowledged by then. At least once: a retry writes them again.

    Raises the producer's error; nothing more of this task is sent then, and what was sent stays written.
    """
    key = (options.address, tuple(sorted(options.client.items())))
    # Taken out while in use, and not put back if the task fails: then it is not used again.
    producer = _producers.pop(key, None) or Producer(options.address, **options.patient)
    try:
        rows = send_all(producer, options, columns, batches, ids)
    except BaseException:
        # A task that has failed must not send its waiting rows: the next attempt sends them.
        with suppress(PenstockError):
            producer.close(timeout_s=0)
        raise
    _keep(key, producer)
    return rows


def send_all(
    producer: Producer,
    options: SinkOptions,
    columns: Columns,
    batches: Iterable[pa.RecordBatch],
    ids: RowIds | None = None,
) -> int:
    """Send all rows and wait until they are stored. Raises the first error, as soon as it is known."""
    waiting: deque[BatchDelivery] = deque()
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        for topic, part in by_topic(batch, columns, options.topic):
            waiting.append(producer.send_batch(topic, part if ids is None else with_row_ids(part, ids)))
        while waiting and waiting[0].done():
            waiting.popleft().result()
    producer.flush()
    for delivery in waiting:
        delivery.result()
    return rows


@atexit.register
def close_kept() -> None:
    """Close the kept producers; no rows wait in them."""
    while _producers:
        _producers.popitem()[1].close(timeout_s=0)


def _keep(key: _Key, producer: Producer) -> None:
    _producers[key] = producer
    while len(_producers) > MOST_PRODUCERS:
        oldest = next(iter(_producers))
        _producers.pop(oldest).close()
