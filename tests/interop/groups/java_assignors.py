"""Kafka's own assignors as a function: a group in, who gets what out. What must not live here: what is compared."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from penstock.groups import Racks, Subscriber
from penstock.model import Partition
from penstock.protocols.kafka.client.assignors import subscription_bytes
from tools.peers import kafka_java
from tools.peers.java_driver import Driver

Topics = Mapping[str, Sequence[Partition]]
CLASSES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


class JavaAssignors:
    """One JVM that answers any number of questions."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def assign(
        self, name: str, members: Sequence[Subscriber], topics: Topics, racks: Racks
    ) -> dict[str, list[Partition]]:
        asked = {
            "assignor": CLASSES[name],
            "topics": {topic: [sorted(racks.get(each, ())) for each in of] for topic, of in topics.items()},
            "members": [
                {"id": one.member_id, "instance": one.instance_id, "subscription": _subscription(one)}
                for one in members
            ],
        }
        shares = self._ask(asked, "shares")["shares"]
        return {who: [Partition(topic, number) for topic, number in share] for who, share in shares.items()}

    def user_data(self, name: str, had: Sequence[Partition], generation: int) -> bytes:
        remember = [[each.topic, each.id] for each in had]
        asked = {"assignor": CLASSES[name], "remember": remember, "generation": generation}
        return bytes(self._ask(asked, "remembered")["body"])

    def _ask(self, asked: object, event: str) -> dict[str, object]:  # type: ignore[type-arg]
        before = len(self._driver.events(event))
        self._driver.write(json.dumps(asked) + "\n")
        self._driver.wait(lambda driver: len(driver.events(event)) > before)
        return self._driver.events(event)[-1]


@contextmanager
def java_assignors() -> Iterator[JavaAssignors]:
    """Raises maven.Unavailable."""
    with kafka_java.driver("Assign", {}) as driver:
        yield JavaAssignors(driver)


def _subscription(member: Subscriber) -> str:
    told = subscription_bytes(member.topics, member.owned, member.generation, member.rack or "", member.user_data)
    return base64.b64encode(told).decode()
