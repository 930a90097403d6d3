"""From an address of masters to an enode. Its options are those of a client's ``tubemq://`` address that concern both
reading and writing (`penstock.protocols.tubemq.config.TubeConfig`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.config import parse_address
from penstock.config.address import Address
from penstock.errors import ConfigError
from penstock.interfaces.node import Surroundings
from penstock.protocols.tubemq.client.options import TubeOptions
from penstock.protocols.tubemq.config.address import MASTER_PORT
from penstock.protocols.tubemq.config.options import TubeConfig, tube_config
from penstock.protocols.tubemq.enode.enode import TubeEnode

__all__ = ["open_enode"]

_OPTIONS: Final = frozenset(
    {
        "admin_address", "admin_token", "admin_user", "allow_duplicates", "authenticate", "connections_per_broker",
        "heartbeat_after_fail_ms", "heartbeat_period_ms", "heartbeat_retries", "link_max_delayed", "local_address",
        "not_found_wait_ms", "password", "reader_group", "register_backoff_ms", "register_retries", "rpc_timeout_ms",
        "session_max_delayed", "unavailable_broker_ms", "user",
    }
)  # fmt: skip
_READ_MS: Final = 10_000
"""How long a question about topics or offsets may take with all its attempts: clients wait 30 s."""
_WRITE_MS: Final = 25_000
"""How long a batch is tried: less than Kafka's producers wait for an answer (30 s), so that they hear what happened."""
_NEVER_MS: Final = 86_400_000
"""The enode itself asks anew where partitions are, every half a minute: no reader waits for masters that are away."""


def open_enode(url: str, around: Surroundings) -> TubeEnode:
    """``tubemq://HOST:PORT[,HOST:PORT…][?option=value…]``: masters. Raises ConfigError."""
    address = parse_address(url, lambda scheme: MASTER_PORT)
    if not address.endpoints or address.topics:
        raise ConfigError(
            f"{address.scheme}:// names no TubeMQ cluster",
            hint="Write tubemq://HOST:8715, with commas between masters and options behind a '?'",
        )
    reading = TubeOptions(
        tube=_tube(address, around.config.node_id),
        client_id=f"penstock-node-{around.config.node_id}",
        api_timeout_ms=_READ_MS,
        metadata_max_age_ms=_NEVER_MS,
    )
    writing = replace(reading, api_timeout_ms=_WRITE_MS, publishing=True)
    return TubeEnode(Address(address.scheme, address.endpoints), reading, writing, around)


def _tube(address: Address, node_id: int) -> TubeConfig:
    for name in address.options:
        if name not in _OPTIONS:
            raise ConfigError(
                f"a node's TubeMQ cluster has no option {name!r}", hint=f"There are {', '.join(sorted(_OPTIONS))}"
            )
    return tube_config({"reader_group": f"penstock-node-{node_id}", **address.options})
