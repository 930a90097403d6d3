"""What both client transports share: options, backoff, the first-contact deadline, TLS, errors and log lines.

`UnreachableNodeLog` and `Silence` log servers that are unreachable or do not answer. `FirstContact` is the deadline for
the very first answer. `Stop` ends blocking calls from another thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from msgspec import Struct

from penstock.config import ClientConfig
from penstock.errors import Closed, ConfigError, ConnectionLost, FirstContactTimeout, PenstockError, RequestTimeout
from penstock.interfaces.channel import Backoff, Connection
from penstock.model import Endpoint

if TYPE_CHECKING:
    import ssl

__all__ = [
    "FIRST_S",
    "LARGEST_CORRELATION",
    "NO_ADDRESS",
    "REFUSAL_S",
    "Backoff",
    "FirstContact",
    "ListenerOptions",
    "OpenLink",
    "Silence",
    "Stop",
    "TransportOptions",
    "UnreachableNodeLog",
    "client_context",
    "hung_up",
    "lost",
    "no_connection",
    "reason",
    "says_nothing",
    "silent",
    "timed_out",
]

State = TypeVar("State")
AnyConnection = TypeVar("AnyConnection", bound=Connection)

LARGEST_CORRELATION = 2**31 - 1
"""Correlation ids are positive 32-bit integers in all three protocols; 1 follows the largest."""

NO_ADDRESS = (OSError, ValueError, OverflowError)
"""What connecting can raise: system errors, and errors for an invalid host or port, which may come from a peer."""


class OpenLink(Struct, Generic[AnyConnection, State], frozen=True):
    """``penstock.interfaces.channel.Link``."""

    connection: AnyConnection
    state: State


# The settings of a transport.
class TransportOptions(Struct, frozen=True):
    """Settings of a client's connections. Defaults are those of Kafka's Java clients unless noted otherwise.

    ``connect_timeout_s``: for one attempt, TCP (and TLS) plus the protocol's greeting.
    ``reconnect_backoff_ms`` doubles with each failure of an endpoint up to ``reconnect_backoff_max_ms``, give or take
    20 %.
    ``idle_timeout_s``: a connection unused for longer is reopened, before the server (600 s) closes it under a request.
    ``write_high_water_bytes``: a call waits while more than this is unsent, until a quarter of it is left.
    ``whose`` begins each line in the log; ``tried_until`` ends it, saying how long an unreachable server is tried. With
    ``ssl``, ``tls_server_name`` is the name that the certificate must have; None: the host of the address.
    """

    connect_timeout_s: float = 10.0
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    idle_timeout_s: float = 540.0
    write_high_water_bytes: int = 4 * 1024 * 1024
    whose: str = ""
    tried_until: str = ""
    ssl: ssl.SSLContext | None = None
    tls_server_name: str | None = None


class ListenerOptions(Struct, frozen=True):
    """Settings of a node's listener; together they limit what one connection, and all of them, can take.

    ``max_connections``: further connections are closed at once. ``address_percent`` of them may come from one address,
    so that one client cannot lock out all others.
    ``idle_timeout_s``: a connection without a frame for so long (and without a request being served) is closed; 600 s
    is Kafka's value.
    ``queued_frames`` and ``queued_bytes``: when so much waits behind the current request of an ordered session, its
    socket is no longer read. ``concurrent_frames``: the same for sessions that serve concurrently.
    ``write_high_water_bytes``: with more unsent, no further request is served. ``write_limit_bytes``: with more unsent,
    the client counts as dead, and its connection is closed.
    ``memory_bytes``: what all connections together may hold (see `Budget`); five of the largest requests of Kafka.
    """

    max_connections: int = 10_000
    address_percent: int = 50
    idle_timeout_s: float = 600.0
    queued_frames: int = 16
    queued_bytes: int = 16 * 1024 * 1024
    concurrent_frames: int = 4_096
    write_high_water_bytes: int = 1024 * 1024
    write_limit_bytes: int = 256 * 1024 * 1024
    memory_bytes: int = 512 * 1024 * 1024
    backlog: int = 1_024
    ssl: ssl.SSLContext | None = None


# Pauses between connection attempts. Arithmetic only.
class EndpointBackoff:
    """The pause per endpoint: doubles with each failure, and is reset by a success. Times are monotonic seconds."""

    def __init__(self, options: TransportOptions) -> None:
        self._options = options
        self._failures: dict[Endpoint, int] = {}
        self._not_before: dict[Endpoint, float] = {}
        self.troubles: dict[Endpoint, PenstockError] = {}
        """The error of the last attempt, by endpoint."""

    def delay(self, endpoint: Endpoint, now: float) -> float:
        """Seconds to wait before connecting."""
        return max(0.0, self._not_before.get(endpoint, 0.0) - now)

    @property
    def anywhere(self) -> bool:
        """Whether any endpoint is in backoff."""
        return bool(self._not_before)

    def failed(self, endpoint: Endpoint, now: float, random_number: float, error: BaseException | None = None) -> None:
        """Note another failure; ``random_number`` is uniform in [0, 1)."""
        if isinstance(error, PenstockError):
            self.troubles[endpoint] = error
        failures = self._failures.get(endpoint, 0)
        self._failures[endpoint] = failures + 1
        pauses = Backoff(
            self._options.reconnect_backoff_ms, self._options.reconnect_backoff_max_ms, lambda: random_number
        )
        self._not_before[endpoint] = now + pauses.seconds(failures + 1)

    def succeeded(self, endpoint: Endpoint) -> None:
        """Note that it was connected and greeted."""
        self.troubles.pop(endpoint, None)
        self._failures.pop(endpoint, None)
        self._not_before.pop(endpoint, None)


# Log lines about unreachable servers: once the state has lasted, repeated at intervals, and when it ends.
#
# A server is unreachable if it cannot be connected to, or if it owes an answer on an open connection and sends nothing.
_log = logging.getLogger("penstock.connection")
FIRST_S: Final = 5.0
_EVERY_S: Final = 30.0
_A_TICK_S: Final = 0.001
_FORGOTTEN_S: Final = 60.0
"""Without an attempt for so long, the server may have been reachable meanwhile."""


class _Absence(Struct):
    since: float
    seen: float
    logged: float | None = None


class UnreachableNodeLog:
    """Logs unreachable nodes. ``until`` says how long a node is tried, by the name of an option; ``whose`` begins each
    line.

    Times are seconds of a monotonic clock.
    """

    def __init__(self, until: str = "", whose: str = "") -> None:
        self._whose = whose
        self._until = f"; {until}" if until else ""
        self._absences: dict[Endpoint, _Absence] = {}

    def failed(self, endpoint: Endpoint, begun: float, now: float, cause: object) -> None:
        """An attempt that began at ``begun`` has failed."""
        if (lasted := self._to_tell(endpoint, begun, now)) is not None:
            _log.warning("%snode %s is away for %.0f s: %s%s", self._whose, endpoint, lasted, cause, self._until)

    def silent(self, endpoint: Endpoint, since: float, now: float) -> None:
        """It owes an answer, and has sent nothing since ``since``."""
        if self._to_tell(endpoint, since, now) is not None:
            _log.warning("%snode %s has not answered for %.0f s%s", self._whose, endpoint, now - since, self._until)

    def spoke(self, endpoint: Endpoint, now: float) -> None:
        """It answers again on a connection on which it was silent."""
        if (lasted := self._over(endpoint, now)) is not None:
            _log.warning("%snode %s answers again after %.0f s", self._whose, endpoint, lasted)

    def answered(self, endpoint: Endpoint, now: float) -> None:
        """It was connected and greeted."""
        if (lasted := self._over(endpoint, now)) is not None:
            _log.warning("%snode %s is back after %.0f s", self._whose, endpoint, lasted)

    def _to_tell(self, endpoint: Endpoint, begun: float, now: float) -> float | None:
        """Return how long it has been unreachable, if it is time for a line."""
        absence = self._absences.get(endpoint)
        if absence is None or begun - absence.seen > _FORGOTTEN_S:
            absence = self._absences[endpoint] = _Absence(begun, now)
        absence.seen = now
        lasted = now - absence.since
        if lasted < FIRST_S or (absence.logged is not None and now - absence.logged < _EVERY_S - _A_TICK_S):
            return None
        absence.logged = now
        return lasted

    def _over(self, endpoint: Endpoint, now: float) -> float | None:
        """Return how long it was unreachable, if a line has said so."""
        absence = self._absences.pop(endpoint, None)
        return now - absence.since if absence is not None and absence.logged is not None else None


# Silence on open connections.
#
# A frozen process, or one behind a broken network, keeps its connections, so only the clock shows it. Some requests
# take long on purpose (a long poll, a member that waits for its group); silence counts only from the end of that time.
_LOOK_EVERY_S: Final = 5.0


class Silence:
    """How long the peer of one connection has owed an answer and sent nothing. Times are monotonic seconds."""

    __slots__ = ("_away", "_endpoint", "_logged", "_since")

    def __init__(self, endpoint: Endpoint, away: UnreachableNodeLog) -> None:
        self._endpoint = endpoint
        self._away = away
        self._since = 0.0
        self._logged = False

    def asked(self, now: float, held_s: float, *, owed: bool) -> None:
        """A request was written; the peer may hold it for ``held_s``. ``owed``: another answer was due already."""
        if not owed:
            self._since = now + held_s
        elif held_s:
            self._since = max(self._since, now + held_s)

    def heard(self, now: float) -> None:
        """Bytes arrived, so the peer is alive, and may be working on the next answer."""
        self._since = max(self._since, now)
        if self._logged:
            self._logged = False
            self._away.spoke(self._endpoint, now)

    def look(self, now: float) -> float:
        """Log a silence that has lasted, while an answer is due; return the seconds until the next check."""
        left = self._since + FIRST_S - now
        if left > 0:
            return left
        self._logged = True
        self._away.silent(self._endpoint, self._since, now)
        return _LOOK_EVERY_S


# Texts of connection errors, in one line: the words of the system or of TLS, and what to check.
_BROKE: Final = "the connection broke"
_ERRNO: Final = re.compile(r"\[Errno (\d+)\]")
_PLAIN: Final = frozenset({"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"})
"""OpenSSL's reasons where the peer answers, but not in TLS."""


