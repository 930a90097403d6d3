"""Eight members of one group, four of them Java's, behind two Snodes, and somebody who writes meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from penstock.client import Consumer
from penstock.config import OptionValue
from penstock.errors import PenstockError
from tests.chaos.plain_sockets import free_port
from tests.chaos.snode_process import SnodeProcess
from tests.interop.rocketmq.owners import Owners
from tools.peers import rocketmq, rocketmq_clients
from tools.peers.java_driver import Driver

__all__ = ["Eight", "eight", "snode_before"]

TOPIC, GROUP = "flow", "eight"
_OURS = 4
_SETTINGS: dict[str, OptionValue] = {
    "auto_offset_reset": "earliest",
    "auto_commit_interval_ms": 500,
    "request_timeout_ms": 2_000,
    "first_contact_timeout_ms": 30_000,
}


def snode_before(cluster: rocketmq.Cluster, port: int, *words: str) -> SnodeProcess:
    """One that is not started yet."""
    return SnodeProcess(f"rocketmq://{cluster.address.replace(';', ',')}", f"rocketmq://127.0.0.1:{port}", *words)


class Ours:
    """A member of penstock's in a thread; ``found`` is what it was given."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._held: set[str] = set()
        self.found: set[bytes] = set()
        self.failed: list[PenstockError] = []

    def held(self) -> set[str]:
        """Its queues, named as Java's members name them."""
        return self._held

    def _run(self) -> None:
        with Consumer(f"{self._address}/{TOPIC}", group=GROUP, **_SETTINGS) as consumer:
            while not self._enough.is_set():
                try:
                    self.found.update(record.value or b"" for record in consumer.poll(0.2))
                except PenstockError as error:
                    self.failed.append(error)
                self._held = {f"{each.topic}:{each.node}:{each.id}" for each in consumer.assignment()}
        self._held = set()

    def __enter__(self) -> Ours:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()


@dataclass(slots=True)
class Eight:
    """All of it; ``snodes`` may be killed."""

    snodes: list[SnodeProcess]
    ports: list[int]
    address: str
    java: Sequence[Driver]
    ours: Sequence[Ours]
    owners: Owners
    queues: set[str] = field(default_factory=set)

    @property
    def found(self) -> set[bytes]:
        """What any member was given."""
        return {body for each in self.java for body in each.bodies} | {
            body for each in self.ours for body in each.found
        }

    def owned(self) -> list[str]:
        """Every queue as often as it has an owner, sorted."""
        held = [*(self.owners.held(each) for each in self.java), *(each.held() for each in self.ours)]
        return sorted(queue for each in held for queue in each)


@contextmanager
def eight(cluster: rocketmq.Cluster) -> Iterator[Eight]:
    """Running, each with its share of 16 queues. Half of Java's are 4.9's."""
    cluster.create_topic(TOPIC, 16 // len(cluster.brokers))
    ports = [free_port(), free_port()]
    with ExitStack() as running:
        enter = running.enter_context
        snodes = [enter(snode_before(cluster, port)) for port in ports]
        places = [f"127.0.0.1:{port}" for port in ports]
        java = [
            enter(rocketmq_clients.push(";".join(places), GROUP, TOPIC, version=version))
            for version in (*rocketmq.VERSIONS, *rocketmq.VERSIONS)
        ]
        ours = [enter(Ours(f"rocketmq://{places[at % 2]},{places[1 - at % 2]}")) for at in range(_OURS)]
        owners = enter(Owners(TOPIC, java, [each.held for each in ours]))
        queues = {
            f"{TOPIC}:{name}:{number}" for name, count in cluster.queues(TOPIC).items() for number in range(count)
        }
        yield Eight(snodes, ports, f"rocketmq://{','.join(places)}", java, ours, owners, queues)
