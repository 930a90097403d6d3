"""Who a client says it is: signatures towards masters, tokens towards brokers. Time and nonce come in as arguments.

Source: Apache InLong TubeMQ 2.x, ``SimpleClientAuthenticateHandler``: HMAC-SHA1 with the password over name, time in ms
and nonce, as base64, form-encoded.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final
from urllib.parse import quote_plus

from penstock._dataclasses import dataclass
from penstock.errors import UsageError
from penstock.protocols.tubemq.messages.authorization import (
    AuthenticateInfo,
    AuthorizedInfo,
    MasterCertificateInfo,
)

__all__ = ["NO_TOKEN", "Credentials", "broker_authorization", "master_certificate", "signature", "verified"]

NO_TOKEN: Final = -2
"""The visit token of a client that no master has given one."""

_MOST_NONCE: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user's name and password; the password is not shown."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.user!r}, …)"


def signature(credentials: Credentials, timestamp_ms: int, nonce: int) -> str:
    """Return the signature; ``nonce`` is 0 to 2^31-2."""
    if not 0 <= nonce < _MOST_NONCE:
        raise UsageError(f"nonce {nonce}; 0 to {_MOST_NONCE - 1} are allowed")
    text = f"{credentials.user}{timestamp_ms}{nonce}"
    mac = hmac.digest(credentials.password.encode(), text.encode(), hashlib.sha1)
    return quote_plus(base64.b64encode(mac))


def master_certificate(credentials: Credentials, timestamp_ms: int, nonce: int) -> MasterCertificateInfo:
    """Return what is shown to a master."""
    signed = signature(credentials, timestamp_ms, nonce)
    info = AuthenticateInfo(
        user_name=credentials.user, timestamp=timestamp_ms, nonce=nonce, oth_params="", signature=signed
    )
    return MasterCertificateInfo(auth_info=info)


def broker_authorization(
    visit_token: int, credentials: Credentials | None = None, timestamp_ms: int = 0, nonce: int = 0
) -> AuthorizedInfo:
    """Return what is shown to a broker: the token its master gave, and the user's signature where one is wanted."""
    if credentials is None:
        return AuthorizedInfo(visit_authorized_token=visit_token)
    signed = signature(credentials, timestamp_ms, nonce)
    text = f"{credentials.user} {timestamp_ms} {nonce} {signed}"
    return AuthorizedInfo(visit_authorized_token=visit_token, auth_authorized_token=text)


def verified(info: AuthenticateInfo, credentials: Credentials, now_ms: int, *, window_ms: int = 20_000) -> bool:
    """Whether ``info`` was signed with these credentials, within ``window_ms`` of now."""
    if info.user_name != credentials.user or abs(now_ms - info.timestamp) > window_ms:
        return False
    if not 0 <= info.nonce < _MOST_NONCE:
        return False
    expected = signature(credentials, info.timestamp, info.nonce)
    return hmac.compare_digest(expected.encode(), info.signature.encode())
