"""What the first bytes of somebody say who speaks something else: so that a wrong port is told as what it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.errors import ProtocolViolation

__all__ = ["HTTP_2", "ForeignProtocol", "looks_like_tls", "not_ours", "spoken"]

HTTP_2: Final = "HTTP/2, as gRPC does"
_TLS_RECORDS: Final = range(0x14, 0x18)
_WEB: Final = (b"HTTP", b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"<!DO", b"<htm", b"<HTM")


class ForeignProtocol(ProtocolViolation):
    """A client of a node speaks another protocol, mostly because it was given a wrong port."""


def spoken(first: bytes, greetings: Mapping[bytes, str]) -> str:
    """A protocol by the first four bytes of a connection; "" if they tell nothing.

    ``greetings`` are those of logs: how their connections begin, and whose they are.
    """
    if looks_like_tls(first):
        return "TLS"
    if first.startswith(b"PRI "):
        return HTTP_2
    if first.startswith(_WEB):
        return "HTTP"
    if first.startswith(b"SSH-"):
        return "SSH"
    for greeting, whose in greetings.items():
        if first.startswith(greeting):
            return f"{whose}'s protocol"
    if len(first) == 4 and first[:3].isdigit() and first[3:] in b" -":
        return "a protocol of mail or files"
    return ""


def not_ours(said: str, ours: str, port: str = "", advice: str = "") -> ProtocolViolation:
    """Return the error for a side that was `spoken` for, instead of the protocol of ``ours``.

    ``port`` says which port to give instead, to a client, which chose one. A server was called; ``advice`` is for its
    log.
    """
    what = f"the other side speaks {said}, not {ours}'s protocol"
    if not port:
        return ForeignProtocol(what, hint=advice or f"Give that client another port, or use one of {ours}'s")
    return ProtocolViolation(what, hint="Say tls=true" if said == "TLS" else port)


def looks_like_tls(first: bytes) -> bool:
    """The head of a TLS record: its type and the major version, which is 3 in all of them."""
    return len(first) >= 2 and first[0] in _TLS_RECORDS and first[1] == 3