def reason(why: object) -> str:
    """Say what went wrong, never "". System errors get the system's text, without asyncio's words around it."""
    if isinstance(why, OSError):
        numbers = [why.errno] if why.errno else [int(found) for found in _ERRNO.findall(str(why))]
        if isinstance(why, socket.gaierror):
            return why.strerror or "its name cannot be resolved"
        if numbers:
            return ", ".join(dict.fromkeys(map(os.strerror, numbers)))
    return str(why) or _in_words(type(why).__name__)


def no_connection(endpoint: Endpoint, why: object, *, tls: bool = False) -> ConnectionLost:
    """The error for a failed attempt to connect. An untrusted certificate makes it final."""
    import ssl

    if isinstance(why, ssl.SSLCertVerificationError):
        error = ConnectionLost(
            f"the server's certificate is not believed: {why.verify_message}",
            node=str(endpoint),
            hint="Say tls_ca_file for whom to believe, and tls_server_name if it names another host",
        )
        error.retriable = False
        return error
    if isinstance(why, ssl.SSLError) or (tls and isinstance(why, ConnectionResetError | ConnectionAbortedError)):
        return ConnectionLost(
            f"cannot connect: no TLS with this server: {_without_tls(why)}",
            node=str(endpoint),
            hint=f"If {endpoint.port} is a port without TLS, leave tls out",
        )
    hint = f"Is anything listening on {endpoint}?"
    if isinstance(why, socket.gaierror):
        why = f"there is no address for the host {endpoint.host}: {reason(why)}"
        hint = "Is its name spelled right, here or where a server tells it to clients (what it advertises)?"
    elif isinstance(why, ValueError):
        host = f"{endpoint.host!r:.60}"
        return ConnectionLost(f"cannot connect: {host} is not a host name: {reason(why)}", node=host)
    return ConnectionLost(f"cannot connect: {reason(why)}", node=str(endpoint), hint=hint)


