"""Several threads, one producer; what cannot be stored goes to a dead-letter topic.

    python threads.py kafka://127.0.0.1:9092 payments < payments.jsonl

A producer is for any number of threads. Its callbacks say what became of each record; they may send.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import penstock

THREADS = 4
AT_ONCE = 1_000  # lines that a thread takes


def settle(producer: penstock.Producer, line: bytes, delivery: penstock.Delivery) -> None:
    error = delivery.exception()
    if error is not None:
        producer.send("dead-letters", line, headers={"why": str(error).encode()})


def work(producer: penstock.Producer, topic: str, lines: Iterable[bytes]) -> int:
    """Check and send some lines; returns how many of them were no payments."""
    bad = 0
    for line in lines:
        try:
            key = json.loads(line)["account"].encode()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            producer.send("dead-letters", line, headers={"why": f"{type(error).__name__}: {error}".encode()})
            bad += 1
        else:
            producer.send(topic, line, key=key).add_done_callback(partial(settle, producer, line))
    return bad


def main(address: str, topic: str) -> None:
    lines = [line.rstrip(b"\n") for line in sys.stdin.buffer]
    pieces = [lines[at : at + AT_ONCE] for at in range(0, len(lines), AT_ONCE)]
    with penstock.Producer(address, compression="zstd") as producer, ThreadPoolExecutor(THREADS) as pool:
        bad = sum(pool.map(partial(work, producer, topic), pieces))
        producer.flush()
    print(f"{len(lines) - bad} payments, {bad} lines that are none")


if __name__ == "__main__":
    main(*sys.argv[1:])
