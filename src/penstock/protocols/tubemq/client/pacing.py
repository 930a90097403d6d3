"""Pacing: how long each partition of one consumer is left alone after an answer, and the rules that say so.

The rules come with answers of the master, to members of both kinds in different messages. What must not live here: the
rules' meaning (`flow_control`), asking for anything.
Source: Apache InLong TubeMQ 2.x, ``PartitionExt``, ``RmtDataCache`` and ``FlowCtrlRuleHandler`` of the Java client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from penstock.config.client import ClientLog
from penstock.errors import ProtocolViolation
from penstock.interfaces.channel import Channel
from penstock.model import Partition
from penstock.protocols.tubemq.client.options import TubeOptions
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.flow_control import FlowControl, Pace, Polled, timer_of
from penstock.protocols.tubemq.messages import (
    GetMessageResponseB2C,
    HeartResponseM2C,
    OpsTaskInfo,
    RegisterResponseM2C,
    has,
)

__all__ = ["Pacing"]

_AFTER_ERROR_MS: Final = {Code.FORBIDDEN: 2_000, Code.SERVICE_UNAVAILABLE: 300, Code.MOVED: 200}
_AFTER_OTHERS_MS: Final = 300
_SHORTEST_MS: Final = 10


class Pacing:
    """Of one consumer. ``control`` holds the rules, with the ids to be told to masters."""

    def __init__(self, channel: Channel[Any], options: TubeOptions, log: ClientLog) -> None:
        self._log = log
        self._channel = channel
        self._not_found_ms = options.tube.not_found_wait_ms
        self._own_priority = options.tube.query_priority
        self._paces: dict[Partition, Pace] = {}
        self._answered_ms: dict[Partition, tuple[int, Polled]] = {}
        self.control = FlowControl()

    # Rules.

    @property
    def priority_for_brokers(self) -> int:
        """Which records may be read from memory: what the application said, else what the master says of the group."""
        return self._own_priority or max(self.control.priority, 0)

    def note_rules(self, said: RegisterResponseM2C | HeartResponseM2C | OpsTaskInfo) -> None:
        """Take over what a master's answer says; what cannot be understood leaves the rules as they were.

        The priority has no version of its own, and may change (and be taken back, -2) while the rules stay.
        """
        group, shared = said.group_flow_control_info, said.def_flow_control_info
        if has(said, "qry_priority_id"):
            self.control.priority = said.qry_priority_id
        if has(said, "group_flow_check_id"):
            self._take(lambda: self.control.update_group(said.group_flow_check_id, group))
        if has(said, "def_flow_check_id"):
            self._take(lambda: self.control.update_shared(said.def_flow_check_id, shared))

    def _take(self, update: Callable[[], bool]) -> None:
        try:
            update()
        except ProtocolViolation as error:
            self._log.warning("the master's %s", error)

    def escapes(self) -> bool:
        """Whether the broker's own limit does not count, because the group has one that applies now."""
        return self.control.escapes(self._now_ms(), self._channel.now_ms())

    # Partitions.

    def note_batch(self, partition: Partition, answer: GetMessageResponseB2C, size: int, *, filtered: bool) -> None:
        """A batch came: ``size`` bytes, all of its answer, which is a little more than its messages' bodies."""
        self._paces.setdefault(partition, Pace(self.control, filtered=filtered))
        polled = Polled(
            Code.SUCCESS, size, 0, answer.curr_data_dlt if has(answer, "curr_data_dlt") else -1,
            answer.require_slow, answer.esc_flow_ctrl,
        )  # fmt: skip
        self._answered_ms[partition] = (self._now_ms(), polled)

    def after_batch(self, partition: Partition) -> float:
        """The batch noted last is done with: seconds until the next one may be asked for."""
        pace, answered = self._paces.get(partition), self._answered_ms.pop(partition, None)
        if pace is None or answered is None:
            return 0.0
        now = self._now_ms()
        at, polled = answered
        return timer_of(pace.rest_ms(polled, now, self._channel.now_ms()), now - at) / 1_000

    def after_failure(self, partition: Partition, answer: GetMessageResponseB2C, *, filtered: bool) -> float:
        """No batch came: seconds until it is tried again."""
        pace = self._paces.setdefault(partition, Pace(self.control, filtered=filtered))
        lag = answer.curr_data_dlt if has(answer, "curr_data_dlt") else -1
        polled = Polled(answer.err_code, 0, self._recommended_ms(answer), lag)
        # A limit of no bytes comes with a pause of no time; asking without end would not help.
        return max(pace.rest_ms(polled, self._now_ms(), self._channel.now_ms()), _SHORTEST_MS) / 1_000

    def _now_ms(self) -> int:
        return int(self._channel.monotonic() * 1_000)

    def _recommended_ms(self, answer: GetMessageResponseB2C) -> int:
        if answer.err_code == Code.NOT_FOUND:
            return self._not_found_ms
        if answer.err_code == Code.SERVER_CONSUME_SPEED_LIMIT:
            return max(0, answer.min_limit_time) if has(answer, "min_limit_time") else self._not_found_ms
        return _AFTER_ERROR_MS.get(answer.err_code, _AFTER_OTHERS_MS)
