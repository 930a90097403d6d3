"""Groups at real brokers.

`MadeGroups` knows which groups exist there. `ProducerGroups` registers the node as a producer, so that brokers ask it
about transactions. `RetryTopics` creates groups' retry topics.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from penstock.concurrency.background import BackgroundWorker
from penstock.concurrency.runtime import Runtime
from penstock.errors import PenstockError, ServerError
from penstock.protocols.rocketmq.backend.relay import CONTROL, Broker, RocketRelay
from penstock.protocols.rocketmq.config import RETRY, is_built_in
from penstock.protocols.rocketmq.errors import Code, Refused, unmade
from penstock.protocols.rocketmq.server.call import read_large
from penstock.protocols.rocketmq.server.clients import Clients
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from penstock.protocols.rocketmq.wire.rpc import (
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    GET_ROUTEINFO_BY_TOPIC,
    HEART_BEAT,
    UPDATE_AND_CREATE_TOPIC,
    read_answer,
    request,
)

__all__ = ["MadeGroups", "ProducerGroups", "RetryTopics"]

_log = logging.getLogger("penstock.node")
_OLD_S: Final = 30.0
_AGAIN_S: Final = 1.0
_GROUP_OF: Final = {
    11: "consumerGroup",
    36: "group",
    351: "consumerGroup",
    361: "consumerGroup",
    200050: "consumerGroup",
}
"""Requests for which brokers create a group, and the field with its name."""


class MadeGroups:
    """The groups that brokers have, for one front. With ``everything`` any group name is served. ``silent``: groups
    whose members get no notice of changes, since every master that has the group says so
    (``notifyConsumerIdsChangedEnable``)."""

    def __init__(self, relay: RocketRelay, runtime: Runtime, background: BackgroundWorker, *, everything: bool) -> None:
        self._relay = relay
        self._runtime = runtime
        self._background = background
        self._everything = everything
        self._said: dict[str, Mapping[str, bool]] = {}
        self._made: frozenset[str] = frozenset()
        self._looked_s = self._needed_s = -_OLD_S
        self.silent: frozenset[str] = frozenset()

    def serves(self, asked: RemotingCommand) -> bool:
        """Whether a request names no group, or one that is known to exist; otherwise call `check`."""
        group = None if self._everything else asked.fields.get(_GROUP_OF.get(asked.code, ""))
        return group is None or self._has(group, _OLD_S)

    async def check(self, asked: RemotingCommand) -> None:
        """Check that the request's group exists, with a look at the brokers. Raises Refused, UpstreamLost."""
        group = asked.fields.get(_GROUP_OF.get(asked.code, ""))
        if group is not None:
            await self.need(group)

    async def need(self, group: str) -> None:
        """Check that a group exists at one master at least. Raises Refused, UpstreamLost."""
        if self._everything or self._has(group, _OLD_S):
            return
        if self._runtime.monotonic() - self._needed_s >= _AGAIN_S:
            self._needed_s = self._runtime.monotonic()
            await self._look()
        if not self._has(group, _OLD_S):
            raise unmade(group)

    async def keep_up(self) -> None:
        """Load the groups from the brokers again if the last load is too old."""
        if self._runtime.monotonic() - self._looked_s < _OLD_S:
            return
        try:
            await self._look()
        except PenstockError as error:
            _log.info("brokers do not say which consumer groups they have, will ask again: %s", error)

    def _has(self, group: str, old_s: float) -> bool:
        fresh = self._runtime.monotonic() - self._looked_s < old_s
        return is_built_in(group) or (fresh and group in self._made)

    async def _look(self) -> None:
        """Load the groups of all masters; one that does not answer keeps its last state.

        Raises Refused, and a master's error if no master answered.
        """
        masters = self._relay.brokers.masters()
        if not masters:
            raise Refused(Code.SERVICE_NOT_AVAILABLE, "no name server knows a master broker now")
        begun_s = self._runtime.monotonic()
        found = await self._relay.gather([self._groups_of(each) for each in masters])
        lost = [each for each in found if isinstance(each, BaseException)]
        for broker, said in zip(masters, found, strict=True):
            if not isinstance(said, BaseException):
                self._said[broker.name] = said
            elif not isinstance(said, PenstockError) or len(lost) == len(masters):
                raise said
        self._looked_s = begun_s
        names = {each.name for each in masters}
        self._said = {name: said for name, said in self._said.items() if name in names}
        self._made = frozenset(group for said in self._said.values() for group in said)
        notified = {group for said in self._said.values() for group, tells in said.items() if tells}
        self.silent = self._made - notified

    async def _groups_of(self, broker: Broker) -> Mapping[str, bool]:
        """A master's groups, and whether their members are notified of changes."""
        frame = await self._relay.ask(broker, request(GET_ALL_SUBSCRIPTIONGROUP_CONFIG, m.NoFields()))
        body = read_answer(GET_ALL_SUBSCRIPTIONGROUP_CONFIG, frame).body
        table = (await read_large(self._background, m.SubscriptionGroups, body)).subscription_group_table
        return {name: each.notify_consumer_ids_changed_enable for name, each in table.items()}