def silent(endpoint: Endpoint, timeout_s: float) -> ConnectionLost:
    """The error if a server accepted the connection, but did not get ready."""
    return ConnectionLost(
        f"connected, but not ready within {timeout_s:g} s: no answer to the first words",
        node=str(endpoint),
        hint=_something_else(endpoint),
    )


def says_nothing(endpoint: Endpoint) -> ConnectionLost:
    """The error if a server accepted the connection, and has not answered so far."""
    return ConnectionLost("connected, but it does not answer", node=str(endpoint), hint=_something_else(endpoint))


def hung_up(endpoint: Endpoint, why: object) -> ConnectionLost:
    """The error if a server accepted the connection, and closed it before it sent anything."""
    return ConnectionLost(
        f"{_BROKE}: {reason(why)}, before it had said anything",
        node=str(endpoint),
        hint=_something_else(endpoint),
    )


def lost(endpoint: Endpoint, why: object) -> ConnectionLost:
    """The error for an open connection that broke."""
    text = reason(why)
    again = text.startswith(_BROKE)  # another caller has got this error already
    return ConnectionLost(text if again else f"{_BROKE}: {text}", node=str(endpoint))


def timed_out(endpoint: Endpoint, timeout_s: float) -> RequestTimeout:
    """The error for a missing answer. The connection is closed, so that a late answer is not taken for another one."""
    return RequestTimeout(
        f"no answer within {timeout_s:g} s",
        node=str(endpoint),
        hint="The connection was closed; what was asked may still have happened.",
    )


