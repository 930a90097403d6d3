"""A TubeMQ client's options, and what it says of itself to servers: ids, host, signatures, tokens."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus

from msgspec import Struct, field

from penstock._version import __version__
from penstock.errors import ConfigError, PenstockError, UsageError
from penstock.interfaces.channel import Channel
from penstock.model import Partition
from penstock.protocols.tubemq.config import (
    ConsumePosition,
    MsgTimeZone,
    TubeConfig,
    msg_time_zone,
    parse_filters,
    tube_config,
)
from penstock.protocols.tubemq.wire.messages import (
    AuthenticateInfo,
    AuthorizedInfo,
    MasterAuthorizedInfo,
    MasterCertificateInfo,
)
from penstock.protocols.tubemq.wire.strings import store_of, within_store

if TYPE_CHECKING:
    from penstock.config import ClientConfig, OptionValue

__all__ = [
    "NO_TOKEN",
    "Credentials",
    "Identity",
    "TubeOptions",
    "broker_authorization",
    "master_certificate",
    "options_of",
    "signature",
    "verified",
]

# Who a client says it is: signatures towards masters, tokens towards brokers. Time and nonce come in as arguments.
#
# Source: Apache InLong TubeMQ 2.x, ``SimpleClientAuthenticateHandler``: HMAC-SHA1 with the password over name, time in
# ms and nonce, as base64, form-encoded.
NO_TOKEN: Final = -2
"""The visit token of a client that no master has given one."""

_MOST_NONCE: Final = (1 << 31) - 1


class Credentials(Struct, frozen=True):
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


# The figures of a TubeMQ client: the protocol's own options and those that every client has. Data only.
_PRODUCER_HEARTBEAT_MS = 13_000


class TubeOptions(Struct, frozen=True, kw_only=True):
    """``tube`` are the protocol's own options, the rest is what every client has (see `penstock.config.ClientConfig`).

    ``position`` is where a group begins that has no position in a partition. ``publishing``: this client writes, so the
    topics it asks masters for are those that may be written to. ``in_order``: a message waits until the one before it
    to the same partition is stored.
    """

    tube: TubeConfig = field(default_factory=TubeConfig)
    client_id: str = "penstock"
    api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    position: ConsumePosition = ConsumePosition.FIRST
    publishing: bool = False
    in_order: bool = False
    tls: bool = False
    short_log_patience_ms: int = 5_000

    @property
    def rpc_timeout_ms(self) -> int:
        """How long a server may take to answer."""
        return self.tube.rpc_timeout_ms

    def patience_ms(self, error: PenstockError) -> int:
        """The same for all errors: a master that was asked has the last word on which topics there are."""
        del error
        return self.api_timeout_ms

    def lane_of(self, partition: Partition) -> str:
        """Which of the connections to a partition's broker it goes over. The same one always: servers keep order only
        within a connection. Neighbours, in a store and by stores, and topics, come to lie on different ones."""
        lanes = self.tube.connections_per_broker
        number = store_of(partition.id) + within_store(partition.id) + zlib.crc32(partition.topic.encode())
        return str(number % lanes) if number % lanes else ""

    @property
    def producer_heartbeat_ms(self) -> int:
        """How often a producer tells the master that it is there."""
        return self.tube.heartbeat_period_ms or _PRODUCER_HEARTBEAT_MS

    @property
    def credentials(self) -> Credentials | None:
        """The user that signs registrations; None: they are not signed."""
        tube = self.tube
        if not tube.signs or tube.user is None or tube.password is None:
            return None
        return Credentials(tube.user, tube.password)

    @property
    def zone(self) -> MsgTimeZone | None:
        """The zone of messages' minutes; None: UTC."""
        return msg_time_zone(self.tube.msg_time_zone)

    @property
    def filters(self) -> Mapping[str, tuple[str, ...]]:
        """Filter items by topic; those under "" are for every topic."""
        return parse_filters(self.tube.filters)

    def filters_of(self, topic: str) -> tuple[str, ...]:
        """The filter items of a topic; none: everything is wanted."""
        filters = self.filters
        return filters.get(topic, filters.get("", ()))


def options_of(config: ClientConfig, extra: Mapping[str, OptionValue]) -> TubeOptions:
    """From the options of every protocol's clients and TubeMQ's own. Raises ConfigError."""
    from penstock.config import ConsumerConfig, OffsetReset, ProducerConfig

    tube = tube_config(extra)
    position = tube.consume_position
    if position is None:
        reset = config.auto_offset_reset if isinstance(config, ConsumerConfig) else OffsetReset.EARLIEST
        if reset is OffsetReset.NONE and isinstance(config, ConsumerConfig) and config.group is not None:
            raise ConfigError(
                "auto_offset_reset is none, but TubeMQ's groups always have a place to begin",
                hint="Say earliest, latest, or consume_position=always-latest",
            )
        position = ConsumePosition.LATEST if reset is OffsetReset.LATEST else ConsumePosition.FIRST
    return TubeOptions(
        tube=tube,
        client_id=config.client_id,
        api_timeout_ms=config.api_timeout_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        metadata_max_age_ms=config.metadata_max_age_ms,
        position=position,
        publishing=isinstance(config, ProducerConfig),
        in_order=isinstance(config, ProducerConfig) and config.max_in_flight == 1,
        tls=config.tls,
    )


# Identity: what this client tells servers about itself: ids, host, signatures.
#
# An id is ``<group>_<address>-<process>-<ms>-<number>-<version>``, as those of TubeMQ's own clients are built; brokers'
# statistics take apart what follows the last ``_``, so nothing behind it may contain one. Source: Apache InLong TubeMQ
# 2.x, ``TubeClientConfigUtils`` and ``SimpleClientAuthenticateHandler``.
_SIGNATURE_S = 1.0
"""A master takes signatures that are at most 5 to 120 s old, as it is set up."""
_VERSION = "penstock-" + re.sub(r"[^a-zA-Z0-9.-]", "-", __version__)


class Identity:
    """One client's. ``visit_token`` is the latest that a master gave."""

    def __init__(self, channel: Channel[Any], options: TubeOptions) -> None:
        self._channel = channel
        self._options = options
        self._born_ms = channel.now_ms()
        self._salt = int(channel.random() * 1_000_000)
        self._made = 0
        self.visit_token = NO_TOKEN
        self._last_signed = (-1.0, broker_authorization(NO_TOKEN))

    @property
    def host(self) -> str:
        """The host name that this client gives to servers."""
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
        """A name for a short-lived group of this client alone: members of one group must want the same topics."""
        self._made += 1
        return f"{prefix}-{os.getpid()}-{self._born_ms}-{self._salt}-{self._made}"

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
        return f"{host}-{os.getpid()}-{self._born_ms}-{self._salt}.{self._made}-{_VERSION}"

    def _nonce(self) -> int:
        return int(self._channel.random() * _MOST_NONCE)
