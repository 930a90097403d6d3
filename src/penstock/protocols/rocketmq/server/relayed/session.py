"""One client's session in front of real brokers: which requests are forwarded, how, and which are answered here.

``WAYS`` has the way of each request code; ``backend/README.md`` gives the reasons. `planned_pull` and `planned_pop`
make requests that brokers hold; `pass_on_check` forwards brokers' questions about transactions to producers.
"""

from __future__ import annotations

import importlib
import logging
import struct
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final

from penstock.concurrency.runtime import Deferred
from penstock.errors import PenstockError, ProtocolViolation
from penstock.interfaces.framing import Buffers, Frame
from penstock.interfaces.front import OTHER, Peer
from penstock.protocols.rocketmq.backend.relay import MASTER, Broker
from penstock.protocols.rocketmq.errors import Code, Refused, refusal, unreadable
from penstock.protocols.rocketmq.server.call import ClientSession, Reply, is_of_5x, is_snode_pull
from penstock.protocols.rocketmq.server.relayed.forwarding import (
    Plan,
    RelayContext,
    RelayedCall,
    RelayedLine,
    Seen,
    all_masters,
    all_names,
    begin,
    broker_for,
    finish,
    lane_of,
    looked_up,
    meant_by,
    next_broker,
    with_number,
)
from penstock.protocols.rocketmq.wire.framing import RemotingCommand, Written, command_of, framed, whole
from penstock.protocols.rocketmq.wire.messages import PullFlag
from penstock.protocols.rocketmq.wire.rpc import ASK_PEER, METHODS, answer, read_request
from penstock.protocols.rocketmq.wire.rpc import refusal as refused

__all__ = ["WAYS", "RelayedSession", "Way", "broker_of_end", "is_pull", "pass_on_check", "planned_pop", "planned_pull"]


# The way of each request. It is stated only here; the reasons are in ``backend/README.md``.
class Way(Enum):
    """Where a request goes. For a request that the node serves itself, the value is "module.function"."""

    WRITE = "to the master of the broker that it names, as it came; the answer goes back as it came, too"
    READ = "the same, and to a standby where no name server knows a master"
    PULL = "the same, with its group's subscription, and held there"
    POP = "the same, to the master, and held there for as long as it asks"
    TURN = "the same; who names no broker and asks again is answered by the next one"
    EVERYWHERE = "to the master that it names, or to all"
    NAMES = "to a name server, as it came"
    ALL_NAMES = "to every name server, as it came"
    HEARTBEAT = "member_requests.heartbeat"
    UNREGISTER = "member_requests.unregister"
    MEMBERS = "member_requests.members"
    CONNECTIONS = "member_requests.connections"
    PRODUCERS = "member_requests.producers"
    READERS = "member_requests.topic_readers"
    RUNNING = "member_requests.ask_running_info"
    CONSUME = "member_requests.ask_to_consume"
    END = "to the broker that asked about it, or else to the master; as it came"
    CHECK = "member_requests.check_subscription"
    REPLY = "member_requests.pass_on_reply"
    RESET = "member_requests.reset_offsets"
    ROUTE = "forwarding.topic_route"
    CLUSTER = "forwarding.cluster_brokers"
    TELL = "member_requests.tell_peer"
    SNODE = "member_requests.register_snode"
    SNODES = "member_requests.known_snodes"
    SNODES_OF = "member_requests.snodes_of_cluster"
    RETRY_TOPIC = "member_requests.create_retry_topic"


