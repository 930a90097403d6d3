"""Pace: how long a partition is left alone after each answer, per partition and with the clock passed in.

What must not live here: asking for anything.
Source: Apache InLong TubeMQ 2.x, ``PartitionExt`` and ``FlowCtrlRuleHandler`` of the Java client.
"""

from __future__ import annotations

from typing import Final

from penstock.model import Partition
from penstock.protocols.tubemq.client.options import TubeOptions
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.messages import GetMessageResponseB2C, HeartResponseM2C, OpsTaskInfo, RegisterResponseM2C, has

__all__ = ["Pace"]

_AFTER_ERROR_MS: Final = {Code.FORBIDDEN: 2_000, Code.SERVICE_UNAVAILABLE: 300, Code.MOVED: 200}
_AFTER_OTHERS_MS: Final = 300
_NOT_TOLD: Final = -2


class Pace:
    """Of one consumer."""

    def __init__(self, options: TubeOptions) -> None:
        self._not_found_ms = options.tube.not_found_wait_ms
        self._own_priority = options.tube.query_priority
        self.group_rules_id = self.default_rules_id = self.query_priority = _NOT_TOLD

    @property
    def priority_for_brokers(self) -> int:
        """Which records may be read from memory: what the application said, else what the master says of the group."""
        return self._own_priority or max(self.query_priority, 0)

    def note_rules(self, answer: RegisterResponseM2C | HeartResponseM2C) -> None:
        """Take over what a master's answer says about the pace of this group and of all."""
        del answer

    def note_ops(self, said: OpsTaskInfo) -> None:
        """The same from a master's answer to a client-balanced member."""
        del said

    def escapes(self, now: float) -> bool:
        """Whether the broker's own limit does not count, because the group has one that applies now."""
        del now
        return False

    def note_batch(
        self, partition: Partition, answer: GetMessageResponseB2C, size: int, now: float, *, filtered: bool
    ) -> None:
        """A batch of ``size`` bytes came."""

    def after_batch(self, partition: Partition, now: float) -> float:
        """The batch noted last is done with: seconds until the next one may be asked for."""
        return 0.0

    def after_failure(self, partition: Partition, answer: GetMessageResponseB2C, now: float) -> float:
        """No batch came: seconds until it is tried again."""
        return self._recommended_ms(answer) / 1_000

    def _recommended_ms(self, answer: GetMessageResponseB2C) -> int:
        if answer.err_code == Code.NOT_FOUND:
            return self._not_found_ms
        if answer.err_code == Code.SERVER_CONSUME_SPEED_LIMIT:
            return max(0, answer.min_limit_time) if has(answer, "min_limit_time") else self._not_found_ms
        return _AFTER_ERROR_MS.get(answer.err_code, _AFTER_OTHERS_MS)
