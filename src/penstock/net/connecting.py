"""What both client transports share: options, connection attempts, backoff, and the log lines about lost servers."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from penstock._dataclasses import dataclass
from penstock.config import ClientConfig
from penstock.errors import Closed, ConfigError, ConnectionLost, FirstContactTimeout, PenstockError, RequestTimeout
from penstock.interfaces.channel import Connection
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
"""Correlation ids are positive 32-bit integers in all three protocols; after the last one comes 1 again."""

NO_ADDRESS = (OSError, ValueError, OverflowError)
"""What connecting raises: besides the system's errors, a host that is no name and a port that is no port, which a peer
may have told us."""


@dataclass(frozen=True, slots=True)
class OpenLink(Generic[AnyConnection, State]):
    """``penstock.interfaces.channel.Link``."""

    connection: AnyConnection
    state: State


# The figures of a transport. Data only; nothing here opens anything.
@dataclass(frozen=True, slots=True)
class TransportOptions:
    """Of a client's connections. Defaults are those of Kafka's Java clients unless said otherwise.

    ``connect_timeout_s``: for one attempt, TCP (and TLS) plus the protocol's greeting.
    ``reconnect_backoff_ms`` doubles with each failure of an endpoint up to ``reconnect_backoff_max_ms``, give or take
    20 %. ``idle_timeout_s``: a connection unused for longer is remade, before the server (600 s) closes it under a
    request. ``write_high_water_bytes``: a call waits while more than this is unsent; a quarter of it lets it go on.
    ``whose`` begins lines of the log. ``tried_until``: what that is told of how long a server that is away is tried.
    With ``ssl``, ``tls_server_name`` is whom the certificate must name; None: the host that is connected to.
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


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    """Of a node's listener; together they bound what one connection, and all of them, can take.

    ``max_connections``: one more is closed at once; ``address_percent`` of them may come from one address, else one
    client could shut all others out. ``idle_timeout_s``: without a frame for so long (and nothing being
    served) a connection is closed; 600 s is Kafka's. ``queued_frames`` and ``queued_bytes``: what an ordered session
    may have waiting behind the request in progress before its socket is no longer read. ``concurrent_frames``: the
    same for sessions that serve side by side. ``write_high_water_bytes``: unsent answers above it stop further serving;
    ``write_limit_bytes``: above it the client is taken for dead and hung up on. ``memory_bytes``: what all of them
    together may hold (see `Budget`); five of the largest requests that Kafka takes.
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


# How long to wait before the next connection attempt to an endpoint that failed. Arithmetic only.
_JITTER = 0.2


class Backoff:
    """Per endpoint: doubles with each failure, forgotten with a success. Times are a monotonic clock's seconds."""

    def __init__(self, options: TransportOptions) -> None:
        self._first_s = options.reconnect_backoff_ms / 1_000
        self._most_s = options.reconnect_backoff_max_ms / 1_000
        self._failures: dict[Endpoint, int] = {}
        self._not_before: dict[Endpoint, float] = {}
        self.troubles: dict[Endpoint, PenstockError] = {}
        """What the last attempt has met."""

    def delay(self, endpoint: Endpoint, now: float) -> float:
        """Seconds to wait before connecting."""
        return max(0.0, self._not_before.get(endpoint, 0.0) - now)

    @property
    def anywhere(self) -> bool:
        """Whether there is an endpoint that has to be left alone."""
        return bool(self._not_before)

    def failed(self, endpoint: Endpoint, now: float, dice: float, error: BaseException | None = None) -> None:
        """Another failure; ``dice`` is uniform in [0, 1)."""
        if isinstance(error, PenstockError):
            self.troubles[endpoint] = error
        failures = self._failures.get(endpoint, 0)
        self._failures[endpoint] = failures + 1
        delay = min(self._most_s, self._first_s * 2 ** min(failures, 30))
        self._not_before[endpoint] = now + delay * (1 - _JITTER + 2 * _JITTER * dice)

    def succeeded(self, endpoint: Endpoint) -> None:
        """Connected and greeted."""
        self.troubles.pop(endpoint, None)
        self._failures.pop(endpoint, None)
        self._not_before.pop(endpoint, None)


