"""Which airport's flights travel through which protocol: a topic a route, all on one node.

What must not live here: connections.
"""

from __future__ import annotations

from penstock._dataclasses import dataclass

__all__ = ["ADMIN", "ROUTES", "Route"]

ADMIN = "kafka"
"""The protocol that topics are made through: whichever it is, all fronts serve them."""


@dataclass(frozen=True, slots=True)
class Route:
    """One topic. ``step``: how far apart the offsets of neighbours are; TubeMQ counts bytes of an index, 28 a record.

    ``options``: of the address, where the protocol needs some.
    """

    scheme: str
    topic: str
    origins: tuple[str, ...]
    step: int = 1
    options: str = ""


ROUTES = (
    Route("kafka", "flights", ("EWR",)),
    Route("rocketmq", "flights_of_jfk", ("JFK",)),
    # A TubeMQ group that was never here stands where this option says, as soon as somebody asks where it stands.
    Route("tubemq", "flights_of_lga", ("LGA",), step=28, options="consume_position=first"),
)
