"""What every client has: names, timeouts, backoffs. Data and its bounds only."""

from __future__ import annotations

from penstock._dataclasses import dataclass
from penstock.config.fields import check, flag, number, optional_number, optional_text, secret, text
from penstock.errors import ConfigError

__all__ = ["ClientConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Shared by consumers, producers, readers and admins. Defaults are those of Kafka's Java clients 4.x but for:

    ``client_id``: servers' logs, quotas and group descriptions show it; an empty one helps nobody.

    The others: ``request_timeout_ms`` bounds one request (30 s: longer than a leader election, shorter than a user's
    patience); ``api_timeout_ms`` bounds one call of yours over all its retries; ``first_contact_timeout_ms`` bounds
    all of them together from a client's first use until a server has answered once (10 s: by then the address is more
    likely wrong than every server away): what waits ends by FirstContactTimeout, and what is called later counts anew;
    ``connect_timeout_ms`` one attempt to connect, TLS and
    greeting included; ``reconnect_backoff_ms`` and ``retry_backoff_ms`` double, give or take 20 %, up to their
    ``…_max_ms``, so that a restarted server is not stormed; ``metadata_max_age_ms`` is how long a new partition may
    stay unseen; ``metrics_interval_ms`` is the window that Java samples metrics in. ``close_timeout_ms`` bounds a
    clean end, which is there to finish things; ``close_on_error_timeout_ms`` (2 s: enough for servers that answer) one
    under an exception, which wants to be seen and not to wait for a minute.

    ``tls`` encrypts; servers are believed if their certificate is signed by one of ``tls_ca_file`` (PEM; None: those
    the system trusts) and names the host, or ``tls_server_name`` if that is set; ``tls_check_server_name`` false leaves
    the name out, as TubeMQ's Java client does. ``tls_certificate_file`` and ``tls_key_file`` are this client's own, for
    servers that ask for one; the key may stand in the file of its certificate. ``tls_key_password`` is what an
    encrypted key asks for.
    """

    client_id: str = text("penstock", about="what servers' logs, quotas and group descriptions call this client")
    request_timeout_ms: int = number(30_000, low=1, about="how long one request may take")
    api_timeout_ms: int = number(60_000, low=1, about="how long one call of yours may take, over all its retries")
    first_contact_timeout_ms: int = number(
        10_000, low=1, about="how long a client waits, from its first use on, until any server has answered once"
    )
    connect_timeout_ms: int = number(
        10_000, low=1, about="how long one attempt to connect may take, TLS and greeting included"
    )
    reconnect_backoff_ms: int = number(
        50, low=0, about="the first pause before connecting to a server again; it doubles"
    )
    reconnect_backoff_max_ms: int = number(1_000, low=0, about="the longest such pause")
    retry_backoff_ms: int = number(100, low=0, about="the first pause before asking again; it doubles")
    retry_backoff_max_ms: int = number(1_000, low=0, about="the longest such pause")
    close_timeout_ms: int | None = optional_number(
        low=0,
        about="how long close() and the end of a with block may take; without it a producer's as long as delivery may,"
        " a consumer's request_timeout_ms",
    )
    close_on_error_timeout_ms: int = number(
        2_000,
        low=0,
        about="the same where an exception ends the with block, or a transaction's, and where the program ends and a"
        " producer was not closed",
    )
    metadata_max_age_ms: int = number(
        300_000, low=1, about="how old what is known of topics may get: how long a new partition may stay unseen"
    )
    metrics_interval_ms: int = number(
        30_000, low=0, about="how often a consumer's or producer's on_metrics is called with a snapshot; 0: never"
    )
    tls: bool = flag(False, about="encrypt connections")
    tls_ca_file: str | None = optional_text(
        about="whose signatures servers' certificates need (PEM); without it those the system trusts"
    )
    tls_certificate_file: str | None = optional_text(
        about="this client's own certificate and its chain (PEM), for servers that ask for one"
    )
    tls_key_file: str | None = optional_text(about="its key (PEM), if it does not stand in the same file")
    tls_key_password: str | None = secret(about="what an encrypted key asks for")
    tls_server_name: str | None = optional_text(
        about="the name that the certificate must have, where it is not the host's"
    )
    tls_check_server_name: bool = flag(True, about="whether a certificate's name matters at all")

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
