"""What a consumer does to a batch between its engine and its user: what keys and values become, and interceptors.

What must not live here: decoding; nothing is made before somebody iterates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from penstock.client._intercepting import ConsumerInterceptors
from penstock.columnar import Messages
from penstock.columnar.messages import with_deserializers
from penstock.columnar.payloads import Deserializer, Deserializers, Refused
from penstock.errors import ConfigError

__all__ = ["check_callable", "receiving"]


def check_callable(name: str, given: object, hint: str) -> None:
    """Raises ConfigError for what is neither a function nor left out."""
    if given is not None and not callable(given):
        raise ConfigError(f"{name} is {given!r:.60}, wanted is a function", hint=hint)


def receiving(
    key: object, value: object, interceptors: ConsumerInterceptors, refused: Refused | None = None
) -> Callable[[Messages], Messages[Any, Any]]:
    """What each batch goes through. Raises ConfigError for what cannot be called."""
    for name, given in (("key_deserializer", key), ("value_deserializer", value)):
        check_callable(name, given, "For JSON it is penstock.from_json, for text penstock.from_utf8")
    if key is None and value is None:
        return interceptors.polled if interceptors else _as_it_is
    makes = Deserializers(cast("Deserializer[Any] | None", key), cast("Deserializer[Any] | None", value), refused)
    return lambda batch: interceptors.polled(with_deserializers(batch, makes))


def _as_it_is(batch: Messages) -> Messages:
    return batch
