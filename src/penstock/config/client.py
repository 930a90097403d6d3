"""What every client has: names, timeouts, backoffs. Data and its bounds only."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.config.fields import check, flag, number, optional_text, secret, text
from penstock.errors import ConfigError

__all__ = ["ClientConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Shared by consumers, producers, readers and admins. Defaults are those of Kafka's Java clients 4.x but for:

    ``client_id``: servers' logs, quotas and group descriptions show it; an empty one helps nobody.

    The others: ``request_timeout_ms`` bounds one request (30 s: longer than a leader election, shorter than a user's
    patience); ``api_timeout_ms`` bounds one call of yours over all its retries; ``first_contact_timeout_ms``, if that
    is less, one before any server has answered (10 s: by then the address is more likely wrong than every server away;
    TubeMQ's masters are tried until ``api_timeout_ms``); ``connect_timeout_ms`` one attempt to connect, TLS and
    greeting included; ``reconnect_backoff_ms`` and ``retry_backoff_ms`` double, give or take 20 %, up to their
    ``…_max_ms``, so that a restarted server is not stormed; ``metadata_max_age_ms`` is how long a new partition may
    stay unseen.

    ``tls`` encrypts; servers are believed if their certificate is signed by one of ``tls_ca_file`` (PEM; None: those
    the system trusts) and names the host, or ``tls_server_name`` if that is set; ``tls_check_server_name`` false leaves
    the name out, as TubeMQ's Java client does. ``tls_certificate_file`` and ``tls_key_file`` are this client's own, for
    servers that ask for one; the key may stand in the file of its certificate. ``tls_key_password`` is what an
    encrypted key asks for.
    """

    client_id: str = text("penstock")
    request_timeout_ms: int = number(30_000, low=1)
    api_timeout_ms: int = number(60_000, low=1)
    first_contact_timeout_ms: int = number(10_000, low=1)
    connect_timeout_ms: int = number(10_000, low=1)
    reconnect_backoff_ms: int = number(50, low=0)
    reconnect_backoff_max_ms: int = number(1_000, low=0)
    retry_backoff_ms: int = number(100, low=0)
    retry_backoff_max_ms: int = number(1_000, low=0)
    metadata_max_age_ms: int = number(300_000, low=1)
    tls: bool = flag(False)
    tls_ca_file: str | None = optional_text()
    tls_certificate_file: str | None = optional_text()
    tls_key_file: str | None = optional_text()
    tls_key_password: str | None = secret()
    tls_server_name: str | None = optional_text()
    tls_check_server_name: bool = flag(True)

    def __post_init__(self) -> None:
        check(self)
        self.validate()

    def validate(self) -> None:
        """Raise ConfigError for options that contradict each other."""
        for first, last in (
            ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
            ("retry_backoff_ms", "retry_backoff_max_ms"),
        ):
            if getattr(self, first) > getattr(self, last):
                raise ConfigError(
                    f"{first} is {getattr(self, first)}, more than {last}, which is {getattr(self, last)}"
                )
        for name in ("tls_ca_file", "tls_certificate_file", "tls_key_file", "tls_key_password", "tls_server_name"):
            if getattr(self, name) is not None and not self.tls:
                raise ConfigError(
                    f"{name} is set, but tls is not", hint="Add tls=true (in Spark security.protocol=SSL), or drop it"
                )
        for name in ("tls_key_file", "tls_key_password"):
            if getattr(self, name) is not None and self.tls_certificate_file is None:
                raise ConfigError(f"there is a {name}, but no tls_certificate_file")
