"""What a consumer does to a batch between its engine and its user: what keys and values become, and interceptors.

What must not live here: decoding; nothing is made before somebody iterates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from penstock.client._intercepting import ConsumerInterceptors
from penstock.columnar import Messages
from penstock.columnar.messages import with_deserializers
from penstock.columnar.payloads import Deserializer, Deserializers, Refused
from penstock.errors import ConfigError

__all__ = ["check_callable", "receiving"]

_NOTHING_OF_NODES: Final = Messages(named_nodes=True)


def check_callable(name: str, given: object, hint: str) -> None:
    """Raises ConfigError for what is neither a function nor left out."""
    if given is not None and not callable(given):
        raise ConfigError(f"{name} is {given!r:.60}, wanted is a function", hint=hint)


def receiving(
    key: object,
    value: object,
    interceptors: ConsumerInterceptors,
    refused: Refused | None = None,
    *,
    named_nodes: bool = False,
) -> Callable[[Messages], Messages[Any, Any]]:
    """What each batch goes through. Raises ConfigError for what cannot be called.

    ``named_nodes``: tables have the column node, also those of polls that return nothing.
    """
    for name, given in (("key_deserializer", key), ("value_deserializer", value)):
        check_callable(name, given, "For JSON it is penstock.from_json, for text penstock.from_utf8")
    if key is None and value is None:
        plain = interceptors.polled if interceptors else _as_it_is
        return (lambda batch: plain(batch if batch.parts else _NOTHING_OF_NODES)) if named_nodes else plain
    makes = Deserializers(cast("Deserializer[Any] | None", key), cast("Deserializer[Any] | None", value), refused)

    def made(batch: Messages) -> Messages[Any, Any]:
        batch = _NOTHING_OF_NODES if named_nodes and not batch.parts else batch
        return interceptors.polled(with_deserializers(batch, makes))

    return made


def _as_it_is(batch: Messages) -> Messages:
    return batch
