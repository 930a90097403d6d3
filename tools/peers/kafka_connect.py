"""Kafka Connect: workers in distributed mode on loopback, which are controlled over REST."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.peers import jvm, kafka
from tools.peers.java_server import JavaServer

__all__ = ["FILE_SINK", "FILE_SOURCE", "GROUP", "INTERNAL", "Worker", "worker"]

GROUP = "connect"
INTERNAL = {"config": "connect-configs", "offset": "connect-offsets", "status": "connect-status"}
"""The topics in which workers keep their state, by kind of state."""

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
ASK_WITHIN_S = 30.0


@dataclass(slots=True, kw_only=True)
class Worker(JavaServer):
    """One worker; workers of the same group share connectors and tasks. It is ready once it has joined its group."""

    def create(self, connector: str, config: Mapping[str, str]) -> None:
        """Create a connector. Raises OSError, also while the group rebalances."""
        self._ask("PUT", f"/connectors/{connector}/config", config)

    def status(self, connector: str) -> Any:
        """States and workers of the connector and its tasks. Raises OSError, also while they are unknown."""
        return self._ask("GET", f"/connectors/{connector}/status")

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://{self.endpoint}{path}", data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=ASK_WITHIN_S) as answer:
            return json.load(answer)


def worker(
    home: Path,
    bootstrap: str,
    name: str,
    *,
    version: str = kafka.NEWEST_APPS,
    settings: Mapping[str, str] | None = None,
) -> Worker:
    """A worker of `GROUP`, not started yet, that keeps its files in ``home``. Raises maven.Unavailable."""
    (port,) = jvm.free_ports(1)
    home.mkdir(parents=True, exist_ok=True)
    file = home / f"{name}.properties"
    lines = {**_properties(bootstrap, port), **(settings or {})}
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()), encoding="utf-8")
    path = f"{kafka.jars(version)}/*:{kafka.app_jars(version)}/*"
    log = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    line = [jvm.java(), "-Xmx256m", *jvm.everywhere(), *jvm.QUICK, log, "-cp", path, main, str(file)]
    made = Worker(name=name, home=home, line=line, ready=lambda: None, port=port)
    made.ready = lambda: made._ask("GET", "/connectors")
    return made


def _properties(bootstrap: str, port: int) -> dict[str, str]:
    """Settings with short timeouts: a missing worker is noticed soon, and its tasks are reassigned without a delay."""
    strings = "org.apache.kafka.connect.storage.StringConverter"
    names = {f"{kind}.storage.topic": topic for kind, topic in INTERNAL.items()}
    copies = {f"{kind}.storage.replication.factor": "1" for kind in INTERNAL}
    return {
        "bootstrap.servers": bootstrap,
        "group.id": GROUP,
        "key.converter": strings,
        "value.converter": strings,
        **names,
        **copies,
        "offset.storage.partitions": "3",
        "status.storage.partitions": "2",
        "offset.flush.interval.ms": "500",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
        "scheduled.rebalance.max.delay.ms": "0",
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.discovery": "service_load",
    }
