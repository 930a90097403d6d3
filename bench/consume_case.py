"""One consumer case in its own process: ``python -m bench.consume_case JOB`` prints its result as JSON.

`bench.scenarios.consume` runs it; JOB says what to read and how.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Mapping
from typing import cast

from bench.clients.reading import ConsumerCase, Job
from bench.metering import Meter

__all__ = ["MODULES", "main"]

MODULES: Mapping[str, str] = {
    "penstock RangeReader": "bench.clients.ours:range_reader",
    "penstock RangeReader, all columns": "bench.clients.ours:range_reader_all",
    "penstock Consumer": "bench.clients.ours:consumer",
    "penstock AsyncConsumer": "bench.clients.ours:async_consumer",
    "confluent-kafka": "bench.clients.confluent:consume",
    "aiokafka": "bench.clients.aiokafka_client:consume",
    "kafka-python": "bench.clients.kafka_python:consume",
}
"""The function of each case; Java's case is a separate program."""


def main(job: Mapping[str, object]) -> None:
    """Run the case and print its result."""
    module, _, name = MODULES[str(job["case"])].partition(":")
    case = cast(ConsumerCase, getattr(importlib.import_module(module), name))
    partitions = [int(text) for text in str(job["partitions"]).split(",")]
    meter = Meter(thorough=bool(job["thorough"]))
    case(Job(str(job["bootstrap"]), str(job["topic"]), partitions, int(str(job["count"]))), meter)
    print(json.dumps(meter.result()), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
    # The figure is printed; exit without waiting for a rival's library to shut down its threads.
    os._exit(0)
