"""TLS from a client's options: whose word is believed, and what is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.config import ClientConfig
from penstock.errors import ConfigError

if TYPE_CHECKING:
    import ssl

__all__ = ["client_context"]


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
