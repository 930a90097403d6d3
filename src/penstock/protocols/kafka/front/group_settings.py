"""What can be set for a single group, checked as a real broker does, and what it means for the coordinator.

Source: Kafka documentation, "Group Configs"; the words are those that Apache Kafka 4.4.0 answers with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from penstock.protocols.kafka.consumer_groups import ConsumerGroupSettings
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.config_values import Kind, Option, canonical
from penstock.protocols.kafka.front.faults import Refused

__all__ = ["HEARTBEAT", "SESSION", "SETTABLE", "check_group_options", "own_settings"]

HEARTBEAT: Final = "consumer.heartbeat.interval.ms"
SESSION: Final = "consumer.session.timeout.ms"
SETTABLE: Final[Mapping[str, Option]] = {
    HEARTBEAT: Option(Kind.INT, "5000", "How often members of the group are to be heard of."),
    SESSION: Option(Kind.INT, "45000", "When a member of the group counts as gone."),
}


def check_group_options(wanted: Mapping[str, str | None], settings: ConsumerGroupSettings) -> dict[str, str]:
    """The values as they are kept; ``settings`` are the node's. Raises Refused."""
    checked = {}
    for name, value in wanted.items():
        if value is None:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
        checked[name] = canonical(name, SETTABLE[name], value)
    bounds = {
        HEARTBEAT: (settings.min_heartbeat_interval_ms, settings.max_heartbeat_interval_ms),
        SESSION: (settings.min_session_timeout_ms, settings.max_session_timeout_ms),
    }
    for name, (least, most) in bounds.items():
        if name in checked and not least <= int(checked[name]) <= most:
            raise _refused(f"{name} must be in the range {least} to {most} inclusive.")
    made = own_settings(checked, settings) or settings
    if made.session_timeout_ms <= made.heartbeat_interval_ms:
        raise _refused(f"{SESSION} must be greater than {HEARTBEAT}")
    return checked


def _refused(text: str) -> Refused:
    return Refused(ErrorCode.INVALID_CONFIG, text)


def own_settings(options: Mapping[str, str], settings: ConsumerGroupSettings) -> ConsumerGroupSettings | None:
    """What holds for a group with these options, where ``settings`` hold for all; None where it is the same."""
    if not options:
        return None
    return replace(
        settings,
        session_timeout_ms=int(options.get(SESSION, settings.session_timeout_ms)),
        heartbeat_interval_ms=int(options.get(HEARTBEAT, settings.heartbeat_interval_ms)),
    )
