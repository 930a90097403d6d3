"""The operators' page of a node over HTTP: ``/healthz``, ``/readyz`` and ``/metrics``.

The module has, in this order: `Readiness`, the table of all metrics (`FAMILIES`), figures
of the process from Linux, Prometheus' text format (`text`), the collection of samples (`readings`) and the front that
serves the page (`OpsFront`).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from http import HTTPStatus
from itertools import accumulate
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from penstock._version import __version__
from penstock.concurrency.runtime import Runtime
from penstock.errors import PenstockError
from penstock.interfaces.framing import Frame
from penstock.interfaces.front import BOUNDS_S, OTHER, Front, Meter, Name, Peer
from penstock.interfaces.http import HttpRequest, RequestFraming, encode_response
from penstock.interfaces.node import Reachable
from penstock.net.connecting import ListenerOptions
from penstock.snode.status import Stage, Watched

__all__ = [
    "CONTENT_TYPE",
    "FAMILIES",
    "LISTENER",
    "Answer",
    "Family",
    "Histogram",
    "Kind",
    "OpsFront",
    "Readiness",
    "Sample",
    "cpu_s",
    "open_files",
    "readings",
    "resident_bytes",
    "text",
]

# HTTP for probes and scrapers: one GET or HEAD per connection.
_HEAD_BYTES: Final = 8 << 10
_METHODS: Final = ("GET", "HEAD")
_TEXT: Final = "text/plain; charset=utf-8"


class Answer(Struct, frozen=True):
    """An HTTP response, not yet encoded."""

    status: HTTPStatus
    body: str
    content_type: str = _TEXT


# Readiness: whether a node can serve clients now, and if not, why, in one sentence.
_FRESH_S: Final = 5.0
"""A result is reused for this long, so that probes cost the cluster behind the node next to nothing."""
_STALE_S: Final = 15.0
"""A result older than this (no probe came since) is ignored."""
_PATIENCE_S: Final = 0.7
"""Orchestrators time out a probe after one second by default."""
_LONGEST_S: Final = 5.0
_SILENT: Final = "the cluster behind has not answered yet"


class Readiness:
    """Asks the cluster behind the node whether it can be reached, only when a probe comes and at most every 5 s."""

    def __init__(self, node: Watched, now: Callable[[], float]) -> None:
        self._node = node
        self._now = now
        self._looked_s: float | None = None
        self._why: str | None = None
        self._looking: asyncio.Task[None] | None = None

    async def why_not(self) -> str | None:
        """Why the node is not ready; None if it is.

        It waits at most `_PATIENCE_S` for the cluster, and then returns the previous result.
        """
        if self._node.stage is not Stage.SERVING:
            return str(self._node.stage)
        enode = _asked_of(self._node.enode)
        if enode is None:
            return None
        if self._looked_s is None or self._now() - self._looked_s >= _FRESH_S:
            # Concurrent probes share one request to the cluster; a probe that times out does not cancel it.
            self._looking = self._looking or asyncio.ensure_future(self._look(enode))
            await asyncio.wait({self._looking}, timeout=_PATIENCE_S)
        unknown = self._looked_s is None or self._now() - self._looked_s > _STALE_S
        return _SILENT if unknown else self._why

    def but(self) -> str:
        """The clusters of a ready node that are away, one line each."""
        return "".join(f"but {name} is away: {why}\n" for name, why in self._node.standing.items() if why is not None)

    def stop(self) -> None:
        """Cancel a request in progress."""
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self, enode: Reachable) -> None:
        try:
            async with asyncio.timeout(_LONGEST_S):
                self._why = await enode.unreachable()
        except TimeoutError:
            self._why = f"the cluster behind did not answer within {_LONGEST_S:g} s"
        except PenstockError as error:
            self._why = error.message
        finally:
            self._looked_s, self._looking = self._now(), None


def _asked_of(enode: object) -> Reachable | None:
    """The enode that can be asked; None if topics are kept in the node itself."""
    return enode if isinstance(enode, Reachable) else None


# The table of all metrics. The documentation page is generated from it.
class Kind(Enum):
    """Prometheus' metric type."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Family(Struct, frozen=True):
    """One metric: name, kind, help text and names of labels."""

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
    Family("penstock_ready", _G, "1 where /readyz answers 200; checked when the page is read, at most every 5 s."),
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
    Family(
        "penstock_enode_up",
        _G,
        "1 where it can be reached; only where topics live in several places.",
        ("enode",),
    ),
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

# Facts about this process from Linux' /proc; None on systems without it.
_OWN: Final = Path("/proc/self")


def cpu_s() -> float:
    """User and system time, in seconds."""
    return time.process_time()


