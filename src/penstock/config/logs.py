"""Whose line it is: clients' loggers, which put the client's id and its group before each line.

Loggers are named for what users know ("Log" in `docs/clients/README.md` has the table), not for modules.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from penstock.config.client import ClientConfig
from penstock.config.consumer import ConsumerConfig
from penstock.config.producer import ProducerConfig

__all__ = ["ClientLog", "client_log", "whose", "whose_config"]


class ClientLog(logging.LoggerAdapter[logging.Logger]):
    """A logger whose lines begin with ``who``, as `whose` gives it."""

    def __init__(self, name: str, who: str = "") -> None:
        super().__init__(logging.getLogger(name), {})
        self._who = who.replace("%", "%%")

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return f"{self._who}{msg}", kwargs


def client_log(name: str, config: ClientConfig) -> ClientLog:
    """The logger ``penstock.NAME`` for one client."""
    return ClientLog(f"penstock.{name}", whose_config(config))


def whose_config(config: ClientConfig) -> str:
    """What the lines of a client with these options begin with."""
    group = config.group if isinstance(config, ConsumerConfig) else None
    transactional_id = config.transactional_id if isinstance(config, ProducerConfig) else None
    return whose(config.client_id, group, transactional_id)


def whose(client_id: str, group: str | None = None, transactional_id: str | None = None) -> str:
    """What the lines of a client begin with: ``[client orders, group stats] ``."""
    parts = [f"client {client_id}"]
    if group:
        parts.append(f"group {group}")
    if transactional_id:
        parts.append(f"transactional id {transactional_id}")
    return f"[{', '.join(parts)}] "
