"""Every metric of a node: name, kind, labels, and what it says. The page of them is written from this table.

What must not live here: where the numbers come from (`readings`), and the text (`exposition`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from penstock._dataclasses import dataclass

__all__ = ["FAMILIES", "Family", "Kind"]


class Kind(Enum):
    """What Prometheus calls it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric; ``labels`` tell its values apart."""

    name: str
    kind: Kind
    says: str
    labels: tuple[str, ...] = ()


_C, _G, _H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_FRONT: Final = ("front",)
_API: Final = ("front", "api")
_WAY: Final = ("front", "direction")

FAMILIES: Final[Sequence[Family]] = (
    Family("penstock_build_info", _G, "1, with the version that runs.", ("version",)),
    Family("penstock_ready", _G, "1 where /readyz answers 200; looked at anew every 5 s while somebody scrapes."),
    Family(
        "penstock_request_seconds",
        _H,
        "From a request's arrival to its answer, by what was asked. Polls that are held count with their hold.",
        _API,
    ),
    Family(
        "penstock_errors_total",
        _C,
        "Codes in answers that say no, by the protocol's own names; an answer about many partitions has many. "
        "PULL_NOT_FOUND and the like are how clients learn that there is nothing to read.",
        ("front", "api", "code"),
    ),
    Family("penstock_held_requests", _G, "Polls that wait for messages now.", _FRONT),
    Family("penstock_connections", _G, "Clients connected now.", _FRONT),
    Family("penstock_connections_accepted_total", _C, "Clients that have connected.", _FRONT),
    Family(
        "penstock_connections_refused_total",
        _C,
        "Clients over max_connections, or over their address's share of it, closed at once.",
        _FRONT,
    ),
    Family("penstock_bytes_total", _C, "Bytes that came from clients (in) and went to them (out).", _WAY),
    Family("penstock_groups", _G, "Groups of consumers known to the front.", _FRONT),
    Family("penstock_group_members", _G, "Their members together.", _FRONT),
    Family(
        "penstock_producer_groups",
        _G,
        "Groups of producers that say they are there, where the protocol has such groups.",
        _FRONT,
    ),
    Family("penstock_producers", _G, "Producers that say they are there, where the protocol has them say so.", _FRONT),
    Family("penstock_memory_budget_bytes", _G, "memory_bytes: what all connections together may hold."),
    Family("penstock_memory_held_bytes", _G, "What they hold; those that hold little are not counted."),
    Family("penstock_enode_up", _G, "1 where it can be reached; told where topics live in several places.", ("enode",)),
    Family("penstock_enode_connections", _G, "Connections to the cluster behind that are open now."),
    Family("penstock_enode_connections_opened_total", _C, "Connections to it that were opened."),
    Family("penstock_enode_connections_failed_total", _C, "Attempts to open one that failed."),
    Family("penstock_enode_requests_under_way", _G, "Requests to it that are not answered yet."),
    Family("penstock_enode_bytes_total", _C, "Bytes that came from it (in) and went to it (out).", ("direction",)),
    Family("penstock_loop_lag_seconds", _G, "How late a timer of a second was, at most, in the last minute."),
    Family("process_cpu_seconds_total", _C, "CPU time of the process, user and system."),
    Family("process_resident_memory_bytes", _G, "Memory of the process; missing where the system does not say."),
    Family("process_open_fds", _G, "Open files and sockets; missing where the system does not say."),
    Family("process_start_time_seconds", _G, "When the node began to serve this page, since 1970 UTC."),
)
