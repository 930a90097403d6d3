"""Why there is no connection, in one line: what the system, or TLS, said, in words, and what to look at.

What must not live here: who tries again.
"""

from __future__ import annotations

import os
import re
import socket
from typing import TYPE_CHECKING, Final

from penstock.errors import ConnectionLost, RequestTimeout
from penstock.model import Endpoint

if TYPE_CHECKING:
    import ssl

__all__ = ["hung_up", "lost", "no_connection", "reason", "says_nothing", "silent", "timed_out"]

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
