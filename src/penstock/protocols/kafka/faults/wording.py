"""How Kafka says no: reads a request's API, and writes an error code into every place its answer has for one."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Sequence
from typing import Any, Final

from penstock.errors import ProtocolViolation, UsageError
from penstock.protocols.kafka.errors import ROWS, code_of
from penstock.protocols.kafka.faults.refusals import refused, takes_no_answer
from penstock.protocols.kafka.messages import api_of, known, read_header, read_request, read_response, response
from penstock.protocols.kafka.messages.declare import Wire
from penstock.seams import Frame, Pieces, joined
from penstock.seams.faults import Handle, check_name

_APIS: Final = {pair.name for key in known() if (pair := api_of(key)) is not None}
_ERRORS: Final = {row.name for row in ROWS.values() if row.code}
_CODES: Final = ("error_code", "partition_error_code")
_API_VERSIONS: Final = 18
_UNSUPPORTED_VERSION: Final = 35


class KafkaWording:
    """The Kafka part of fault injection."""

    def check(self, api: str, error: str = "") -> None:
        """Raise UsageError for a name that Kafka does not have."""
        if api:
            check_name("Kafka", "API", api, _APIS)
        if error:
            check_name("Kafka", "error", error, _ERRORS)

    def api_of(self, frame: Frame) -> str:
        """The API's name, "" for a request that cannot be read."""
        try:
            header, _ = read_header(frame.body)
        except ProtocolViolation:
            return ""
        pair = api_of(header.api_key)
        return pair.name if pair else ""

    async def refusal(self, frame: Frame, error: str, handle: Handle) -> Pieces | None:
        """An answer with ``error`` and no effect."""
        header, request = read_request(frame.body)
        code = code_of(error)
        if takes_no_answer(request):
            return None
        if (header.api_key, code) == (_API_VERSIONS, _UNSUPPORTED_VERSION):
            # KIP-511: said in version 0, which everybody can read.
            return response(refused(request, code), 0, header.correlation_id)
        answer = refused(request, code)
        if answer is not None:
            return response(answer, header.api_version, header.correlation_id)
        true = await handle(frame)
        return None if true is None else self.spoilt(frame, true, error)

    def spoilt(self, frame: Frame, answer: Pieces, error: str) -> Pieces:
        """The true answer with ``error`` in place of all its codes."""
        header, _ = read_header(frame.body)
        pair = api_of(header.api_key)
        if pair is None:
            raise UsageError(f"API {header.api_key} is unknown")
        told: object = read_response(pair.response, header.api_version, joined(answer)[4:])
        return response(_with_code(told, header.api_version, code_of(error)), header.api_version, header.correlation_id)


@functools.cache
def _error_fields(message: type[object], version: int) -> frozenset[str]:
    """The message's own error codes that the version has."""
    hints = typing.get_type_hints(message, include_extras=True)
    wires: dict[str, Wire] = {name: hints[name].__metadata__[0] for name in _CODES if name in hints}
    return frozenset(name for name, wire in wires.items() if wire.present(version))


def _with_code(message: Any, version: int, code: int) -> Any:
    """The message with every error code in it replaced."""
    changes: dict[str, Any] = dict.fromkeys(_error_fields(message.__class__, version), code)
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if dataclasses.is_dataclass(value):
            changes[field.name] = _with_code(value, version, code)
        elif isinstance(value, Sequence) and value and dataclasses.is_dataclass(value[0]):
            changes[field.name] = [_with_code(each, version, code) for each in value]
    return dataclasses.replace(message, **changes)
