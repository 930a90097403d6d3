"""A sender whose messages become visible when their transaction commits (`RocketTransactionalSender`), and its
responses to brokers' questions about transactions (`Checks`)."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from penstock.config.client import ClientLog, whose
from penstock.errors import PenstockError, ServerError, UsageError
from penstock.interfaces.channel import Retry
from penstock.interfaces.client import TransactionalSender
from penstock.model import Codec, Committed, Endpoint, GroupMetadata, Node, Partition, PreparedTransaction, Record
from penstock.protocols.rocketmq.client.sender import LANE, STORED, RocketPacked, RocketSender, is_delayed
from penstock.protocols.rocketmq.config import check_group
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from penstock.protocols.rocketmq.wire.rpc import (
    CHECK_TRANSACTION_STATE,
    END_TRANSACTION,
    HEART_BEAT,
    SEND_MESSAGE_V2,
    read_request,
)

if TYPE_CHECKING:
    from penstock.interfaces.client import AnswerCheck
    from penstock.protocols.rocketmq.client.shared import Shared
    from penstock.protocols.rocketmq.wire.message_format import StoredMessage
    from penstock.records.scalar_writer import Rows

__all__ = ["Checks", "Known", "RocketTransactionalSender"]

# Checks: brokers ask about half messages whose end they have not received.
#
# | the producer's state | response |
# | --- | --- |
# | the transaction is open | none: the broker asks again |
# | it is ended, and a broker confirmed that within the last ten seconds | none: it may not have noted the end yet |
# | it is ended otherwise | the outcome |
# | unknown: another producer with this id sent it | what the application says; without that, none |
#
# After 15 questions without a response, a broker puts the message away (``TRANS_CHECK_MAX_TIME_TOPIC``). Source: Apache
# RocketMQ 4.9 and 5.4, ``TransactionalMessageServiceImpl.check``, ``DefaultMQProducerImpl``.
_MOST_KNOWN: Final = 200_000
_NOTED_S: Final = 10.0


class Known(Struct):
    """A transaction of this producer: its outcome, None while it is open, and when its last end was confirmed."""

    commit: bool | None = None
    ended_at: float | None = None


class Checks:
    """Responses of one producer, whose ``group`` brokers ask."""

    def __init__(self, shared: Shared, group: str) -> None:
        self._shared = shared
        self._group = group
        self._log = ClientLog("penstock.producer", whose(shared.options.client_id))
        self._known: dict[str, Known] = {}
        self.answer: AnswerCheck | None = None

    def note(self, unique_id: str, transaction: Known) -> None:
        """This producer sends a message in a transaction. Of very many messages the oldest are forgotten."""
        self._known[unique_id] = transaction
        while len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]

    async def answer_all(self) -> None:
        """Answer all questions so far. If a response gets lost, the broker asks again."""
        asked = self._shared.heard.checks
        while asked:
            endpoint, command = asked.popleft()
            try:
                await self._answer(endpoint, command)
            except PenstockError as error:
                self._log.warning("the end of a transaction did not reach a broker, which will ask for it: %s", error)

    async def _answer(self, endpoint: Endpoint, command: RemotingCommand) -> None:
        from penstock.protocols.rocketmq.wire.message_format import read_stored

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
    """The record that a reader would get, without its offset, which it does not have yet."""
    from penstock.protocols.rocketmq.wire.properties import read_record

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


_PREPARED: Final = 4
"""The bits of a half message in ``sysFlag``."""
_AT_ONCE: Final = 32
_LOOK_S: Final = 1.0


class _Half(Struct, frozen=True):
    """A message that waits for its transaction's end: where it is at its broker, and its position in its queue."""

    place: tuple[int, int]
    partition: Partition
    unique_id: str
    queue_offset: int
    commit_log_offset: int


