"""The meter of a TubeMQ front: what its numbers are called, and what there is of something now."""

from __future__ import annotations

from penstock.interfaces.front import Meter
from penstock.interfaces.node import Services
from penstock.protocols.tubemq.front.master.groups import Groups
from penstock.protocols.tubemq.front.master.producers import Producers
from penstock.protocols.tubemq.front.telling import CODES
from penstock.protocols.tubemq.methods import METHODS

__all__ = ["meter_of"]


def meter_of(services: Services, groups: Groups, producers: Producers) -> Meter:
    """Made anew."""
    made = services.meters.front("tubemq", _api, CODES)
    made.levels.update(
        groups=lambda: sum(1 for _ in groups),
        members=lambda: groups.members,
        producers=lambda: len(producers.topics()),
    )
    return made


def _api(number: int) -> str | None:
    method = METHODS.get(number)
    return None if method is None else method.name.replace(" ", "_")
