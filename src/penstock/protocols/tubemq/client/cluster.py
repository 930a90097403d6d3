"""The cluster as one client knows it: masters, topics, placements, and the producer's registration."""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from penstock.errors import Closed, PenstockError, ProtocolViolation, ServerError
from penstock.groups.state_machine import Table
from penstock.interfaces.channel import Channel, Retry, Routing
from penstock.model import Endpoint, Node, Partition, PartitionInfo, TopicInfo
from penstock.protocols.tubemq.client.calls import Brokers, Calls, Masters
from penstock.protocols.tubemq.client.options import Identity, TubeOptions
from penstock.protocols.tubemq.errors import Code, error_of
from penstock.protocols.tubemq.wire.messages import (
    ApprovedClientConfig,
    ClientSubRepInfo,
    CloseRequestC2M,
    CloseRequestP2M,
    GetPartMetaRequestC2M,
    HeartRequestP2M,
    HeartResponseM2P,
    RegisterRequestC2MV2,
    RegisterRequestP2M,
    RegisterResponseM2P,
)
from penstock.protocols.tubemq.wire.protobuf import has
from penstock.protocols.tubemq.wire.rpc import (
    BALANCED_REGISTER,
    CONSUMER_CLOSE,
    PARTITION_META,
    PRODUCER_CLOSE,
    PRODUCER_HEARTBEAT,
    PRODUCER_REGISTER,
)
from penstock.protocols.tubemq.wire.strings import (
    BROKER_PORT,
    BROKER_TLS_PORT,
    Placement,
    check_topic,
    parse_broker,
    parse_published,
    parse_subscribable,
    partition_ids,
    store_of,
    within_store,
)

__all__ = [
    "SYSTEM_TOPIC",
    "TABLE",
    "Placements",
    "Publisher",
    "Registration",
    "RegistrationEvent",
    "RegistrationState",
    "Shared",
    "Topics",
    "after",
    "discover",
    "share",
]

# Placements: which brokers there are, and where each topic's partitions lie. Data and lookups; who asks is elsewhere.
#
# A partition's node is the name of its broker. A partition whose broker no master knows now, or that the master does
# not let anybody read, keeps its place in the topic but has no leader.
SYSTEM_TOPIC = "__offset_history__"
_SUBSCRIBABLE = 1
_MOST_PARTITIONS = 1_000_000