WAYS: Final[Mapping[int, Way]] = {
    10: Way.WRITE,
    11: Way.PULL,
    12: Way.TURN,
    14: Way.READ,
    15: Way.READ,
    17: Way.EVERYWHERE,
    21: Way.TURN,
    25: Way.EVERYWHERE,
    26: Way.TURN,
    28: Way.TURN,
    29: Way.READ,
    30: Way.READ,
    31: Way.READ,
    32: Way.READ,
    33: Way.READ,
    34: Way.HEARTBEAT,
    35: Way.UNREGISTER,
    36: Way.WRITE,
    37: Way.END,
    38: Way.MEMBERS,
    41: Way.WRITE,
    42: Way.WRITE,
    43: Way.TURN,
    46: Way.CHECK,
    100: Way.ALL_NAMES,
    101: Way.NAMES,
    102: Way.ALL_NAMES,
    105: Way.ROUTE,
    106: Way.CLUSTER,
    200: Way.EVERYWHERE,
    201: Way.TURN,
    202: Way.TURN,
    203: Way.CONNECTIONS,
    204: Way.PRODUCERS,
    205: Way.ALL_NAMES,
    206: Way.NAMES,
    207: Way.EVERYWHERE,
    208: Way.TURN,
    215: Way.EVERYWHERE,
    216: Way.ALL_NAMES,
    219: Way.NAMES,
    222: Way.RESET,
    224: Way.NAMES,
    300: Way.READERS,
    303: Way.TURN,
    304: Way.NAMES,
    305: Way.TURN,
    306: Way.EVERYWHERE,
    307: Way.RUNNING,
    309: Way.CONSUME,
    310: Way.WRITE,
    311: Way.NAMES,
    312: Way.NAMES,
    313: Way.NAMES,
    314: Way.EVERYWHERE,
    315: Way.TURN,
    316: Way.EVERYWHERE,
    317: Way.TURN,
    318: Way.ALL_NAMES,
    319: Way.NAMES,
    320: Way.WRITE,
    321: Way.READ,
    324: Way.REPLY,
    325: Way.REPLY,
    327: Way.ALL_NAMES,
    329: Way.EVERYWHERE,
    350: Way.SNODE,
    351: Way.PULL,  # the first Snode's; without an offset it is 5.x's "get topic config"
    352: Way.TURN,
    353: Way.SNODES,
    354: Way.SNODES_OF,
    355: Way.RETRY_TOPIC,
    361: Way.PULL,
    370: Way.WRITE,
    907: Way.TURN,
    200050: Way.POP,
    200051: Way.WRITE,
    200052: Way.READ,
    200053: Way.WRITE,
    200054: Way.POP,
    200055: Way.READ,
    200151: Way.WRITE,
    ASK_PEER.code: Way.TELL,
}

# Pulls. Brokers answer for groups that they do not know if the subscription is in the request. Source: Apache RocketMQ
# 4.9 and 5.x, ``PullMessageProcessor``; tested with both.
_PULL: Final = 11
_SNODE: Final = 351
_INLINE, _SUSPEND, _COMMIT = int(PullFlag.INLINE), int(PullFlag.SUSPEND), int(PullFlag.COMMIT)
"""Plain ints: with enumeration members a pull takes a twentieth longer."""
_LOOKS_EVERY_S: Final = 5.0
"""Brokers examine held requests this often, so a hold may last this much longer."""
_GIVES: Final = frozenset({Code.SUCCESS, Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.PULL_OFFSET_MOVED})


def is_pull(asked: RemotingCommand) -> bool:
    """Whether it is a pull; 351 without an offset asks for a topic's settings (``server/call``)."""
    return "queueOffset" in asked.fields


def planned_pull(around: RelayContext, line: RelayedLine, asked: RemotingCommand, said: str) -> Plan | None:
    """The pull for a broker; None if the broker has to be looked up. Raises Refused."""
    fields = asked.fields.read() if isinstance(asked.fields, Written) else dict(asked.fields)
    group, topic, queue = fields.get("consumerGroup", ""), fields.get("topic", ""), fields.get("queueId", "")
    place = (group, topic, queue, said)
    broker = broker_for(around, said, number=around.suggested.get(place) or MASTER, standby=True)
    if broker is None:
        return None
    flags = _number(fields, "sysFlag")
    changed = dict(fields)
    if not flags & _INLINE:
        if around.peers.settling is not None:
            around.peers.settling.reads(group, line)
        changed["subscription"], changed["expressionType"] = _subscribed(around, group, topic, fields)
    if changed.get("expressionType", "TAG") in {"", "TAG"}:
        changed["subVersion"] = "0"
    if broker.number != MASTER:
        flags &= ~_COMMIT  # a standby's offsets are its master's
    changed["sysFlag"] = str(flags | _INLINE)
    held_s = 0.0
    if flags & _SUSPEND:
        asked_ms = max(_number(fields, "suspendTimeoutMillis"), 0)
        held_ms = min(asked_ms, around.options.max_hold_ms)
        changed["suspendTimeoutMillis"] = str(held_ms)
        held_s = held_ms / 1_000 + _LOOKS_EVERY_S
    same = asked.code == _PULL and changed == fields
    command = asked if same else asked._replace(code=_PULL, fields=changed)  # an unchanged header is not written anew
    seen = _noting(around, place, broker.number)
    return Plan(command, broker, lane_of(line, "pull"), held_s, seen, api=_PULL if asked.code == _SNODE else asked.code)


