"""Options of a single group, changed step by step, and what a node answers each time."""

from __future__ import annotations

from typing import Any

from penstock.protocols.kafka.wire.configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from tests.interop.wire import Wire, told

__all__ = ["change_group"]

_GROUP = 32
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_SESSION, _INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
_CHANGES = (
    *((_SESSION, _SET, each) for each in ("1", "44999", "60001", "2147483648", "x", None, " 50000 ")),
    *((_INTERVAL, _SET, each) for each in ("4999", "15001", "15000")),
    (_SESSION, _APPEND, "1"),
    (_SESSION, _SUBTRACT, "1"),
    ("nonsense", _SET, "1"),
    (_INTERVAL, _DELETE, None),
    ("share.auto.offset.reset", _DELETE, None),
)
_NOT_YET = 14


async def change_group(wire: Wire, group: str, found: dict[str, Any]) -> None:
    """All answers go into ``found``, and what is in force in the end."""
    for name, operation, value in _CHANGES:
        one = IncrementalAlterConfigsRequestConfig(name=name, config_operation=operation, value=value)
        resource = IncrementalAlterConfigsRequestResource(resource_type=_GROUP, resource_name=group, configs=[one])
        answer = await wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        found[f"{name} {operation} {value}"] = [(each.error_code, each.error_message) for each in answer.responses]

    async def seen() -> int:
        # A real broker hears of it a moment after it has said so.
        asked = DescribeConfigsRequestResource(
            resource_type=_GROUP, resource_name=group, configuration_keys=[_SESSION, _INTERVAL]
        )
        answer = await wire.ask(DescribeConfigsRequest(resources=[asked], include_synonyms=True), 4)
        rows = {row.name: row for row in answer.results[0].configs}
        found["seen"] = [
            (rows[name].value, rows[name].config_source, [(each.value, each.source) for each in rows[name].synonyms])
            for name in (_SESSION, _INTERVAL)
        ]
        return 0 if (rows[_SESSION].value, rows[_INTERVAL].value) == ("50000", "5000") else _NOT_YET

    await told(seen)
