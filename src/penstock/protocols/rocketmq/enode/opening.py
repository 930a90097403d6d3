"""From an address of name servers to an enode.

The address may say what a client's may about who asks and about encryption, in our words or Java's: ``access_key`` and
``secret_key``, ``tls`` and ``tls_…``. It is shown to people without that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.config import ClientConfig, parse_address
from penstock.config.options import canonical_options, read_options
from penstock.errors import ConfigError
from penstock.protocols.rocketmq.config import ADDED, RocketConfig, RocketNodeConfig, rocket_config
from penstock.protocols.rocketmq.config.added import NAME_SERVER_PORT
from penstock.protocols.rocketmq.enode.credentials import Credentials
from penstock.protocols.rocketmq.enode.enode import RocketEnode
from penstock.protocols.rocketmq.signing import Account
from penstock.seams.opening import Surroundings

__all__ = ["open_enode"]

_ACCOUNT: Final = frozenset({"access_key", "secret_key"})
_TLS: Final = "tls"


def open_enode(url: str, around: Surroundings) -> RocketEnode:
    """``rocketmq://HOST:PORT[,HOST:PORT…][?access_key=…&secret_key=…&tls=true…]``: name servers. Raises ConfigError."""
    shown = url.partition("?")[0]
    address = parse_address(url, lambda scheme: NAME_SERVER_PORT)
    if not address.endpoints or address.topics:
        raise ConfigError(
            f"{shown!r} names no RocketMQ cluster", hint="Write rocketmq://HOST:9876, with commas between name servers"
        )
    tls, rocket = _client(address.options)
    own = around.config.front(RocketNodeConfig)
    account = None
    if rocket.access_key is not None and rocket.secret_key is not None:
        account = Account(rocket.access_key, rocket.secret_key)
    known = {key: Account(key, secret) for key, secret in own.accounts.items()}
    credentials = Credentials(account, known if own.sign_as_clients else {}, next(iter(known.values()), None))
    return RocketEnode(
        shown.rstrip("/"),
        address.endpoints,
        around,
        own.enode_timeout_ms / 1_000,
        credentials,
        tls,
        own.enode_look_ms / 1_000,
    )


def _client(given: Mapping[str, Any]) -> tuple[ClientConfig, RocketConfig]:
    """What of a client's options concerns connections. Raises ConfigError."""
    said = canonical_options(ClientConfig, given, ADDED)
    other = [name for name in said if name not in _ACCOUNT and not name.startswith(_TLS)]
    if other:
        raise ConfigError(
            f"{', '.join(other)} means nothing in the address of a node's cluster",
            hint="It may say access_key and secret_key, tls and what begins with tls_",
        )
    account = {name: value for name, value in said.items() if name in _ACCOUNT}
    return read_options(ClientConfig, {name: value for name, value in said.items() if name not in account}), (
        rocket_config(account)
    )