def planned_pop(around: RelayContext, line: RelayedLine, asked: RemotingCommand, said: str) -> Plan | None:
    """A pop, or a wait for one, held for ``pollTime``; it has its filter. Result and errors as `planned_pull`."""
    broker = broker_for(around, said, standby=False)
    if broker is None:
        return None
    asked_ms = max(_number(asked.fields, "pollTime"), 0)
    held_ms = min(asked_ms, around.options.max_hold_ms)
    if held_ms != asked_ms:
        asked = asked._replace(fields={**asked.fields, "pollTime": str(held_ms)})
    return Plan(asked, broker, lane_of(line, "pull"), held_ms / 1_000 + _LOOKS_EVERY_S if held_ms else 0.0)


def _subscribed(around: RelayContext, group: str, topic: str, fields: Mapping[str, str]) -> tuple[str, str]:
    """The group's subscription to the topic: expression and type. Raises Refused, also if the pull has a newer version
    than all heartbeats: messages that an older filter leaves out would never be read."""
    known = around.clients.consumers.get(group)
    wanted = None if known is None else known.subscriptions.get(topic)
    version = _number(fields, "subVersion")
    if wanted is None or wanted.sub_version < version:  # its last heartbeat may have gone to another Snode
        there = around.peers.union.subscription(group, topic)
        wanted = there if wanted is None or (there and there.sub_version > wanted.sub_version) else wanted
    if wanted is None:
        if known is None:
            raise Refused(Code.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist: {group}")
        raise Refused(Code.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist: {topic}")
    if wanted.sub_version < version:
        raise Refused(Code.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
    return wanted.sub_string, wanted.expression_type


def _noting(around: RelayContext, place: tuple[str, str, str, str], asked_of: int) -> Seen:
    """Returns a callback that notes which server the broker suggests for the next pull of this queue."""

    def seen(answer: RemotingCommand | None) -> None:
        if answer is None or answer.code not in _GIVES:
            if asked_of != MASTER:
                around.suggested.drop(place)
            return
        number = answer.fields.get("suggestWhichBrokerId", "0")
        if number.isascii() and number.isdecimal() and len(number) < 10 and int(number) != MASTER:
            around.suggested.put(place, int(number))
        elif asked_of != MASTER:
            around.suggested.drop(place)

    return seen


def _number(fields: Mapping[str, str], name: str) -> int:
    text = fields.get(name, "0")
    try:
        if len(text) > 19:
            raise ValueError
        return int(text)
    except ValueError:
        raise Refused(Code.SYSTEM_ERROR, f"the field {name} is no number: {text[:100]!r}") from None


# Ends of transactions (37), and brokers' questions about them (39).
#
# A broker's question is forwarded to one of the group's producers. Its answer may name no broker (4.9); then the place
# in the question identifies the broker. An end without a known broker is not sent to all brokers: places and groups
# coincide between brokers, so it would end another transaction. Its broker will ask. Source: Apache RocketMQ 4.9 and
# 5.x, ``EndTransactionProcessor``, ``AbstractTransactionalMessageCheckListener``.
_log = logging.getLogger("penstock.node")
_GROUP: Final = b"PGROUP"
_FLAGS: Final = struct.Struct(">i")
_FLAGS_AT: Final = 36
_BEFORE_HOSTS: Final = 48
_BETWEEN_HOSTS: Final = 8 + 4 + 8
"""Between the two hosts is the time of storing; after them the number of deliveries and the half message's place."""
_IPV4, _LONGER = 8, 12
_BORN_IPV6, _STORE_IPV6 = 0x10, 0x20
_WIDE_TOPICS: Final = 0xAB
"""The last byte of the magic number of messages whose topic's length takes two bytes."""


def broker_of_end(around: RelayContext, asked: RemotingCommand) -> str | None:
    """The broker that asked about this transaction; None if none did."""
    return around.checked.get((asked.fields.get("commitLogOffset", ""), asked.fields.get("msgId", "")))


def pass_on_check(around: RelayContext, broker: str, asked: RemotingCommand) -> None:
    """Forward a broker's question to a producer of the message's group, if one is connected; producers take turns."""
    try:
        group = _group(memoryview(asked.body))
    except PenstockError as error:
        _log.warning("broker %s asks about a transaction in a way that cannot be read: %s", broker, error)
        return
    around.checked.put((asked.fields.get("commitLogOffset", ""), asked.fields.get("msgId", "")), broker)
    around.clients.ask_producer(group, framed(asked._replace(body=bytes(asked.body))), broker)


def _group(message: memoryview) -> str:
    """The producer group in a stored message's properties. Raises ProtocolViolation."""
    try:
        (flags,) = _FLAGS.unpack_from(message, _FLAGS_AT)
        hosts = 2 * _IPV4 + _LONGER * (bool(flags & _BORN_IPV6) + bool(flags & _STORE_IPV6))
        at = _BEFORE_HOSTS + hosts + _BETWEEN_HOSTS
        at += 4 + int.from_bytes(message[at : at + 4], "big")
        wide = 1 + (message[7] == _WIDE_TOPICS)
        at += wide + int.from_bytes(message[at : at + wide], "big")
        properties = bytes(message[at + 2 :])
        if at + 2 + int.from_bytes(message[at : at + 2], "big") != len(message):
            raise ProtocolViolation(f"a message of {len(message)} bytes is longer or shorter than its parts")
    except (struct.error, IndexError) as error:
        raise ProtocolViolation(f"a message of {len(message)} bytes is no stored message") from error
    for entry in properties.split(b"\x02"):
        name, _, value = entry.partition(b"\x01")
        if name == _GROUP:
            return value.decode("utf-8", "replace")
    raise ProtocolViolation("a half message names no producer group")


_GO_ON: Final = frozenset({Way.WRITE, Way.READ, Way.PULL, Way.POP, Way.TURN, Way.END})
_AT_ONCE: Final = _GO_ON - {Way.TURN}
"""Ways that are tried without a task. Not TURN: planning it a second time would go to the next broker."""
_STANDBY_DOES: Final = frozenset({Way.READ, Way.TURN})
_WRITES: Final = frozenset({Way.WRITE, Way.END})
_TWO_MEANINGS: Final = 351
_NOT_YET: Final = frozenset({Code.SUBSCRIPTION_NOT_EXIST, Code.SUBSCRIPTION_NOT_LATEST})
_HEARTBEAT_S: Final = 1.0
"""How long a pull waits for the heartbeat with its subscription."""
_LOOK_S: Final = 0.05


class RelayedSession(ClientSession):
    """One client's connection to brokers (``penstock.interfaces.front.Session``)."""

    def __init__(
        self,
        around: RelayContext,
        number: int,
        peer: Peer,
        ended: Callable[[RelayedSession], None],
        broker: str | None = None,
    ) -> None:
        self.line: RelayedLine = RelayedLine(number, peer.address, peer.push, peer.hang_up, broker)
        super().__init__(around, self.line)
        self._around = around
        self._ended = ended

    @property
    def at_once(self) -> bool:
        return True

    async def handle(self, frame: Frame) -> Buffers | Deferred[Any] | None:
        """Serve one request."""
        cut = whole(frame)
        asked = cut.command
        if asked.is_answer:
            self.line.answered(cut)
            return None
        around, api = self._around, asked.code if asked.code in WAYS else OTHER
        began = around.meter.now()
        try:
            if cut.unreadable is not None:
                raise unreadable(cut.unreadable)
            if self._around.admission is not None:
                self._around.admission.check(asked, self._around.now)
            later = self._at_once(asked)
            if later is not None:
                return later
            await around.task()
            found = await self._in_time(asked)
        except PenstockError as error:
            said = refusal(error)
            found = refused(asked, said.code, said.message)
        if found is None:
            around.meter.answered(api, around.meter.now() - began)
        elif not isinstance(found, Deferred):
            around.count(api, began, found, self.line, asked.fields)
        return None if asked.is_one_way else found

    def lost(self) -> None:
        super().lost()
        self._ended(self)

    # Forwarded requests.

    def _at_once(self, asked: RemotingCommand) -> Deferred[Buffers] | None:
        """Forward without a task; None if something has to be awaited first. Raises Refused."""
        if (
            asked.is_one_way
            or (asked.code == _TWO_MEANINGS and not is_snode_pull(asked))
            or WAYS.get(asked.code) not in _AT_ONCE
            or not self._around.made_groups.serves(asked)
        ):
            return None
        try:
            plan = self._planned(asked)
        except Refused as no:
            if no.code in _NOT_YET:
                return None
            raise
        return None if plan is None else begin(self._around, self.line, plan)

    def _planned(self, asked: RemotingCommand) -> Plan | None:
        """How to forward it; None if the broker has to be looked up. Raises Refused, ProtocolViolation."""
        way, around, line = WAYS[asked.code], self._around, self.line
        said = meant_by(around, line, asked)
        if way is Way.END and (asker := broker_of_end(around, asked)) is not None:
            said = asker
        if way is Way.PULL:
            if is_pull(asked):
                return None if said is None else planned_pull(around, line, asked, said)
            way = Way.TURN  # 351 in its meaning of 5.x
        if way is Way.POP:
            return None if said is None else planned_pop(around, line, asked, said)
        if said is None and way is Way.TURN:
            return Plan(asked, next_broker(around, line, asked), lane_of(line, "ask"))
        broker = None if said is None else broker_for(around, said, number=MASTER, standby=way in _STANDBY_DOES)
        return None if broker is None else _plan(line, way, asked, broker)

    async def _gone_on(self, asked: RemotingCommand) -> Buffers | Deferred[Buffers] | None:
        """Forward, with look-ups as needed. Raises Refused, UpstreamLost."""
        around, line = self._around, self.line
        way = WAYS[asked.code]
        await around.made_groups.check(asked)
        plan = self._planned(asked)
        if plan is None:
            broker = await looked_up(around, asked, meant_by(around, line, asked), standby=way not in _WRITES)
            if way is Way.PULL and is_pull(asked):
                plan = planned_pull(around, line, asked, broker.name)
            elif way is Way.POP:
                plan = planned_pop(around, line, asked, broker.name)
            plan = plan or _plan(line, way, asked, broker)
        return await finish(around, line, plan)

    # All requests.

    async def _in_time(self, asked: RemotingCommand) -> Buffers | Deferred[Buffers] | None:
        """Serve a request; a pull waits a moment for the heartbeat with its subscription. Raises Refused."""
        until = self._around.now + _HEARTBEAT_S
        while True:
            try:
                return await self._served(asked)
            except Refused as no:
                if no.code not in _NOT_YET or self._around.now >= until or self.line.over:
                    raise
            await self._around.services.runtime.sleep(_LOOK_S)

    async def _served(self, asked: RemotingCommand) -> Buffers | Deferred[Buffers] | None:
        way = WAYS.get(asked.code)
        if way is None or is_of_5x(asked):
            raise Refused(Code.REQUEST_CODE_NOT_SUPPORTED, f" request type {asked.code} not supported")
        if way in _GO_ON or (way is Way.EVERYWHERE and meant_by(self._around, self.line, asked) is not None):
            return await self._gone_on(asked)
        if way is Way.EVERYWHERE:
            return await all_masters(self._around, asked)
        if way is Way.NAMES:
            return with_number(command_of(await self._around.relay.ask_names(framed(asked))), asked.opaque)
        if way is Way.ALL_NAMES:
            return await all_names(self._around, asked)
        header = read_request(METHODS[asked.code], asked)
        said: Reply = await _handler(way)(RelayedCall(self._around, self.line, asked), header)
        return answer(asked, said.header, said.body, code=said.code, remark=said.remark, extra=said.extra)


def _plan(line: RelayedLine, way: Way, asked: RemotingCommand, broker: Broker) -> Plan:
    writes = way in _WRITES
    return Plan(asked, broker, lane_of(line, "send" if writes else "ask"), writes=writes)


@cache
def _handler(way: Way) -> Any:
    module, function = way.value.split(".")
    return getattr(importlib.import_module(f"penstock.protocols.rocketmq.server.relayed.{module}"), function)
