"""Identity: what this client tells servers about itself: ids, host, signatures.

An id is ``<group>_<address>-<process>-<ms>-<number>-<version>``, as those of TubeMQ's own clients are built; brokers'
statistics take apart what follows the last ``_``, so nothing behind it may contain one.
Source: Apache InLong TubeMQ 2.x, ``TubeClientConfigUtils`` and ``SimpleClientAuthenticateHandler``.
"""

from __future__ import annotations

import os
import re
from typing import Any

from penstock._version import __version__
from penstock.interfaces.channel import Channel
from penstock.protocols.tubemq.authentication import NO_TOKEN, broker_authorization, master_certificate
from penstock.protocols.tubemq.client.options import TubeOptions
from penstock.protocols.tubemq.messages import AuthorizedInfo, MasterAuthorizedInfo, MasterCertificateInfo

__all__ = ["Identity"]

_MOST_NONCE = (1 << 31) - 1
_SIGNATURE_S = 1.0
"""A master takes signatures that are at most 5 to 120 s old, as it is set up."""
_VERSION = "penstock-" + re.sub(r"[^a-zA-Z0-9.-]", "-", __version__)


class Identity:
    """One client's. ``visit_token`` is the latest that a master gave."""

    def __init__(self, channel: Channel[Any], options: TubeOptions) -> None:
        self._channel = channel
        self._options = options
        self._born_ms = channel.now_ms()
        self._dice = int(channel.random() * 1_000_000)
        self._made = 0
        self.visit_token = NO_TOKEN
        self._last_signed = (-1.0, broker_authorization(NO_TOKEN))

    @property
    def host(self) -> str:
        """What servers are told as this client's host name."""
        return self._options.tube.local_address

    @property
    def address(self) -> int:
        """The same as four bytes in an int32, for messages; 127.0.0.1 where it is no IPv4 address."""
        parts = self.host.split(".")
        if len(parts) != 4 or not all(part.isdigit() and int(part) < 256 for part in parts):
            return 0x7F000001
        return int.from_bytes(bytes(map(int, parts)), "big", signed=True)

    def consumer_id(self, group: str) -> str:
        """A fresh id for a consumer of a group."""
        return f"{group}_{self._tail()}"

    def passing_group(self, prefix: str) -> str:
        """A name for a group that nobody else has, for a moment: members of one group must want the same topics."""
        self._made += 1
        return f"{prefix}-{os.getpid()}-{self._born_ms}-{self._dice}-{self._made}"

    def producer_id(self) -> str:
        """A fresh id for a producer."""
        return self._tail()

    def master_certificate(self) -> MasterCertificateInfo | None:
        """What is shown to a master with every request, if there are credentials.

        Masters that want signatures want them in heartbeats too, and refuse those without (415); they never ask before.
        """
        credentials = self._options.credentials
        if credentials is None:
            return None
        return master_certificate(credentials, self._channel.now_ms(), self._nonce())

    def broker_authorization(self) -> AuthorizedInfo:
        """What every request to a broker carries that has room for it: the token, and a signature if there are
        credentials.

        Brokers that want signatures refuse each registration, heartbeat and message without one (415), and none of
        their answers asks for it before: Java's field for that, ``requireAuth``, is never set by the shipped server.
        """
        credentials = self._options.credentials
        if credentials is None:
            return broker_authorization(self.visit_token)
        return broker_authorization(self.visit_token, credentials, self._channel.now_ms(), self._nonce())

    def message_authorization(self) -> AuthorizedInfo:
        """The same for messages, which may be many a second: a signature is used for a second, that of an older token
        no more."""
        now = self._channel.monotonic()
        signed_at, last = self._last_signed
        if signed_at < 0 or now - signed_at >= _SIGNATURE_S or last.visit_authorized_token != self.visit_token:
            signed_at, last = self._last_signed = (now, self.broker_authorization())
        return last

    def note_token(self, info: MasterAuthorizedInfo) -> None:
        """Keep what a master's answer carried, if it carried anything."""
        if info.visit_authorized_token > 0:
            self.visit_token = info.visit_authorized_token

    def _tail(self) -> str:
        self._made += 1
        host = re.sub(r"[^a-zA-Z0-9.]", "-", self.host)
        return f"{host}-{os.getpid()}-{self._born_ms}-{self._dice}.{self._made}-{_VERSION}"

    def _nonce(self) -> int:
        return int(self._channel.random() * _MOST_NONCE)
