"""The meter of a RocketMQ front: what its numbers are called, and what there is of something now."""

from __future__ import annotations

from collections.abc import Callable

from penstock.protocols.rocketmq.front.broker.groups import Clients
from penstock.protocols.rocketmq.front.telling import CODES
from penstock.protocols.rocketmq.methods import METHODS
from penstock.seams.meters import Meter
from penstock.seams.node import Services

__all__ = ["meter_of"]


def meter_of(services: Services, clients: Clients, held: Callable[[], int]) -> Meter:
    """Made anew; ``held``: how many pulls are held now."""
    made = services.meters.front("rocketmq", _api, CODES)
    made.levels.update(
        held=held,
        groups=lambda: len(clients.consumers),
        members=lambda: sum(len(each.ids) for each in clients.consumers.values()),
        producer_groups=lambda: len(clients.producers),
        producers=lambda: sum(len({one.who.client_id for one in each.values()}) for each in clients.producers.values()),
    )
    return made


def _api(number: int) -> str | None:
    method = METHODS.get(number)
    return None if method is None else method.name
