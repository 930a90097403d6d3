"""From what is counted all over a node to samples, when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from penstock._version import __version__
from penstock.seams.meters import OTHER, Meter, Name
from penstock.snode.ops import system
from penstock.snode.ops.exposition import Histogram, Sample
from penstock.snode.ops.families import FAMILIES, Family
from penstock.snode.ops.watched import Watched

__all__ = ["readings"]

_FAMILY: Final[Mapping[str, Family]] = {each.name: each for each in FAMILIES}
_LEVELS: Final = {
    "held": "penstock_held_requests",
    "groups": "penstock_groups",
    "members": "penstock_group_members",
    "producer_groups": "penstock_producer_groups",
    "producers": "penstock_producers",
}
_OTHER: Final = "other"


def readings(node: Watched, *, ready: bool, lag_s: float, started_s: float) -> Iterator[Sample]:
    """All of a node's metrics now, in the order of `FAMILIES`."""
    found: dict[str, list[Sample]] = {each.name: [] for each in FAMILIES}

    def add(name: str, value: float | Histogram | None, *labels: str) -> None:
        if value is not None:
            found[name].append(Sample(_FAMILY[name], value, labels))

    add("penstock_build_info", 1, __version__)
    add("penstock_ready", int(ready))
    for meter in node.meters.fronts.values():
        _of_front(add, meter)
    for scheme, listener in node.listeners.items():
        add("penstock_connections", listener.connections, scheme)
        add("penstock_connections_accepted_total", listener.accepted, scheme)
        add("penstock_connections_refused_total", listener.refused, scheme)
        add("penstock_bytes_total", listener.received, scheme, "in")
        add("penstock_bytes_total", listener.sent, scheme, "out")
    add("penstock_memory_budget_bytes", node.budget.limit)
    add("penstock_memory_held_bytes", node.budget.limit - node.budget.free)
    _of_enode(add, node)
    add("penstock_loop_lag_seconds", lag_s)
    add("process_cpu_seconds_total", system.cpu_s())
    add("process_resident_memory_bytes", system.resident_bytes())
    add("process_open_fds", system.open_files())
    add("process_start_time_seconds", started_s)
    for samples in found.values():
        yield from samples


class _Add(Protocol):
    """What `readings` hands to its parts."""

    def __call__(self, name: str, value: float | Histogram | None, *labels: str) -> None: ...


def _of_front(add: _Add, meter: Meter) -> None:
    for api, served in sorted(meter.served.items()):
        histogram = Histogram(served.buckets, served.seconds)
        add("penstock_request_seconds", histogram, meter.scheme, _named(meter.api, api))
    for (api, code), count in sorted(meter.errors.items()):
        add("penstock_errors_total", count, meter.scheme, _named(meter.api, api), _named(meter.code, code))
    for level, read in meter.levels.items():
        add(_LEVELS[level], read(), meter.scheme)


def _of_enode(add: _Add, node: Watched) -> None:
    for name, away in node.standing.items():
        add("penstock_enode_up", int(away is None), name)
    carried = [channel.carried() for channel in node.channels]
    add("penstock_enode_connections", sum(each.connections for each in carried))
    add("penstock_enode_connections_opened_total", sum(each.opened for each in carried))
    add("penstock_enode_connections_failed_total", sum(each.failed for each in carried))
    add("penstock_enode_requests_under_way", sum(each.under_way for each in carried))
    add("penstock_enode_bytes_total", sum(each.received for each in carried), "in")
    add("penstock_enode_bytes_total", sum(each.sent for each in carried), "out")


def _named(name: Name, number: int) -> str:
    return _OTHER if number == OTHER else name(number) or _OTHER