class Placements:
    """What is known. ``brokers`` by name; ``max_message_bytes`` by topic, "" for all others.

    ``version`` grows when brokers or partitions are others than before. ``routing`` knows whom of them not to believe,
    and what to ask a master for again.
    """

    def __init__(self, channel: Channel[None], max_age_ms: int, *, tls: bool) -> None:
        self._port = BROKER_TLS_PORT if tls else BROKER_PORT
        self._placed: dict[str, dict[str, Placement]] = {}
        self.routing = Routing(channel, max_age_ms, self._readable_at)
        self.brokers: Mapping[str, Node] = {}
        self.max_message_bytes: dict[str, int] = {}
        self.version = 0

    def note_brokers(self, texts: Iterable[str]) -> None:
        """Take over a master's list of brokers; an empty one says that nothing changed. Raises ProtocolViolation."""
        nodes = [parse_broker(text, self._port) for text in texts]
        found = {node.name: node for node in nodes}
        if found and found != self.brokers:
            self.version += 1
            self.brokers = found

    def note_published(self, asked: Iterable[str], texts: Iterable[str]) -> None:
        """Take over where the topics ``asked`` for may be written to. Raises ProtocolViolation."""
        found = {published.topic: published for published in map(parse_published, texts)}
        for topic in asked:
            self._note(topic, found[topic].placements if topic in found else None)
            if topic in found and found[topic].max_message_bytes is not None:
                self.max_message_bytes[topic] = found[topic].max_message_bytes or 0
            else:
                self.max_message_bytes.pop(topic, None)

    def note_subscribable(self, texts: Iterable[str]) -> None:
        """Take over where some topics may be read from. Raises ProtocolViolation."""
        for subscribable in map(parse_subscribable, texts):
            self._note(subscribable.topic, subscribable.placements)

    def forget(self, topics: Iterable[str]) -> None:
        """They are not there (any more)."""
        for topic in topics:
            self._note(topic, None)

    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """Those of ``names`` that are known."""
        return {name: self._info(name) for name in names if name in self._placed}

    def leader(self, partition: Partition) -> Node | None:
        """Its broker, if it may be asked."""
        return self.routing.leader(partition)

    def _readable_at(self, partition: Partition) -> Node | None:
        place = self.placement(partition)
        if place is None or place.status != _SUBSCRIBABLE:
            return None
        return self.brokers.get(partition.node)

    def status(self, partition: Partition) -> int | None:
        """1 if the master lets it be read, 0 if not, None where there is no such partition."""
        place = self.placement(partition)
        return None if place is None else place.status

    def placement(self, partition: Partition) -> Placement | None:
        """How many stores and partitions its topic has on its broker; None where there is no such partition."""
        place = self._placed.get(partition.topic, {}).get(partition.node)
        if place is None or store_of(partition.id) >= place.stores or within_store(partition.id) >= place.partitions:
            return None
        return place

    def alone_in_store(self, partition: Partition) -> bool:
        """Whether its store has no other partitions, so that offsets of records in a row differ by one step."""
        place = self._placed.get(partition.topic, {}).get(partition.node)
        return place is not None and place.partitions == 1 and within_store(partition.id) == 0

    def distrust(self, partition: Partition) -> None:
        """The last request about it failed: ask a master before the next one."""
        self.routing.distrust(partition)

    def resolve(self, partition: Partition) -> Partition:
        """The same with its broker's name, where it was left out and only one broker can be meant."""
        if partition.node:
            return partition
        found = [
            placed
            for node in self._placed.get(partition.topic, {})
            if self.placement(placed := Partition(partition.topic, partition.id, node)) is not None
        ]
        return found[0] if len(found) == 1 else partition

    def _note(self, topic: str, placements: Iterable[Placement] | None) -> None:
        self.routing.announced(topic)
        before = self._placed.get(topic)
        if placements is None:
            self._placed.pop(topic, None)
        else:
            placements = list(placements)
            if sum(place.stores * place.partitions for place in placements) > _MOST_PARTITIONS:
                raise ProtocolViolation("a topic with more partitions than any cluster has", topic=topic)
            self._placed[topic] = {str(place.broker_id): place for place in placements}
        self.version += before != self._placed.get(topic)

    def _info(self, name: str) -> TopicInfo:
        partitions = [
            Partition(name, partition_id, node)
            for node, place in sorted(self._placed[name].items(), key=lambda each: int(each[0]))
            for partition_id in partition_ids(place.stores, place.partitions)
        ]
        infos = tuple(PartitionInfo(partition, self.leader(partition)) for partition in partitions)
        return TopicInfo(name, infos, internal=name == SYSTEM_TOPIC)


# Discovery: asking a master for topics' partitions without being a producer or a group's member for long.
#
# Masters list partitions for client-balanced consumers only, so we become one for three requests: register, ask, close;
# in a group of our own, because members of one group must want the same topics. Topics that are not deployed make the
# whole registration fail; the answer names them, and it is repeated without them. Where groups need permission (450,
# 455) the producers' way is taken: it needs none, but leaves out what is closed for writing. Source: Apache InLong
# TubeMQ 2.x, client-balanced consumers (methods 20, 22, 6).
_UNKNOWN = -2
_NAMED = re.compile(r"\[\[(.*)\]\]")


async def discover(
    masters: Masters, identity: Identity, placements: Placements, topics: Collection[str], group: str
) -> None:
    """Bring ``placements`` up to date about ``topics``. Raises ServerError, ConnectionLost, RequestTimeout."""
    wanted = sorted(topics)
    client_id = identity.consumer_id(group)
    while wanted:
        try:
            answer = await masters.call(BALANCED_REGISTER, _register(identity, client_id, group, wanted))
        except ServerError as error:
            if error.code != Code.TOPIC_NOT_DEPLOYED:
                raise
            missing = _missing(error.message, wanted)
            placements.forget(missing)
            if len(wanted) > 1 and len(missing) == len(wanted):
                for topic in wanted:  # the text did not say which
                    await discover(masters, identity, placements, [topic], group)
                return
            wanted = [topic for topic in wanted if topic not in missing]
            continue
        identity.note_token(answer.authorized_info)
        placements.note_brokers(answer.broker_config_list)
        await _ask(masters, identity, placements, client_id, group, wanted)
        return


async def _ask(
    masters: Masters, identity: Identity, placements: Placements, client_id: str, group: str, wanted: Sequence[str]
) -> None:
    try:
        meta = await masters.call(
            PARTITION_META,
            GetPartMetaRequestC2M(
                client_id=client_id,
                group_name=group,
                broker_config_id=_UNKNOWN,
                topic_meta_info_id=_UNKNOWN,
                auth_info=identity.master_certificate(),
            ),
        )
    finally:
        closing = CloseRequestC2M(client_id=client_id, group_name=group, auth_info=identity.master_certificate())
        await masters.ask(CONSUMER_CLOSE, closing)
    placements.note_brokers(meta.broker_config_list)
    placements.forget(wanted)
    placements.note_subscribable(meta.topic_meta_info_list)


