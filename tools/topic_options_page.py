"""Generates the table of a topic's options in docs/node from the table of the Kafka front."""

from __future__ import annotations

from penstock.protocols.kafka.server.topic_options import OPTIONS, Kind, Option

__all__ = ["table"]

_LONGEST = str(2**63 - 1)
_ANYTHING = {Kind.BOOLEAN: "true, false", Kind.LIST: "partition:broker, …, or *"}


def table() -> str:
    """A row for each option of a topic."""
    rows = [_row(name, option) for name, option in sorted(OPTIONS.items())]
    return "\n".join(["| option | what | default | allowed | here |", "|---|---|---|---|---|", *rows])


def _row(name: str, option: Option) -> str:
    allowed = option.rule.allowed if option.rule else _ANYTHING.get(option.kind, "any number")
    return f"| `{name}` | {option.meaning} | {_default(option)} | {allowed} | {option.here} |"


def _default(option: Option) -> str:
    if option.default == _LONGEST:
        return "without limit"
    if option.kind in (Kind.INT, Kind.LONG):
        return f"{int(option.default):,}"
    return f"`{option.default}`" if option.default else ""