# Away: says on the log that a server is not there, once that has lasted, again now and then, and when it is back.
#
# It cannot be connected to, or it owes an answer on an open connection and says nothing.
_log = logging.getLogger("penstock.connection")
FIRST_S: Final = 5.0
_EVERY_S: Final = 30.0
_A_TICK_S: Final = 0.001
_FORGOTTEN_S: Final = 60.0
"""Whom nobody has tried for so long may have been there meanwhile."""


@dataclass(slots=True)
class _Absence:
    since: float
    seen: float
    told: float | None = None


class UnreachableNodeLog:
    """``until`` says for how long it is tried, in the words of an option; ``whose`` begins each line, if given.

    Times are a monotonic clock's seconds.
    """

    def __init__(self, until: str = "", whose: str = "") -> None:
        self._whose = whose
        self._until = f"; {until}" if until else ""
        self._absences: dict[Endpoint, _Absence] = {}

    def failed(self, endpoint: Endpoint, begun: float, now: float, cause: object) -> None:
        """An attempt that began at ``begun`` came to nothing."""
        if (lasted := self._to_tell(endpoint, begun, now)) is not None:
            _log.warning("%snode %s is away for %.0f s: %s%s", self._whose, endpoint, lasted, cause, self._until)

    def silent(self, endpoint: Endpoint, since: float, now: float) -> None:
        """It has owed an answer since then, and sent nothing."""
        if self._to_tell(endpoint, since, now) is not None:
            _log.warning("%snode %s has not answered for %.0f s%s", self._whose, endpoint, now - since, self._until)

    def spoke(self, endpoint: Endpoint, now: float) -> None:
        """It answers again on a connection on which it was silent."""
        if (lasted := self._over(endpoint, now)) is not None:
            _log.warning("%snode %s answers again after %.0f s", self._whose, endpoint, lasted)

    def answered(self, endpoint: Endpoint, now: float) -> None:
        """It was connected to, and greeted."""
        if (lasted := self._over(endpoint, now)) is not None:
            _log.warning("%snode %s is back after %.0f s", self._whose, endpoint, lasted)

    def _to_tell(self, endpoint: Endpoint, begun: float, now: float) -> float | None:
        """How long it is away, if that is to be said now."""
        absence = self._absences.get(endpoint)
        if absence is None or begun - absence.seen > _FORGOTTEN_S:
            absence = self._absences[endpoint] = _Absence(begun, now)
        absence.seen = now
        lasted = now - absence.since
        if lasted < FIRST_S or (absence.told is not None and now - absence.told < _EVERY_S - _A_TICK_S):
            return None
        absence.told = now
        return lasted

    def _over(self, endpoint: Endpoint, now: float) -> float | None:
        """How long it was away, if that was said."""
        absence = self._absences.pop(endpoint, None)
        return now - absence.since if absence is not None and absence.told is not None else None


# Silence: how long a peer that owes an answer on an open connection has said nothing.
#
# A frozen process, or one that a network lost, keeps its connections: only the clock tells. A request may be meant to
# take long (a long poll, a member that waits for its group); silence counts from then on only.
_LOOK_EVERY_S: Final = 5.0


class Silence:
    """Of one connection. Times are a monotonic clock's seconds."""

    __slots__ = ("_away", "_endpoint", "_since", "_told")

    def __init__(self, endpoint: Endpoint, away: UnreachableNodeLog) -> None:
        self._endpoint = endpoint
        self._away = away
        self._since = 0.0
        self._told = False

    def asked(self, now: float, held_s: float, *, owed: bool) -> None:
        """A request was written; the peer may keep it for ``held_s``. ``owed``: an answer was, already."""
        if not owed:
            self._since = now + held_s
        elif held_s:
            self._since = max(self._since, now + held_s)

    def heard(self, now: float) -> None:
        """Bytes came: it is there, and may be at work on the next answer."""
        self._since = max(self._since, now)
        if self._told:
            self._told = False
            self._away.spoke(self._endpoint, now)

    def look(self, now: float) -> float:
        """Tell it if it has lasted, while an answer is owed; seconds until the next look."""
        left = self._since + FIRST_S - now
        if left > 0:
            return left
        self._told = True
        self._away.silent(self._endpoint, self._since, now)
        return _LOOK_EVERY_S