def _something_else(endpoint: Endpoint) -> str:
    return f"Is {endpoint.port} a port of this protocol? Servers that want TLS, or speak another one, do this"


def _without_tls(why: ssl.SSLError | ConnectionError) -> str:
    said: str | None = getattr(why, "reason", None)
    if said is None or "EOF" in said:
        return "it hung up"
    return "it answers in something else" if said in _PLAIN else said.replace("_", " ").lower()


def _in_words(name: str) -> str:
    """``ConnectionResetError`` becomes "connection reset"."""
    return re.sub(r"(?<!^)([A-Z])", r" \1", name.removesuffix("Error")).lower()


# FirstContact: the deadline for the first answer, over all channels and calls of a client.
#
# Before any server has answered, a wrong address is more likely than the failure of all servers. So there is one
# deadline, counted from the first request for a connection; when it passes, everything that waits for the network ends
# with the same error. Channels alone keep it, because every first contact goes through one. After the first frame of
# the protocol the deadline is over for good, and each call has its usual timeout.
#
# Once the deadline has passed, calls fail at once for slightly longer than the client's longest pause between
# attempts, so that background retries get the error too. Later calls start a new deadline, so a client can be kept
# until its servers are up.
REFUSAL_S: Final = 0.1
"""A call that fails because the deadline has passed takes so long, or a loop that ignores errors would spin."""
_NEVER: Final = float("inf")
_MOST_SHOWN: Final = 10


