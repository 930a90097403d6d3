"""Options of groups and of client metrics as Kafka clients see them: named and described, and most without effect here.

Those can be set that the node obeys (`group_settings`). The others belong to group protocols and to metrics that it
does not serve: what is taken and not obeyed would be a lie. Source: Kafka documentation, "Group Configs"; names,
types and defaults are 4.4.0's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from penstock.protocols.kafka import account
from penstock.protocols.kafka.consumer_groups import ConsumerGroupSettings
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.front.config_values import Kind, Source
from penstock.protocols.kafka.front.described_options import Described, Synonym
from penstock.protocols.kafka.front.faults import Refused
from penstock.protocols.kafka.front.group_settings import SETTABLE

__all__ = ["account_row", "client_metrics_options", "client_metrics_refusal", "group_options", "group_refusal"]


class _Option(NamedTuple):
    kind: Kind
    default: str
    synonym: str = ""
    """The option that its default is from, where that is not its own name behind ``group.``."""


_INT: Final = Kind.INT
_GROUPS: Final[Mapping[str, _Option]] = {
    "consumer.assignment.interval.ms": _Option(_INT, "1000"),
    "consumer.heartbeat.interval.ms": _Option(_INT, "5000"),
    "consumer.session.timeout.ms": _Option(_INT, "45000"),
    "errors.deadletterqueue.copy.record.enable": _Option(
        Kind.BOOLEAN, "false", "errors.deadletterqueue.copy.record.enable"
    ),
    "errors.deadletterqueue.topic.name": _Option(Kind.STRING, "", "errors.deadletterqueue.topic.name"),
    "share.assignment.interval.ms": _Option(_INT, "1000"),
    "share.auto.offset.reset": _Option(Kind.STRING, "latest", "share.auto.offset.reset"),
    "share.delivery.count.limit": _Option(_INT, "5"),
    "share.heartbeat.interval.ms": _Option(_INT, "5000"),
    "share.isolation.level": _Option(Kind.STRING, "read_uncommitted", "share.isolation.level"),
    "share.partition.max.record.locks": _Option(_INT, "2000"),
    "share.record.lock.duration.ms": _Option(_INT, "30000"),
    "share.renew.acknowledge.enable": _Option(Kind.BOOLEAN, "true", "share.renew.acknowledge.enable"),
    "share.session.timeout.ms": _Option(_INT, "45000"),
    "streams.assignment.interval.ms": _Option(_INT, "1000"),
    "streams.assignor.name": _Option(Kind.STRING, "sticky", "group.streams.assignors"),
    "streams.heartbeat.interval.ms": _Option(_INT, "5000"),
    "streams.initial.rebalance.delay.ms": _Option(_INT, "3000"),
    "streams.num.standby.replicas": _Option(_INT, "0"),
    "streams.rack.aware.assignment.tags": _Option(Kind.LIST, ""),
    "streams.session.timeout.ms": _Option(_INT, "45000"),
}
_METRICS: Final = {"interval.ms": (_INT, "300000"), "match": (Kind.LIST, ""), "metrics": (Kind.LIST, "")}


def group_options(name: str, newer: ConsumerGroupSettings, own: Mapping[str, str]) -> list[Described]:
    """What is in force for a group: its ``own``, the node's for groups of KIP-848, else Kafka's defaults.

    Raises Refused.
    """
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    served = {
        "consumer.assignment.interval.ms": "0",
        "consumer.heartbeat.interval.ms": str(newer.heartbeat_interval_ms),
        "consumer.session.timeout.ms": str(newer.session_timeout_ms),
    }
    rows = [_described(each, option, served.get(each)) for each, option in _GROUPS.items()]
    return [_said(row, own[row.name]) if row.name in own else row for row in rows]


def _said(row: Described, value: str) -> Described:
    synonyms = (Synonym(row.name, value, Source.GROUP), *row.synonyms)
    return row._replace(value=value, source=Source.GROUP, synonyms=synonyms)


def _described(name: str, option: _Option, served: str | None) -> Described:
    theirs = option.synonym or f"group.{name}"
    kind = _protocol(name)
    if served is None:
        meaning = f"Of {kind} groups of Kafka 4, which this node does not serve."
    else:
        meaning = "Of groups of group.protocol=consumer (KIP-848)."
    value = option.default if served is None else served
    default = Synonym(theirs, option.default, Source.DEFAULT)
    if value == option.default:
        return Described(name, value, option.kind, Source.DEFAULT, (default,), meaning)
    own = Synonym(theirs, value, Source.STATIC_BROKER)
    return Described(name, value, option.kind, Source.STATIC_BROKER, (own, default), meaning)


def _protocol(name: str) -> str:
    """Which groups an option is of."""
    return "share" if name.startswith("errors.") else name.partition(".")[0]


def account_row(call: Call, name: str) -> list[Described]:
    """What only our own client asks for, by its name: how the group was rebalanced, if there is such a group."""
    groups = call.shared.groups
    group = groups.newer.coordinator.group(name) or groups.coordinator.group(name)
    if group is None or call.version < account.SINCE:
        return []
    meaning = "The group's last rebalances, as JSON."
    text = account.written(group.account.rebalances())
    return [Described(account.OPTION, text, Kind.STRING, Source.DEFAULT, (), meaning, read_only=True)]


def client_metrics_options() -> list[Described]:
    """What is in force for clients that would send metrics."""
    meaning = "Of metrics that clients send, which this node does not take."
    return [Described(name, default, kind, Source.DEFAULT, (), meaning) for name, (kind, default) in _METRICS.items()]


def group_refusal(name: str, options: Collection[str]) -> Refused | None:
    """Why a group's options cannot be changed; None where none is to be."""
    try:
        _check_group(name)
    except Refused as refused:
        return refused
    for each in options:
        if each in SETTABLE:
            continue
        if each not in _GROUPS:
            return Refused(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {each}")
        kind = _protocol(each)
        if kind == "consumer":
            text = f"{each} is 0 for all groups of this node but large ones, which are shared out once a second"
            return Refused(ErrorCode.INVALID_CONFIG, text)
        return Refused(ErrorCode.INVALID_CONFIG, f"{each} is for {kind} groups, which this node does not serve")
    return None


def client_metrics_refusal(options: Collection[str]) -> Refused | None:
    """Why options of client metrics cannot be changed; None where none is to be."""
    for each in options:
        if each not in _METRICS:
            return Refused(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {each}")
        return Refused(ErrorCode.INVALID_CONFIG, f"{each} is for metrics of clients, which this node does not take")
    return None


def _check_group(name: str) -> None:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