# Why there is no connection, in one line: what the system, or TLS, said, in words, and what to look at.
_BROKE: Final = "the connection broke"
_ERRNO: Final = re.compile(r"\[Errno (\d+)\]")
_PLAIN: Final = frozenset({"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"})
"""What OpenSSL says where the other side answers, and not in TLS."""


def reason(why: object) -> str:
    """What went wrong, never empty. The system's own words for its numbers, without asyncio's around them."""
    if isinstance(why, OSError):
        numbers = [why.errno] if why.errno else [int(found) for found in _ERRNO.findall(str(why))]
        if isinstance(why, socket.gaierror):
            return why.strerror or "its name cannot be resolved"
        if numbers:
            return ", ".join(dict.fromkeys(map(os.strerror, numbers)))
    return str(why) or _in_words(type(why).__name__)


def no_connection(endpoint: Endpoint, why: object, *, tls: bool = False) -> ConnectionLost:
    """An attempt to connect failed. A certificate that is not believed will not be the next time either."""
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
        return ConnectionLost(f"cannot connect: {host} is no name of a host: {reason(why)}", node=host)
    return ConnectionLost(f"cannot connect: {reason(why)}", node=str(endpoint), hint=hint)


def silent(endpoint: Endpoint, timeout_s: float) -> ConnectionLost:
    """It took the connection, and then did not get ready."""
    return ConnectionLost(
        f"connected, but not ready within {timeout_s:g} s: no answer to the first words",
        node=str(endpoint),
        hint=_something_else(endpoint),
    )


def says_nothing(endpoint: Endpoint) -> ConnectionLost:
    """It took the connection, and has not answered so far."""
    return ConnectionLost("connected, but it does not answer", node=str(endpoint), hint=_something_else(endpoint))


def hung_up(endpoint: Endpoint, why: object) -> ConnectionLost:
    """It took the connection, and closed it before it had said a word."""
    return ConnectionLost(
        f"{_BROKE}: {reason(why)}, before it had said anything",
        node=str(endpoint),
        hint=_something_else(endpoint),
    )


def lost(endpoint: Endpoint, why: object) -> ConnectionLost:
    """An open connection broke."""
    told = reason(why)
    again = told.startswith(_BROKE)  # by then it was told to somebody else, too
    return ConnectionLost(told if again else f"{_BROKE}: {told}", node=str(endpoint))


def timed_out(endpoint: Endpoint, timeout_s: float) -> RequestTimeout:
    """No answer in time. The connection goes too: a late answer must not be taken for another's."""
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
    """``ConnectionResetError``: connection reset."""
    return re.sub(r"(?<!^)([A-Z])", r" \1", name.removesuffix("Error")).lower()


# FirstContact: how long a client waits until the first server has answered, over all its channels and calls.
#
# Before anything has answered, the address is more likely wrong than every server away. So there is one deadline, which
# counts from the first connection that is asked for: all that waits for the network then ends with the same error.
# Every first contact goes through a channel, so channels alone keep it; once a frame of the protocol has come, it is
# over for good, and each call has its usual time.
#
# Once the deadline has passed, calls fail at once for as long as a client pauses between two attempts at most: what
# tries again by itself hears of it too. Later calls count anew, so a client can be kept until its servers are there.
REFUSAL_S: Final = 0.1
"""A call that fails because the deadline has passed takes so long, or a loop that ignores errors would spin."""
_NEVER: Final = float("inf")
_MOST_SHOWN: Final = 10