# Producer groups at brokers: the node registers for its producers' groups, so that brokers ask it about transactions.
#
# A broker sends its question (39) to one of the clients with heartbeats for the producer group. That is this node; it
# forwards the question to one of the group's producers. Source: Apache RocketMQ 4.9 and 5.x,
# ``TransactionalMessageServiceImpl``, ``ProducerManager``.

_TOGETHER: Final = 500
_INNER: Final = "CLIENT_INNER_PRODUCER"
"""Every Java client registers for this group and never uses it for transactions."""


class ProducerGroups:
    """The producer groups of one front. ``who`` is the client id in heartbeats to brokers, ``every_s`` their period."""

    def __init__(self, relay: RocketRelay, clients: Clients, runtime: Runtime, who: str, every_s: float) -> None:
        self._relay = relay
        self._clients = clients
        self._runtime = runtime
        self._who = who
        self._every_s = every_s

    def joined(self, group: str) -> None:
        """A group has its first producer here: register it at once."""
        if group != _INNER:
            self._runtime.spawn(self._beat([group]), "tell RocketMQ's brokers of a producer group")

    async def beat_for_ever(self) -> None:
        """Send heartbeats: brokers forget a client after two minutes of silence, or with its connection."""
        while True:
            await self._runtime.sleep(self._every_s)
            groups = sorted(self._clients.producers.keys() - {_INNER})
            for first in range(0, len(groups), _TOGETHER):
                await self._beat(groups[first : first + _TOGETHER])

    async def _beat(self, groups: Sequence[str]) -> None:
        said = m.HeartbeatData(
            client_id=self._who, producer_data_set=tuple(m.ProducerData(group_name=each) for each in groups)
        )
        await self._relay.gather([self._tell(each, said) for each in self._relay.brokers.masters()])

    async def _tell(self, broker: Broker, said: m.HeartbeatData) -> None:
        try:
            frame = await self._relay.ask(broker, request(HEART_BEAT, m.NoFields(), said), lane=CONTROL)
            read_answer(HEART_BEAT, frame)
        except PenstockError as error:
            _log.info("broker %s did not get the producer groups, will try again: %s", broker.name, error)


# Retry topics, from which groups read messages that they failed on. Brokers create them with a consumer's heartbeat,
# which ends at this node.
#
# An existing retry topic is left as it is: operators may have changed it. Source: Apache RocketMQ 4.9 and 5.x,
# ``ClientManageProcessor.heartBeat``.

_MOST: Final = 100_000
_READ_WRITE: Final = int(m.Perm.READ | m.Perm.WRITE)


class RetryTopics:
    """Creates retry topics for one front. A failed attempt is repeated with the group's next heartbeat."""

    def __init__(self, relay: RocketRelay, runtime: Runtime, made: MadeGroups) -> None:
        self._relay = relay
        self._made = made
        self._runtime = runtime
        self._there: dict[str, frozenset[str]] = {}
        self._making: set[str] = set()

    def want(self, group: str) -> None:
        """Create the group's retry topic at every master that has none, in a background task."""
        masters = frozenset(each.name for each in self._relay.brokers.masters())
        if group in self._making or masters <= self._there.get(group, frozenset()):
            return
        self._making.add(group)
        self._runtime.spawn(self._make(group), "make a RocketMQ group's retry topic")

    async def ensure(self, group: str, *, only: str | None = None) -> None:
        """Create the retry topic at every master that has none, or only at one. Raises ServerError, UpstreamLost."""
        topic = f"{RETRY}{group}"
        there = await self._having(topic)
        masters = self._relay.brokers.masters()
        wanted = [each for each in masters if each.name not in there and only in (None, each.name)]
        made = await self._relay.gather([self._create(each, topic) for each in wanted])
        done = {each.name for each, no in zip(wanted, made, strict=True) if no is None}
        if len(self._there) >= _MOST:
            self._there.clear()
        self._there[group] = frozenset(there | done)
        for no in made:
            if no is not None:
                raise no

    async def _make(self, group: str) -> None:
        try:
            await self._made.need(group)
            await self.ensure(group)
        except PenstockError as error:
            _log.warning(
                "topic %s%s is not made yet, it is tried again with the next heartbeat: %s", RETRY, group, error
            )
        finally:
            self._making.discard(group)

    async def _having(self, topic: str) -> set[str]:
        frame = await self._relay.ask_names(request(GET_ROUTEINFO_BY_TOPIC, m.GetRoute(topic=topic)))
        found: RemotingCommand = read_answer(
            GET_ROUTEINFO_BY_TOPIC, frame, accept=(Code.SUCCESS, Code.TOPIC_NOT_EXIST)
        ).command
        if found.code != Code.SUCCESS:
            return set()
        return {each.broker_name for each in m.read_body(m.Route, found.body).queue_datas}

    async def _create(self, broker: Broker, topic: str) -> None:
        wanted = m.CreateTopic(
            topic=topic, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=_READ_WRITE
        )
        frame = await self._relay.ask(broker, request(UPDATE_AND_CREATE_TOPIC, wanted))
        try:
            read_answer(UPDATE_AND_CREATE_TOPIC, frame)
        except ServerError as error:
            error.node = broker.name
            raise
