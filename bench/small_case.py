"""One case of small requests in its own process: ``python -m bench.small_case JOB`` prints its result as JSON.

`bench.scenarios.small` runs it. A reader prints ``@ready`` to start its writer; a writer keeps a constant rate.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

__all__ = ["PARTS"]


def send(job: Mapping[str, Any]) -> Mapping[str, object]:
    """Send one by one."""
    from bench.clients import small_writing

    value = b"x" * job["value_bytes"]
    given = small_writing.SmallJob(job["bootstrap"], job["topic"], value, job["count"], job["warm"])
    return asdict(getattr(small_writing, job["case"])(given))


def read(job: Mapping[str, Any]) -> Mapping[str, object]:
    """Read records as they arrive."""
    from bench.clients import small_reading

    given = small_reading.TrickleJob(job["bootstrap"], job["topic"], job["count"], job["warm"])
    found: Mapping[str, object] = getattr(small_reading, job["case"])(given).result()
    return found


def commit(job: Mapping[str, Any]) -> Mapping[str, object]:
    """Commit record by record."""
    from bench.clients import small_commits

    given = small_commits.CommitJob(job["bootstrap"], job["topic"], job["topic"], job["count"], job["warm"])
    return asdict(getattr(small_commits, job["case"])(given))


def ask(job: Mapping[str, Any]) -> Mapping[str, object]:
    """Send a question, and wait for the answer."""
    from bench.clients import small_round_trips
    from bench.clients.small_reading import TrickleJob

    given = TrickleJob(job["bootstrap"], job["topic"], job["count"])
    found: Mapping[str, object] = getattr(small_round_trips, job["case"])(given).result()
    return found


def answer(job: Mapping[str, Any]) -> Mapping[str, object]:
    """Answer questions."""
    from bench.clients import small_round_trips
    from bench.clients.small_reading import TrickleJob

    small_round_trips.answer(TrickleJob(job["bootstrap"], job["topic"], job["count"]))
    return {}


def pace(job: Mapping[str, Any]) -> Mapping[str, object]:
    """Write ``count`` records at ``rate`` per second with confluent-kafka; each value begins with its time."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": job["bootstrap"], "linger.ms": 0, "acks": "all"})
    rest = b"x" * (job["value_bytes"] - 20)
    step = 1 / job["rate"]
    begun = time.monotonic()
    late = 0
    for number in range(job["count"]):
        while (left := begun + number * step - time.monotonic()) > 0:
            producer.poll(0)
            time.sleep(min(left, 0.01))
        late += left < -0.05
        producer.produce(job["topic"], b"%020d" % time.monotonic_ns() + rest, partition=0)
    producer.flush(30)
    return {"late": late}


def raw(job: Mapping[str, Any]) -> Mapping[str, object]:
    """Send the same bytes again and again."""
    from bench.clients import small_raw

    rest = {name: value for name, value in job.items() if name not in {"part", "case"}}
    return small_raw.run(job["case"], small_raw.RawJob(**rest))._asdict()


def connections(job: Mapping[str, Any]) -> Mapping[str, object]:
    """Send from many producers of a real client."""
    from bench.clients import small_connections

    rest = {name: value for name, value in job.items() if name not in {"part", "case"}}
    return small_connections.CASES[job["case"]](**rest)._asdict()


def tubemq(job: Mapping[str, Any]) -> Mapping[str, object]:
    """Send to TubeMQ, or read from it."""
    from bench.clients import small_tubemq

    rest = {name: value for name, value in job.items() if name not in {"part", "what", "case"}}
    return small_tubemq.CASES[job["what"]][job["case"]](small_tubemq.SmallTubeJob(**rest))


PARTS: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, object]]] = {
    "send": send,
    "read": read,
    "commit": commit,
    "ask": ask,
    "answer": answer,
    "pace": pace,
    "raw": raw,
    "connections": connections,
    "tubemq": tubemq,
}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(PARTS[given["part"]](given)), flush=True)
    os._exit(0)
