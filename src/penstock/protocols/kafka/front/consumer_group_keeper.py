"""Runs the coordinator of newer groups: gives it the time and the topics, and answers when what it decided is durable.

What must not live here: decisions about groups (`consumer_groups`) and wire messages (`apis`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from penstock.errors import PenstockError
from penstock.protocols.kafka.consumer_groups import Beat, BeatAnswer, ConsumerCoordinator, ConsumerGroupSettings, Topic
from penstock.protocols.kafka.consumer_groups.checking import check_beat
from penstock.protocols.kafka.consumer_groups.requests import BeatRefused
from penstock.protocols.kafka.coordinator import Leaver, Moment
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.alarm import Alarm
from penstock.protocols.kafka.front.consumer_group_log import ConsumerGroupLog
from penstock.seams.journal import OWN_TOPICS
from penstock.seams.node import Services
from penstock.seams.rebalances import Rebalance

__all__ = ["ConsumerGroupKeeper"]

_log = logging.getLogger("penstock.node")


class ConsumerGroupKeeper:
    """``told`` is called with each rebalance that has come to its end, and its group's name."""

    def __init__(
        self, settings: ConsumerGroupSettings, services: Services, told: Callable[[str, Rebalance], None]
    ) -> None:
        self._services = services
        self._runtime = services.runtime
        self.coordinator = ConsumerCoordinator(settings, told)
        self._log = ConsumerGroupLog(services.journals, services.runtime, self.coordinator)
        self._alarm = Alarm(services.runtime, self.coordinator.next_deadline, self._expire)

    def now(self) -> Moment:
        """Both clocks."""
        return Moment(self._runtime.monotonic(), self._runtime.now_ms())

    async def start(self) -> None:
        """Take over what the log knows. Raises ProtocolViolation for a damaged entry."""
        self.coordinator.load(await self._log.load(), self.now())
        self._alarm.wake()

    def stop(self) -> None:
        """No more deadlines."""
        self._alarm.stop()

    async def beat(self, beat: Beat, make_way: Callable[[Beat], None]) -> BeatAnswer:
        """ConsumerGroupHeartbeat. ``make_way`` is asked whether there may be such a group; raises BeatRefused."""
        try:
            check_beat(beat)
            topics = await self._topics(beat)
            make_way(beat)
            answer = self.coordinator.beat(beat, topics, self.now())
            self._alarm.wake()
            await self._log.save(beat.group)
        except BeatRefused as refused:
            return BeatAnswer(refused.code, str(refused))
        except PenstockError as error:
            return BeatAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
        return answer

    async def _topics(self, beat: Beat) -> dict[str, Topic] | None:
        wanted = self.coordinator.wanted(beat, self.now())
        if wanted is None:
            return None
        enode = self._services.enode
        if wanted.every:
            # A real broker's patterns mean its own topics, too; what it has none of, a pattern must not mean here.
            topics = [each for each in await enode.topics() if not each.name.startswith(OWN_TOPICS)]
            return {each.name: Topic(each.id, each.partitions) for each in topics}
        found = [await enode.topic(name) for name in sorted(wanted.names)]
        return {each.name: Topic(each.id, each.partitions) for each in found if each is not None}

    async def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[ErrorCode] | None:
        """LeaveGroup; None if there is no such group. Raises StoreError."""
        codes = self.coordinator.leave(group_id, leavers, self.now())
        self._alarm.wake()
        await self._log.save(group_id)
        return codes

    def give_way(self, group_id: str) -> bool:
        """Forget a group without members, so that it can be one of the older protocol; whether there is none now."""
        if self.coordinator.group(group_id) is None:
            return True
        if self.coordinator.delete(group_id):
            return False
        self._save_soon(group_id)
        return True

    async def save(self, group_id: str) -> None:
        """Return when all that was decided of the group is durable. Raises StoreError."""
        await self._log.save(group_id)

    def _expire(self) -> None:
        for group_id in self.coordinator.expire(self.now()):
            self._save_soon(group_id)

    def _save_soon(self, group_id: str) -> None:
        self._runtime.spawn(self._saved(group_id), f"store group {group_id}")

    async def _saved(self, group_id: str) -> None:
        try:
            await self._log.save(group_id)
        except PenstockError as error:
            _log.warning("cannot store what became of group %s, will try with its next heartbeat: %s", group_id, error)
