"""What both client transports share: a greeted connection, and how a failed attempt is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.errors import ConnectionLost, RequestTimeout
from penstock.model import Endpoint
from penstock.seams.channel import Connection

__all__ = ["LARGEST_CORRELATION", "NO_ADDRESS", "OpenLink", "lost", "no_connection", "timed_out"]

State = TypeVar("State")
AnyConnection = TypeVar("AnyConnection", bound=Connection)

LARGEST_CORRELATION = 2**31 - 1
"""Correlation ids are positive 32-bit integers in all three protocols; after the last one comes 1 again."""

NO_ADDRESS = (OSError, ValueError, OverflowError)
"""What connecting raises: besides the system's errors, a host that is no name and a port that is no port, which a peer
may have told us."""


@dataclass(frozen=True, slots=True)
class OpenLink(Generic[AnyConnection, State]):
    """``penstock.seams.channel.Link``."""

    connection: AnyConnection
    state: State


def no_connection(endpoint: Endpoint, why: object) -> ConnectionLost:
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
    if isinstance(why, OSError):
        why = why.strerror or why
    return ConnectionLost(f"cannot connect: {why}", node=str(endpoint), hint=f"Is anything listening on {endpoint}?")


def lost(endpoint: Endpoint, why: object) -> ConnectionLost:
    """An open connection broke."""
    return ConnectionLost(f"the connection broke: {why}", node=str(endpoint))


def timed_out(endpoint: Endpoint, timeout_s: float) -> RequestTimeout:
    """No answer in time. The connection goes too: a late answer must not be taken for another's."""
    return RequestTimeout(
        f"no answer within {timeout_s:g} s",
        node=str(endpoint),
        hint="The connection was closed; what was asked may still have happened.",
    )