class RocketTransactionalSender(RocketSender, TransactionalSender):
    """A transactional producer's sender (``TransactionalSender`` and ``AnswersChecks`` of
    `penstock.interfaces.client`, and ``client.Beats``)."""

    fatal = None
    """No other producer can take the transactional id away."""
    beat_interval_s = _LOOK_S

    def __init__(self, shared: Shared, transactional_id: str) -> None:
        super().__init__(shared)
        self._group = check_group(transactional_id, "transactional_id")
        self._checks = Checks(shared, self._group)
        self._transaction = Known()
        self._halves: list[_Half] = []
        self._packs = 0
        self._heartbeat_at = float("-inf")
        self._knowing: set[Node] = set()

    def answer_checks(self, answer: AnswerCheck) -> None:
        """Set the application's answer about messages that this producer did not send."""
        self._checks.answer = answer

    async def open(self) -> None:
        """Register the producer at the brokers. Raises the error that prevented it."""
        await self._tell(await self._brokers())

    async def beat(self) -> bool:
        """Answer brokers' questions, and send due heartbeats."""
        await self._checks.answer_all()
        if self._shared.channel.monotonic() >= self._heartbeat_at + self._rocket.heartbeat_broker_ms / 1_000:
            await self._tell(await self._brokers())
        return False

    def begin(self) -> None:
        """Begin a transaction; it has all messages from now on."""
        self._transaction = Known()
        self._halves.clear()

    def pack(self, partition: Partition, rows: Rows, codec: Codec) -> RocketPacked:
        """Encode rows. Raises UsageError, also for delayed messages: brokers would commit them without their delay."""
        packed = super().pack(partition, rows, codec)
        if any(map(is_delayed, packed.messages)):
            raise UsageError("a delayed message cannot be part of a transaction", topic=partition.topic)
        self._packs += 1
        packed.number = self._packs
        for message in packed.messages:
            self._checks.note(message.unique_id, self._transaction)
        return packed

    async def add_offsets(self, offsets: Mapping[Partition, Committed], group: GroupMetadata) -> None:
        """Raises UsageError: transactions cannot contain offsets."""
        del offsets, group
        raise UsageError(
            "transactions of RocketMQ hold messages only, no offsets of groups",
            hint="Commit them by the consumer once the transaction is through: records may come twice then, not never",
        )

    def prepared(self) -> PreparedTransaction:
        """Raises UsageError: brokers accept an end from any client, but only this producer knows the half messages."""
        raise UsageError(
            "a transaction of RocketMQ's is ended by its producer only",
            hint="commit_transaction() or abort_transaction()",
        )

    async def end(self, *, commit: bool) -> None:
        """End every half message. The decision is final: after an error, a second call ends the remaining ones."""
        self._transaction.commit = commit
        queues: dict[Partition, list[_Half]] = {}
        for half in sorted(self._halves, key=lambda half: half.place):
            queues.setdefault(half.partition, []).append(half)
        await self._shared.together([self._end_those(halves, commit=commit) for halves in queues.values()])
        self._transaction.ended_at = self._shared.channel.monotonic()

    # Half messages.

    async def _send(self, node: Node, packed: RocketPacked, timeout_s: float, *, one_way: bool) -> PenstockError | None:
        """Send the messages concurrently, one per request. Responses are always awaited: they say where the half is."""
        del one_way
        if node not in self._knowing:
            await self._tell([node])
        errors: list[PenstockError] = list(packed.refused.values())
        rows = packed.open_rows()
        for begin in range(0, len(rows), _AT_ONCE):
            errors += await self._send_some(node, packed, rows[begin : begin + _AT_ONCE], timeout_s)
            if any(error.retriable for error in errors):
                break
        return next((error for error in errors if error.retriable), errors[0] if errors else None)

    async def _send_some(
        self, node: Node, packed: RocketPacked, rows: Sequence[int], timeout_s: float
    ) -> list[PenstockError]:
        calls = self._shared.calls
        requests = [calls.request(SEND_MESSAGE_V2, *self._half_request(packed, row)) for row in rows]
        try:
            started = await calls.start(node.endpoint, SEND_MESSAGE_V2, requests, timeout_s=timeout_s, lane=LANE)
        except PenstockError as failure:
            return [copy.copy(failure)]
        errors: list[PenstockError] = []
        for row, each in zip(rows, started, strict=True):
            try:
                answer = await each.answer(STORED, of=packed.partition)
                self._note_half(packed, row, answer.header)
            except PenstockError as shared:
                error = copy.copy(shared)  # a broken connection gives the same error to all requests on it
                errors.append(error)
                if not error.retriable:
                    packed.refused[row] = error
        return errors

    def _half_request(self, packed: RocketPacked, row: int) -> tuple[m.SendMessage, object]:
        _, header, body = self._request(packed, [row])
        return replace(
            header,
            producer_group=self._group,
            sys_flag=header.sys_flag | _PREPARED,
            properties=f"{header.properties}\x02TRAN_MSG\x01true\x02PGROUP\x01{self._group}",
        ), body

    def _note_half(self, packed: RocketPacked, row: int, said: m.Sent) -> None:
        from penstock.protocols.rocketmq.wire.message_format import parse_offset_id

        _, commit_log_offset = parse_offset_id(said.msg_id)
        unique_id = packed.messages[row].unique_id
        place = (packed.number, row)
        self._halves.append(_Half(place, packed.partition, unique_id, said.queue_offset, commit_log_offset))
        packed.stored[row] = True

    # Ends.

    async def _end_those(self, halves: Sequence[_Half], *, commit: bool) -> None:
        for half in halves:
            await self._end_one(half, commit=commit)
            self._halves.remove(half)

    async def _end_one(self, half: _Half, *, commit: bool) -> None:
        header = m.EndTransaction(
            producer_group=self._group,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.commit_log_offset,
            commit_or_rollback=m.Decision.COMMIT if commit else m.Decision.ROLLBACK,
            from_transaction_check=False,
            msg_id=half.unique_id,
            transaction_id=half.unique_id,
            topic=half.partition.topic,
            broker_name=half.partition.node,
        )
        retry = Retry(self._shared.channel, self._shared.options)
        while True:
            try:
                node = await self._shared.topics.leader(half.partition)
                await self._shared.calls.call(node.endpoint, END_TRANSACTION, header, of=half.partition)
            except PenstockError as error:
                if error.retriable:
                    self._shared.topics.routing.distrust(half.partition)
                await retry.after(error)
            else:
                return

    async def _tell(self, nodes: Collection[Node]) -> None:
        """Send heartbeats to these brokers. Raises the first error if all of them failed."""
        body = m.HeartbeatData(
            client_id=self._shared.id, producer_data_set=(m.ProducerData(group_name=self._group),)
        )  # fmt: skip
        calls = self._shared.calls
        work = [calls.call(node.endpoint, HEART_BEAT, m.NoFields(), body, within_s=_LOOK_S) for node in nodes]
        outcomes = await self._shared.channel.gather(work)
        errors = [each for each in outcomes if isinstance(each, BaseException)]
        if errors and len(errors) == len(outcomes):
            raise errors[0]
        self._knowing |= set(nodes)
        self._heartbeat_at = self._shared.channel.monotonic()

    async def _brokers(self) -> Collection[Node]:
        """All brokers. A proxy does not list them; it stands for the brokers of the topics written to."""
        try:
            return await self._shared.topics.brokers()
        except ServerError as error:
            if error.code != Code.REQUEST_CODE_NOT_SUPPORTED:
                raise
            return self._shared.topics.routes.masters()