def _register(identity: Identity, client_id: str, group: str, topics: Sequence[str]) -> RegisterRequestC2MV2:
    return RegisterRequestC2MV2(
        client_id=client_id,
        group_name=group,
        host_name=identity.host,
        source_count=_UNKNOWN,
        node_id=_UNKNOWN,
        topic_list=topics,
        sub_rep_info=ClientSubRepInfo(
            broker_config_id=_UNKNOWN, topic_meta_info_id=_UNKNOWN, report_sub_info=False, part_sub_info=()
        ),
        auth_info=identity.master_certificate(),
    )


def _missing(text: str, wanted: Sequence[str]) -> list[str]:
    """Which topics a refusal names; all where it does not say."""
    found = _NAMED.search(text)
    named = {name.strip() for name in found[1].split(",")} if found else set()
    return [topic for topic in wanted if topic in named] or list(wanted)


# Where something that registers at the master stands: a table.
#
# Two rules. Only the master's own answer makes anybody registered; and only what says that the master does not know us
# (any more) undoes it: a heartbeat that got lost proves nothing, because the master counts 30 s before it forgets.
#
# | state | event | state |
# | --- | --- | --- |
# | created | register | registering |
# | registering | accepted | registered |
# | registering | failed | lost |
# | registered | unknown (411, or another master) | lost |
# | registered | register (the topics changed) | registering |
# | lost | register | registering |
# | any | close | closed |
#
# What is late changes nothing: an answer to a registration that a close overtook, a second 411 for the same loss.
class RegistrationState(enum.Enum):
    """Where it stands."""

    CREATED = "created"
    REGISTERING = "registering"
    REGISTERED = "registered"
    LOST = "lost"
    CLOSED = "closed"


class RegistrationEvent(enum.Enum):
    """What happened."""

    REGISTER = "register"
    ACCEPTED = "accepted"
    FAILED = "failed"
    UNKNOWN = "unknown"
    CLOSE = "close"


_S = RegistrationState
_E = RegistrationEvent

TABLE: Final = Table(
    "a registration",
    {
        _S.CREATED: {_E.REGISTER: _S.REGISTERING, _E.CLOSE: _S.CLOSED},
        _S.REGISTERING: {
            _E.REGISTER: _S.REGISTERING,
            _E.ACCEPTED: _S.REGISTERED,
            _E.FAILED: _S.LOST,
            _E.UNKNOWN: _S.REGISTERING,
            _E.CLOSE: _S.CLOSED,
        },
        _S.REGISTERED: {
            _E.REGISTER: _S.REGISTERING,
            _E.ACCEPTED: _S.REGISTERED,
            _E.FAILED: _S.REGISTERED,
            _E.UNKNOWN: _S.LOST,
            _E.CLOSE: _S.CLOSED,
        },
        _S.LOST: {
            _E.REGISTER: _S.REGISTERING,
            _E.ACCEPTED: _S.REGISTERED,
            _E.FAILED: _S.LOST,
            _E.UNKNOWN: _S.LOST,
            _E.CLOSE: _S.CLOSED,
        },
        _S.CLOSED: {
            _E.ACCEPTED: _S.CLOSED,
            _E.FAILED: _S.CLOSED,
            _E.UNKNOWN: _S.CLOSED,
            _E.CLOSE: _S.CLOSED,
        },
    },
)


def after(state: RegistrationState, event: RegistrationEvent) -> RegistrationState:
    """The next state. Raises Closed for registering what was closed, UndefinedTransition for what cannot happen."""
    if (state, event) == (_S.CLOSED, _E.REGISTER):
        raise Closed("this client was closed")
    return TABLE[state, event]


class Registration:
    """Walks the table."""

    def __init__(self) -> None:
        self.state = RegistrationState.CREATED

    def see(self, event: RegistrationEvent) -> None:
        """Take a step."""
        self.state = after(self.state, event)

    @property
    def registered(self) -> bool:
        """Whether the master knows us, as far as we know."""
        return self.state is RegistrationState.REGISTERED