class FirstContact:
    """The first-contact deadline of one client. Times are seconds of one monotonic clock for all its channels.

    ``timeout_ms`` None: no such deadline. ``longest_pause_ms``: the client's longest pause between two attempts.
    """

    def __init__(self, timeout_ms: int | None = None, longest_pause_ms: int = 1_000) -> None:
        self.made = timeout_ms is None
        """Whether a server that speaks the protocol has answered."""
        self._timeout_s = _NEVER if timeout_ms is None else timeout_ms / 1_000
        self._rest_s = 1.5 * longest_pause_ms / 1_000 + REFUSAL_S
        self._until: float | None = None
        self._tried: dict[Endpoint, PenstockError] = {}
        self._connected: set[Endpoint] = set()
        self._hung_up: dict[Endpoint, PenstockError] = {}

    def begin(self, now: float) -> float:
        """Note a request for a connection; return when the first answer is due (maybe in the past), or never if it
        came."""
        if self.made:
            return _NEVER
        if self._until is None or now >= self._until + self._rest_s:
            self._until = now + self._timeout_s
        return self._until

    def left(self, now: float) -> float:
        """Seconds until the deadline, without starting it; 0 if it has just passed."""
        if self.made or self._until is None or now >= self._until + self._rest_s:
            return _NEVER
        return max(0.0, self._until - now)

    def answered(self) -> None:
        """Note a frame of the protocol."""
        self.made = True
        self._tried.clear()
        self._connected.clear()
        self._hung_up.clear()

    def asked(self, endpoint: Endpoint) -> None:
        """Note the start of a connection attempt."""
        if not self.made:
            self._tried.setdefault(endpoint, ConnectionLost("not connected yet", hint=f"Is {endpoint} reachable?"))

    def connected(self, endpoint: Endpoint) -> None:
        """Note that a server accepted the connection.

        If it has closed an earlier one, that error stays: it says more.
        """
        if not self.made:
            self._connected.add(endpoint)
            self._tried[endpoint] = self._hung_up.get(endpoint) or says_nothing(endpoint)

    def failed(self, endpoint: Endpoint, error: PenstockError) -> None:
        """Note the error of an attempt, or of a connection without an answer."""
        if not self.made and not isinstance(error, FirstContactTimeout):
            self._tried[endpoint] = error
            if endpoint in self._connected and isinstance(error, ConnectionLost):
                self._hung_up[endpoint] = error
            self._connected.discard(endpoint)

    def error(self) -> FirstContactTimeout:
        """The error that ends everything that waits when the deadline has passed. It lists the addresses and what
        happened at each."""
        message = f"no server answered within {self._timeout_s:g} s (first_contact_timeout_ms)"
        if len(self._tried) == 1:
            ((endpoint, why),) = self._tried.items()
            return FirstContactTimeout(f"{message}: {why.message}", node=why.node or str(endpoint), hint=why.hint)
        shown = [f"{why.node or endpoint}: {why.message}" for endpoint, why in list(self._tried.items())[:_MOST_SHOWN]]
        if (more := len(self._tried) - len(shown)) > 0:
            shown.append(f"and {more} more")
        return FirstContactTimeout(
            f"{message}: {'; '.join(shown)}" if shown else message,
            hint="Check the addresses, and that servers of this protocol listen there",
        )


# Ending the calls of a blocking client from another thread or from a signal handler.
#
# A socket is woken by shutting it down, a pause by a queue. Resolving a name cannot be interrupted: the caller gets the
# stop when that is over. Nothing here takes a lock, because a signal handler may interrupt its own thread anywhere.
class Stop:
    """Ends blocking calls; one for all channels of a client. It cannot be undone."""

    def __init__(self) -> None:
        self.said = False
        self._pausing: SimpleQueue[None] = SimpleQueue()
        self._sockets: set[socket.socket] = set()

    def say(self) -> None:
        """Make all present and future waits raise Closed. May be called from any thread at any time."""
        self.said = True
        self._pausing.put(None)
        for each in list(self._sockets):
            with contextlib.suppress(OSError):
                # The plain socket's shutdown: TLS's own drops its state while another thread is using it.
                socket.socket.shutdown(each, socket.SHUT_RDWR)

    def check(self) -> None:
        """Raise Closed after `say`."""
        if self.said:
            raise Closed("the client was closed meanwhile")

    def pause(self, seconds: float) -> None:
        """Block for ``seconds``. Raises Closed."""
        self.check()
        if seconds > 0:
            with contextlib.suppress(Empty):
                self._pausing.get(timeout=seconds)
                self._pausing.put(None)  # for other threads that pause, too
            self.check()

    def hold(self, sock: socket.socket) -> None:
        """Register a socket before waiting on it. Raises Closed if the stop came before, and would not wake it."""
        self._sockets.add(sock)
        self.check()

    def drop(self, sock: socket.socket) -> None:
        """Unregister a socket before closing it."""
        self._sockets.discard(sock)


# TLS from a client's options.
def client_context(config: ClientConfig) -> ssl.SSLContext:
    """Make the client's TLS context. Raises ConfigError for files that cannot be read."""
    import ssl

    try:
        context = ssl.create_default_context(cafile=config.tls_ca_file)
        context.check_hostname = config.tls_check_server_name
        if config.tls_certificate_file is not None:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(config.tls_certificate_file, config.tls_key_file, config.tls_key_password or "")
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"tls_ca_file, tls_certificate_file or tls_key_file cannot be read: {error}",
            hint="They are PEM files; a key that asks for a password needs tls_key_password",
        ) from None
    return context
