"""Whose line it is: clients' loggers, which put the client's id and its group before each line.

Loggers are named for what users know ("Log" in `docs/clients/README.md` has the table), not for modules.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from penstock.config import ClientConfig, ConsumerConfig, ProducerConfig

__all__ = ["ClientLog", "client_log"]


class ClientLog(logging.LoggerAdapter[logging.Logger]):
    """A logger whose lines begin with ``who``."""

    def __init__(self, name: str, who: str = "") -> None:
        super().__init__(logging.getLogger(name), {})
        self._who = who

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return f"{self._who}{msg}", kwargs


def client_log(name: str, config: ClientConfig) -> ClientLog:
    """The logger ``penstock.NAME`` for one client."""
    parts = [f"client {config.client_id}"]
    if isinstance(config, ConsumerConfig) and config.group:
        parts.append(f"group {config.group}")
    if isinstance(config, ProducerConfig) and config.transactional_id:
        parts.append(f"transactional id {config.transactional_id}")
    return ClientLog(f"penstock.{name}", f"[{', '.join(parts)}] ".replace("%", "%%"))
