"""Real clients with several connections at the same time; each sends a record and waits for it before the next one.

The result is the server's CPU; the clients warm up first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from bench.clients import small_java, small_jvm
from bench.clients.small_messages import VALUE
from bench.clients.small_raw import Used
from bench.servers import Server

__all__ = ["CASES"]


def confluent(bootstrap: str, topic: str, *, connections: int, warm: int, count: int, pid: int) -> Used:
    """One librdkafka producer per connection; each has a record in flight, and all of them are awaited."""
    from confluent_kafka import Producer

    producers: list[Any] = [
        Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0})
        for _ in range(connections)
    ]

    def send(turns: int) -> None:
        for _ in range(turns):
            for each in producers:
                each.produce(topic, VALUE)
            for each in producers:
                if each.flush(30):
                    raise RuntimeError("a record was not acknowledged in 30 s")

    server = Server("", "", pid)
    send(max(1, warm // connections))
    spent, begun = server.cpu_s(), time.perf_counter()
    send(count // connections)
    return Used(time.perf_counter() - begun, server.cpu_s() - spent)


def java(bootstrap: str, topic: str, *, connections: int, warm: int, count: int, pid: int) -> Used:
    """One Java producer per connection, each in its own thread."""
    server = Server("", "", pid)
    spent = 0.0

    def begun() -> None:
        nonlocal spent
        spent = server.cpu_s()

    options = {
        "kind": "send",
        "bootstrap": bootstrap,
        "topic": topic,
        "count": count,
        "warm": max(warm, connections),
        "producers": connections,
    }
    said = small_jvm.measured(small_java.line(options), begun=begun)
    return Used(float(str(said["seconds"])), server.cpu_s() - spent)


CASES: Final[Mapping[str, Callable[..., Used]]] = {"librdkafka": confluent, "Java": java}