# Publisher: this client as a producer at the master: registering, heartbeats, and what they tell.
#
# Topics, brokers and limits come with the heartbeats' answers. The heartbeat's driver is above (``beat`` is called
# every ``producer_heartbeat_ms``); a heartbeat that the master does not know us by (411) registers again and is sent
# once more. Source: Apache InLong TubeMQ 2.x, ``SimpleMessageProducer`` and methods 1-3.
_EVERYTHING_ANEW = -1
_FULL_REFRESH_S = 7_200.0


class Publisher:
    """One producer's standing with the master."""

    def __init__(
        self, channel: Channel[None], masters: Masters, identity: Identity, placements: Placements, options: TubeOptions
    ) -> None:
        self._channel = channel
        self._masters = masters
        self._identity = identity
        self._placements = placements
        self._options = options
        self._registration = Registration()
        self._topics: set[str] = set()
        self._brokers_sum = _EVERYTHING_ANEW
        self._refreshed = channel.monotonic()
        self._limits_id: int | None = None
        self.client_id = identity.producer_id()

    async def open(self) -> None:
        """Register, trying ``register_retries`` times. Raises the last failure."""
        for attempt in range(1, self._options.tube.register_retries + 1):
            try:
                await self._register()
            except PenstockError as error:
                if attempt == self._options.tube.register_retries or not error.retriable:
                    raise
                await self._channel.sleep(self._options.tube.register_backoff_ms / 1_000)
            else:
                return

    async def publish(self, topics: Collection[str]) -> None:
        """Learn where ``topics`` may be written to, now and with every heartbeat. Raises ServerError and others."""
        self._topics |= {check_topic(topic) for topic in topics}
        await self.beat()

    async def beat(self) -> None:
        """One heartbeat. Raises ConnectionLost, RequestTimeout, ServerError; nothing is lost by a failed one."""
        if not self._registration.registered:
            await self.open()
        try:
            answer = await self._heartbeat()
        except ServerError as error:
            if error.code != Code.HB_NO_NODE:
                raise
            self._registration.see(RegistrationEvent.UNKNOWN)
            await self.open()
            answer = await self._heartbeat()
        self._take(answer)

    async def close(self) -> None:
        """Tell the master that this producer goes, if it knows of it."""
        known = self._registration.registered
        self._registration.see(RegistrationEvent.CLOSE)
        if known:
            certificate = self._identity.master_certificate()
            await self._masters.ask(PRODUCER_CLOSE, CloseRequestP2M(client_id=self.client_id, auth_info=certificate))

    async def _register(self) -> None:
        self._registration.see(RegistrationEvent.REGISTER)
        # Another master may answer than the one whose list this sum is of.
        self._brokers_sum = _EVERYTHING_ANEW
        try:
            answer = await self._masters.call(
                PRODUCER_REGISTER,
                RegisterRequestP2M(
                    client_id=self.client_id,
                    topic_list=sorted(self._topics),
                    broker_check_sum=self._brokers_sum,
                    host_name=self._identity.host,
                    auth_info=self._identity.master_certificate(),
                    appd_config=self._known_limits(),
                ),
            )
        except BaseException:
            self._registration.see(RegistrationEvent.FAILED)
            raise
        self._registration.see(RegistrationEvent.ACCEPTED)
        self._take(answer)

    async def _heartbeat(self) -> HeartResponseM2P:
        now = self._channel.monotonic()
        if now - self._refreshed > _FULL_REFRESH_S:
            self._brokers_sum, self._refreshed = _EVERYTHING_ANEW, now
        asked = sorted(self._topics)
        answer = await self._masters.call(
            PRODUCER_HEARTBEAT,
            HeartRequestP2M(
                client_id=self.client_id,
                broker_check_sum=self._brokers_sum,
                host_name=self._identity.host,
                topic_list=asked,
                auth_info=self._identity.master_certificate(),
                appd_config=self._known_limits(),
            ),
        )
        self._placements.note_brokers(answer.broker_infos)
        self._placements.note_published(asked, answer.topic_infos)
        return answer

    def _known_limits(self) -> ApprovedClientConfig | None:
        # Masters send limits if the id differs, and a cluster without any has the id that Java's clients begin with.
        return None if self._limits_id is None else ApprovedClientConfig(config_id=self._limits_id)

    def _take(self, answer: RegisterResponseM2P | HeartResponseM2P) -> None:
        """What both kinds of answer carry."""
        self._placements.note_brokers(answer.broker_infos)
        self._brokers_sum = answer.broker_check_sum
        self._identity.note_token(answer.authorized_info)
        if has(answer, "appd_config"):
            self._limits_id = answer.appd_config.config_id
            if has(answer.appd_config, "max_msg_size") and answer.appd_config.max_msg_size > 0:
                self._placements.max_message_bytes[""] = answer.appd_config.max_msg_size