def resident_bytes() -> int | None:
    """Resident memory in bytes; source: Linux, proc(5), statm."""
    try:
        return int((_OWN / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def open_files() -> int | None:
    """The number of open file descriptors."""
    try:
        return sum(1 for _ in (_OWN / "fd").iterdir())
    except OSError:
        return None


# Prometheus' text format, written here rather than with ``prometheus_client``, so that every installation has metrics.
#
# That library keeps counters behind locks, at several times the cost of an addition, and would be one more package in
# the smallest image. Tests read this output with its parser.
# Source: Prometheus documentation, "Exposition formats", text format 0.0.4.
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_BOUNDS: Final = (*(f"{bound:g}" for bound in BOUNDS_S), "+Inf")


class Histogram(Struct, frozen=True):
    """Counts per bucket of `BOUNDS_S` (not cumulative), and the sum of the measured values."""

    buckets: Sequence[int]
    total: float


class Sample(Struct, frozen=True):
    """A value of a family; ``labels`` are label values in the family's order."""

    family: Family
    value: float | Histogram
    labels: tuple[str, ...] = ()


def text(samples: Iterable[Sample]) -> str:
    """The whole page. The samples of a family must be consecutive."""
    return "".join(f"{line}\n" for line in _lines(samples))


def _lines(samples: Iterable[Sample]) -> Iterator[str]:
    last: Family | None = None
    for sample in samples:
        family = sample.family
        if family is not last:
            last = family
            yield f"# HELP {family.name} {family.says}"
            yield f"# TYPE {family.name} {family.kind.value}"
        if isinstance(sample.value, Histogram):
            yield from _histogram(family, sample.labels, sample.value)
        else:
            yield f"{family.name}{_labels(family.labels, sample.labels)} {_number(sample.value)}"


def _histogram(family: Family, labels: tuple[str, ...], found: Histogram) -> Iterator[str]:
    names = (*family.labels, "le")
    counts = list(accumulate(found.buckets))
    for bound, count in zip(_BOUNDS, counts, strict=True):
        yield f"{family.name}_bucket{_labels(names, (*labels, bound))} {count}"
    written = _labels(family.labels, labels)
    yield f"{family.name}_sum{written} {_number(found.total)}"
    yield f"{family.name}_count{written} {counts[-1]}"


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    if not names:
        return ""
    said = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True))
    return f"{{{said}}}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))


# Collects samples from all parts of a node when the page is requested.
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
    add("process_cpu_seconds_total", cpu_s())
    add("process_resident_memory_bytes", resident_bytes())
    add("process_open_fds", open_files())
    add("process_start_time_seconds", started_s)
    for samples in found.values():
        yield from samples


class _Add(Protocol):
    """The function through which the parts of `readings` add samples."""

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


# The page is a front like the others, so that its connections are limited like theirs.
LISTENER: Final = ListenerOptions(
    max_connections=32, idle_timeout_s=10.0, write_limit_bytes=8 << 20, concurrent_frames=1, backlog=32
)
"""Enough for a handful of probes and scrapers; slow connections are closed."""

_TICK_S: Final = 1.0
_TICKS: Final = 60


class OpsFront(Front):
    """``penstock.interfaces.front.Front``."""

    scheme = "http"

    def __init__(self, node: Watched, runtime: Runtime) -> None:
        self._node = node
        self._runtime = runtime
        self._readiness = Readiness(node, runtime.monotonic)
        self._late: deque[float] = deque(maxlen=_TICKS)
        self._started_s = time.time()

    async def start(self) -> None:
        """Begin to measure the event loop's lag."""
        self._runtime.spawn(self._watch_lag(), "see how late timers are")

    def session(self, peer: Peer) -> _Session:
        return _Session(self, peer)

    async def stop(self) -> None:
        """Stop asking the cluster behind the node."""
        self._readiness.stop()

    async def answer(self, path: str) -> Answer:
        """The response for a path."""
        if path == "/metrics":
            ready = await self._readiness.why_not() is None
            lag_s = max(self._late, default=0.0)
            return Answer(
                HTTPStatus.OK,
                text(readings(self._node, ready=ready, lag_s=lag_s, started_s=self._started_s)),
                CONTENT_TYPE,
            )
        if path == "/healthz":
            failed = self._node.stage is Stage.FAILED
            return _verdict(str(Stage.FAILED) if failed else None, "alive")
        if path == "/readyz":
            why_not = await self._readiness.why_not()
            return _verdict(why_not, "ready", self._readiness.but())
        return Answer(HTTPStatus.NOT_FOUND, "/metrics, /healthz and /readyz are served here\n")

    async def _watch_lag(self) -> None:
        now = asyncio.get_running_loop().time  # not the node's clock, which leaves out the lag that is measured here
        while True:
            due = now() + _TICK_S
            await self._runtime.sleep(_TICK_S)
            self._late.append(max(0.0, now() - due))


class _Session:
    """``penstock.interfaces.front.Session``."""

    ordered = True
    at_once = False

    def __init__(self, front: OpsFront, peer: Peer) -> None:
        self._front = front
        self._peer = peer

    def framing(self) -> RequestFraming:
        return RequestFraming(most_head=_HEAD_BYTES, most_body=_HEAD_BYTES)

    async def handle(self, frame: Frame) -> None:
        """Respond and close the connection."""
        assert isinstance(frame, HttpRequest)
        if frame.refused is not None:
            status, why = frame.refused
            self._peer.push(encode_response(status, _TEXT, f"{why}\n"))
        elif frame.method not in _METHODS:
            headers = ["Allow: GET, HEAD"]
            self._peer.push(encode_response(HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, "GET or HEAD\n", headers=headers))
        else:
            found = await self._front.answer(frame.target.partition("?")[0])
            head_only = frame.method == "HEAD"
            self._peer.push(encode_response(found.status, found.content_type, found.body, head_only=head_only))
        self._peer.hang_up()

    def lost(self) -> None:
        """Nothing to clean up."""


def _verdict(why_not: str | None, well: str, but: str = "") -> Answer:
    if why_not is None:
        return Answer(HTTPStatus.OK, f"{well}\n{but}")
    return Answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{why_not}\n")
