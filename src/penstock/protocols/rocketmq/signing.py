"""Signatures of requests: who asks, and that nobody changed what is asked.

HMAC-SHA1 over the values of all ext fields, in the order of their names, and the body. Code, number and remark are not
signed. Source: Apache RocketMQ 4.9, ``AclUtils``, ``AclSigner``; the same in 5.x.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Final

from penstock._dataclasses import dataclass
from penstock.seams.framing import Buffer

__all__ = ["ACCESS_KEY", "SECURITY_TOKEN", "SIGNATURE", "Account", "is_signed", "signature", "signed"]

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"


@dataclass(frozen=True, slots=True)
class Account:
    """Who asks; the secret never goes on the wire, and is in no repr."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


def signature(secret_key: str, fields: Mapping[str, str], body: Buffer, *, without: Collection[str] = ()) -> str:
    """Return the signature of these ext fields, all but the signature's own and those of ``without``, and the body.

    Names are put into Java's order, which is that of UTF-16's units.
    """
    skipped = {SIGNATURE, *without}
    names = sorted((name for name in fields if name not in skipped), key=lambda name: name.encode("utf-16-be"))
    made = hmac.new(secret_key.encode(), "".join(fields[name] for name in names).encode(), "sha1")
    made.update(body)
    return base64.b64encode(made.digest()).decode()


def signed(
    account: Account, fields: Mapping[str, str], body: Buffer, *, without: Collection[str] = ()
) -> dict[str, str]:
    """Return ``fields`` with who asks, and the signature."""
    whole = {**fields, ACCESS_KEY: account.access_key}
    if account.security_token is not None:
        whole[SECURITY_TOKEN] = account.security_token
    whole[SIGNATURE] = signature(account.secret_key, whole, body, without=without)
    return whole


def is_signed(secret_key: str, fields: Mapping[str, str], body: Buffer, *, without: Collection[str] = ()) -> bool:
    """Whether the fields carry the signature that they must have."""
    said = fields.get(SIGNATURE, "")
    return hmac.compare_digest(said.encode(), signature(secret_key, fields, body, without=without).encode())