# Topics: answering who asks for topics and their partitions, from what is known or from a master.
_UNSUBSCRIBABLE = 422
_NEEDS_PERMISSION = frozenset({Code.CONSUME_GROUP_FORBIDDEN, Code.CONSUME_CONTENT_FORBIDDEN})


class Topics:
    """Producers get the topics that may be written to, other clients those that may be read."""

    def __init__(
        self,
        channel: Channel[None],
        masters: Masters,
        identity: Identity,
        placements: Placements,
        publisher: Publisher,
        options: TubeOptions,
    ) -> None:
        self._channel = channel
        self._masters = masters
        self._identity = identity
        self._placements = placements
        self._publisher = publisher
        self._options = options

    async def topics(self, names: Collection[str], *, fresh: bool = False) -> Mapping[str, TopicInfo]:
        """Topics by name; those that do not exist are absent. No request lists them all."""
        due = list(names) if fresh else sorted(self._placements.routing.due(names))
        if due:
            await self._ask(due)
            self._placements.routing.answered(due)
        return self._placements.topics(names)

    async def leader(self, partition: Partition) -> Node:
        """The broker of a partition, asking a master if need be. Raises ServerError if there is none now."""
        node = await self._placements.routing.find(partition, self._ask_again)
        if node is None:
            raise self._no_leader(partition)
        return node

    async def _ask_again(self, names: Collection[str]) -> None:
        await self.topics(names, fresh=True)

    def _no_leader(self, partition: Partition) -> ServerError:
        status = self._placements.status(partition)
        code, text = _UNSUBSCRIBABLE, "it is closed for reading at the master"
        if status is None and self._placements.topics([partition.topic]):
            code, text = Code.FORBIDDEN, "the topic has no such partition"
        elif status is None:
            code, text = Code.TOPIC_NOT_DEPLOYED, "the master knows no such topic"
        elif status == 1:
            code, text = Code.SERVICE_UNAVAILABLE, f"broker {partition.node} is not registered at the master now"
        error = error_of(code, text, topic=partition.topic, partition=partition.id, node=partition.node or None)
        if not partition.node:
            error.hint = "A partition of TubeMQ has a node, too: the id of its broker"
        return error

    async def _ask(self, names: Collection[str]) -> None:
        retry = Retry(self._channel, self._options)
        while True:
            try:
                await self._ask_once(names)
            except PenstockError as error:
                await retry.after(error)
            else:
                return

    async def _ask_once(self, names: Collection[str]) -> None:
        if self._options.publishing:
            await self._publisher.publish(names)
        elif not await self._discovered(names):
            await self._ask_around(names)

    async def _discovered(self, names: Collection[str]) -> bool:
        """Whether masters said where ``names`` are; False if groups need permission for one of them."""
        group = self._identity.passing_group(f"{self._options.tube.reader_group}-topics")
        try:
            await discover(self._masters, self._identity, self._placements, names, group)
        except ServerError as error:
            if error.code not in _NEEDS_PERMISSION:
                raise
            return False
        return True

    async def _ask_around(self, names: Collection[str]) -> None:
        """Ask as a producer, then singly for each topic that is still unknown: one refusal must not hide all."""
        await self._publisher.publish([name for name in names if name != SYSTEM_TOPIC])
        if len(names) == 1:
            return
        known = self._placements.topics(names)
        for name in (name for name in names if name not in known):
            if not await self._discovered([name]):
                self._placements.forget([name])


# Shared: the parts of one client that all its uses share, put together once.
class Shared(Struct, frozen=True):
    """One client's."""

    channel: Channel[None]
    options: TubeOptions
    calls: Calls
    identity: Identity
    masters: Masters
    brokers: Brokers
    placements: Placements
    publisher: Publisher
    topics: Topics


def share(channel: Channel[None], masters: Sequence[Endpoint], options: TubeOptions) -> Shared:
    """Make the parts. Nothing is connected. Raises ConfigError."""
    calls = Calls(channel, options)
    identity = Identity(channel, options)
    at_masters = Masters(calls, masters)
    placements = Placements(channel, options.metadata_max_age_ms, tls=options.tls)
    publisher = Publisher(channel, at_masters, identity, placements, options)
    topics = Topics(channel, at_masters, identity, placements, publisher, options)
    return Shared(
        channel, options, calls, identity, at_masters, Brokers(calls, identity), placements, publisher, topics
    )