class FirstContact:
    """Of one client. Times are a monotonic clock's seconds, the same clock's for all of its channels.

    ``timeout_ms`` None: there is no such deadline. ``longest_pause_ms`` is how long the client may pause between two
    attempts.
    """

    def __init__(self, timeout_ms: int | None = None, longest_pause_ms: int = 1_000) -> None:
        self.made = timeout_ms is None
        """Whether something that speaks the protocol has answered."""
        self._timeout_s = _NEVER if timeout_ms is None else timeout_ms / 1_000
        self._rest_s = 1.5 * longest_pause_ms / 1_000 + REFUSAL_S
        self._until: float | None = None
        self._tried: dict[Endpoint, PenstockError] = {}
        self._connected: set[Endpoint] = set()
        self._hung_up: dict[Endpoint, PenstockError] = {}

    def begin(self, now: float) -> float:
        """A connection is asked for: when the first answer is due, which may be over; never, once there was one."""
        if self.made:
            return _NEVER
        if self._until is None or now >= self._until + self._rest_s:
            self._until = now + self._timeout_s
        return self._until

    def left(self, now: float) -> float:
        """Seconds until the deadline, without beginning to count; 0 where it has just passed."""
        if self.made or self._until is None or now >= self._until + self._rest_s:
            return _NEVER
        return max(0.0, self._until - now)

    def answered(self) -> None:
        """A frame of the protocol has come."""
        self.made = True
        self._tried.clear()
        self._connected.clear()
        self._hung_up.clear()

    def asked(self, endpoint: Endpoint) -> None:
        """An attempt to connect begins."""
        if not self.made:
            self._tried.setdefault(endpoint, ConnectionLost("not connected yet", hint=f"Is {endpoint} reachable?"))

    def connected(self, endpoint: Endpoint) -> None:
        """It has taken the connection, and owes an answer. That it closed an earlier one says more, and stays."""
        if not self.made:
            self._connected.add(endpoint)
            self._tried[endpoint] = self._hung_up.get(endpoint) or says_nothing(endpoint)

    def failed(self, endpoint: Endpoint, error: PenstockError) -> None:
        """What an attempt to connect, or a connection without an answer, has come to."""
        if not self.made and not isinstance(error, FirstContactTimeout):
            self._tried[endpoint] = error
            if endpoint in self._connected and isinstance(error, ConnectionLost):
                self._hung_up[endpoint] = error
            self._connected.discard(endpoint)

    def error(self) -> FirstContactTimeout:
        """What ends everything that waits when the deadline has passed: which addresses were tried, and what happened
        at each."""
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


# Stop: how another thread, or a signal's handler, ends what a blocking client waits for.
#
# A socket is woken by shutting it down, a pause by a queue. The resolution of a name cannot be interrupted: who waits
# for one hears of the stop when it is over. Nothing here takes a lock, since a handler may find its own thread
# anywhere.
class Stop:
    """One for all channels of a client. It cannot be undone."""

    def __init__(self) -> None:
        self.said = False
        self._pausing: SimpleQueue[None] = SimpleQueue()
        self._sockets: set[socket.socket] = set()

    def say(self) -> None:
        """End what waits, and all that would: from now on it raises Closed. For any thread, and any moment."""
        self.said = True
        self._pausing.put(None)
        for each in list(self._sockets):
            with contextlib.suppress(OSError):
                # The plain socket's: TLS's own throws its state away, under whoever is using it.
                socket.socket.shutdown(each, socket.SHUT_RDWR)

    def check(self) -> None:
        """Raise Closed if it was said."""
        if self.said:
            raise Closed("the client was closed meanwhile")

    def pause(self, seconds: float) -> None:
        """Block for a while. Raises Closed."""
        self.check()
        if seconds > 0:
            with contextlib.suppress(Empty):
                self._pausing.get(timeout=seconds)
                self._pausing.put(None)  # for whoever pauses as well
            self.check()

    def hold(self, sock: socket.socket) -> None:
        """Somebody is about to wait for this socket. Raises Closed; only then nobody wakes it."""
        self._sockets.add(sock)
        self.check()

    def drop(self, sock: socket.socket) -> None:
        """It is about to be closed."""
        self._sockets.discard(sock)


# TLS from a client's options: whose word is believed, and what is shown.
def client_context(config: ClientConfig) -> ssl.SSLContext:
    """What servers have to show, and what we show. Raises ConfigError for files that cannot be read."""
    import ssl

    try:
        context = ssl.create_default_context(cafile=config.tls_ca_file)
        context.check_hostname = config.tls_check_server_name
        if config.tls_certificate_file is not None:
            # Without a password OpenSSL would ask whoever sits at the terminal.
            context.load_cert_chain(config.tls_certificate_file, config.tls_key_file, config.tls_key_password or "")
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"tls_ca_file, tls_certificate_file or tls_key_file cannot be read: {error}",
            hint="They are PEM files; a key that asks for a password needs tls_key_password",
        ) from None
    return context
