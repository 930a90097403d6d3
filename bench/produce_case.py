"""One producer case in its own process: ``python -m bench.produce_case JOB`` prints its result as JSON.

`bench.scenarios.produce` runs it, creates the topic and counts the records.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

from bench.clients.writing import ProduceJob, ProducerCase
from bench.topics import records

__all__ = ["CASES", "main"]

CASES: Mapping[str, str] = {
    "penstock Producer.send": "send",
    "penstock AsyncProducer.send": "async_send",
    "penstock send_batch (Arrow)": "send_batch",
    "confluent-kafka produce()": "confluent",
}
"""The function in `bench.clients.producers` of each case."""


def main(job: Mapping[str, object]) -> None:
    """Run the case and print its result."""
    case = cast(ProducerCase, getattr(importlib.import_module("bench.clients.producers"), CASES[str(job["case"])]))
    pairs = records(int(str(job["value_bytes"])))
    spent = case(ProduceJob(str(job["bootstrap"]), str(job["topic"]), pairs, int(str(job["count"]))))
    print(json.dumps(asdict(spent)), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
    os._exit(0)
