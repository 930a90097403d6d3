"""Checks: what brokers ask about halves whose end they have not heard of, and what they are told.

| what the producer knows | what is answered |
| --- | --- |
| its transaction is open | nothing: they ask again |
| it is ended, and a broker has said so within the last ten seconds | nothing: it may not have noted it yet |
| it is ended otherwise | how |
| nothing: a producer sent it that had this id before, or has it, too | what the application says; without it, nothing |

A broker that has heard nothing after 15 questions puts the message away (``TRANS_CHECK_MAX_TIME_TOPIC``).
Source: Apache RocketMQ 4.9 and 5.4, ``TransactionalMessageServiceImpl.check``, ``DefaultMQProducerImpl``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._dataclasses import dataclass
from penstock.config.logs import ClientLog, whose
from penstock.errors import PenstockError
from penstock.model import Endpoint, Record
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.command import RemotingCommand
from penstock.protocols.rocketmq.methods import CHECK_TRANSACTION_STATE, END_TRANSACTION
from penstock.protocols.rocketmq.rpc import read_request

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.client.shared import Shared
    from penstock.protocols.rocketmq.records import StoredMessage
    from penstock.seams.transactions import AnswerCheck

__all__ = ["Checks", "Known"]

_MOST_KNOWN: Final = 200_000
_NOTED_S: Final = 10.0


@dataclass(slots=True)
class Known:
    """A transaction of this producer: None while it is open, and when its last half's end was confirmed."""

    commit: bool | None = None
    ended_at: float | None = None


class Checks:
    """Of one producer, whose ``group`` brokers ask."""

    def __init__(self, shared: Shared, group: str) -> None:
        self._shared = shared
        self._group = group
        self._log = ClientLog("penstock.producer", whose(shared.options.client_id))
        self._known: dict[str, Known] = {}
        self.answer: AnswerCheck | None = None

    def note(self, unique_id: str, transaction: Known) -> None:
        """This producer sends this message in this transaction. Of very many the oldest are forgotten."""
        self._known[unique_id] = transaction
        while len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]

    async def answer_all(self) -> None:
        """Answer what has been asked. Whoever cannot be told asks again."""
        asked = self._shared.heard.checks
        while asked:
            endpoint, command = asked.popleft()
            try:
                await self._answer(endpoint, command)
            except PenstockError as error:
                self._log.warning("a broker was not told what became of a transaction, and asks again: %s", error)

    async def _answer(self, endpoint: Endpoint, command: RemotingCommand) -> None:
        from penstock.protocols.rocketmq.records import read_stored

        header = read_request(CHECK_TRANSACTION_STATE, command)
        message = next(iter(read_stored(bytes(command.body))), None)
        if message is None:
            return
        properties = message.property_map
        if properties.get("PGROUP", self._group) != self._group:
            return
        unique_id = properties.get("UNIQ_KEY") or header.msg_id or ""
        commit = await self._decided(unique_id, message)
        if commit is None:
            return
        end = m.EndTransaction(
            producer_group=self._group,
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=m.Decision.COMMIT if commit else m.Decision.ROLLBACK,
            from_transaction_check=True,
            msg_id=unique_id,
            transaction_id=header.transaction_id,
            topic=header.topic,
            broker_name=header.broker_name,
        )
        await self._shared.calls.tell(endpoint, END_TRANSACTION, end)

    async def _decided(self, unique_id: str, message: StoredMessage) -> bool | None:
        known = self._known.get(unique_id)
        if known is None:
            return None if self.answer is None else await self.answer(_record_of(message))
        now = self._shared.channel.monotonic()
        fresh = known.ended_at is not None and now < known.ended_at + _NOTED_S
        return None if fresh else known.commit


def _record_of(message: StoredMessage) -> Record:
    """As it would be read, but for its offset, which it has not got yet."""
    from penstock.protocols.rocketmq.records import read_record

    properties = message.property_map
    said = read_record(message.properties, message.plain_body)
    queue = properties.get("REAL_QID", "")
    return Record(
        properties.get("REAL_TOPIC", message.topic),
        int(queue) if queue.isdecimal() else message.queue_id,
        -1,
        message.born_ms,
        said.key,
        said.value,
        tuple(said.headers),
    )
