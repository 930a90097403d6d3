"""Several Snodes in front of one cluster: each asks all others for their clients, so that a group is one.

`Finding` finds the other Snodes, `Peers` asks them and answers handlers, `Settling` protects groups after a restart.
The merged state is `peer_groups.Union`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from penstock.concurrency.runtime import Promise, Runtime
from penstock.errors import PenstockError
from penstock.interfaces.node import NodeIdentity
from penstock.model import Endpoint
from penstock.protocols.rocketmq.backend.relay import RocketRelay, endpoint_of
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.server.call import ClientConnection
from penstock.protocols.rocketmq.server.clients import Clients, Member
from penstock.protocols.rocketmq.server.relayed.peer_groups import CONSUMER, PRODUCER, Key, Union
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.rpc import (
    ASK_PEER,
    DELETE_KV_CONFIG,
    GET_KVLIST_BY_NAMESPACE,
    PUT_KV_CONFIG,
    read_answer,
    request,
)

__all__ = ["NAMESPACE", "SILENT_S", "Finding", "Peers", "Settling", "group_here"]


# A group's state on this Snode, in the form in which other Snodes get it.
def group_here(clients: Clients, key: Key) -> m.PeerGroup:
    """The group's state here; without members if it has none on this Snode."""
    if key.kind != CONSUMER:
        return m.PeerGroup(
            kind=key.kind, name=key.name, version=0, members=_members(clients.producers.get(key.name, {}))
        )
    group = clients.consumers.get(key.name)
    if group is None:
        return m.PeerGroup(kind=key.kind, name=key.name, version=0)
    return m.PeerGroup(
        kind=key.kind,
        name=key.name,
        version=0,
        members=_members(group.members),
        subscriptions=tuple(group.subscriptions.values()),
        consume_type=group.consume_type,
        message_model=group.message_model,
        consume_from_where=group.consume_from_where,
    )


def _members(members: Mapping[ClientConnection, Member]) -> tuple[m.PeerMember, ...]:
    found = {
        each.who.client_id: m.PeerMember(
            client_id=each.who.client_id,
            language=each.who.language,
            version=each.who.version,
            address=str(line.address),
        )
        for line, each in members.items()
    }
    return tuple(found.values())


# A Snode that starts alone must not hand out member lists of half a group. No I/O.
#
# Java's members send a heartbeat every 30 seconds. After a restart, the first one would get itself as the only member
# and take the queues of all others, who go on reading them. A refused list (38) leaves every member with its queues. So
# the list is refused while there is a sign that some members have not sent a heartbeat yet: a connection reads for the
# group without a subscription in its pulls, and is no member. Or, in the first seconds, while readers reconnect, the
# group's subscription is older than this start. A group that forms for the first time shows neither sign.
_READERS_COME_S: Final = 4.0
"""A client whose read failed tries again after one second, older ones after three."""
_MOST_S: Final = 40.0
"""By then every member has sent a heartbeat, or never will: one period, and the delay of one that got lost."""
_CLOCKS_MS: Final = 1_000
_FIRST_DATE_MS: Final = 1_000_000_000_000
"""A subscription version below this is not a date in ms; clients in other languages may send such."""
_MOST_GROUPS: Final = 10_000


class Settling:
    """Which groups have to wait after a start. ``now``: seconds of a monotonic clock; ``wall_ms``: the date then."""

    def __init__(self, clients: Clients, now: float, wall_ms: int) -> None:
        self._clients = clients
        self._started = now
        self._wall_ms = wall_ms
        self._reading: dict[str, set[ClientConnection]] = {}
        self._count = 0
        self._refused: set[str] = set()

    def reads(self, group: str, line: ClientConnection) -> None:
        """A connection reads for a group and relies on the group's subscription."""
        lines = self._reading.setdefault(group, set())
        if line not in lines and self._count < _MOST_GROUPS:
            lines.add(line)
            self._count += 1

    def waits(self, group: str, now: float) -> bool:
        """Whether the group's member list must be refused for now. The group is notified once it need not be."""
        if not self._waits(group, now):
            return False
        self._refused.add(group)
        return True

    def settled(self, now: float) -> list[str]:
        """Groups that had to wait and no longer have to; the caller notifies them."""
        found = [each for each in self._refused if not self._waits(each, now)]
        self._refused.difference_update(found)
        return found

    def is_over(self, now: float) -> bool:
        """Whether no group waits or will wait any more."""
        return now - self._started > _MOST_S and not self._refused

    def _waits(self, group: str, now: float) -> bool:
        age = now - self._started
        known = self._clients.consumers.get(group)
        if known is None or age > _MOST_S:
            return False
        newest = max((each.sub_version for each in known.subscriptions.values()), default=0)
        if age < _READERS_COME_S and _FIRST_DATE_MS < newest < self._wall_ms - _CLOCKS_MS:
            return True
        return any(line not in known.members and not line.over for line in self._reading.get(group, ()))


# Addresses of other Snodes: those that the operator configured, and those that the Snodes register at name servers.
#
# A Snode registers its address as key and value of a KV setting (namespace ``PENSTOCK_SNODES``). Name servers of 4.9
# and 5.x have these and keep them over restarts; mqadmin shows and deletes them. A setting is written only if it is
# wrong or missing. An address at which no Snode answers for ten minutes is deleted by the Snode that tried it. Source:
# Apache RocketMQ 4.9 and 5.x, ``KVConfigManager``.

NAMESPACE: Final = "PENSTOCK_SNODES"
_MOST_SNODES: Final = 256


class Finding:
    """Finds Snodes. ``configured``: given addresses; ``asks``: whether to read and register at name servers, too."""

    def __init__(self, relay: RocketRelay, configured: Collection[Endpoint], *, asks: bool) -> None:
        self._relay = relay
        self._configured = tuple(configured)
        self._asks = asks
        self._names: Mapping[str, str] = {}
        self._warned = False
        self._own = ""

    @property
    def places(self) -> set[Endpoint]:
        """All known addresses; this Snode's own may be among them."""
        return {*self._configured, *(at for text in self._names.values() if (at := endpoint_of(text)) is not None)}

    async def look(self, own: Endpoint | None = None) -> bool:
        """Read the addresses from name servers, and register this Snode's. After an error the known ones stay.

        Returns whether this Snode has just registered: Snodes that start at the same moment may have missed each other,
        so look again soon.
        """
        if not self._asks:
            return False
        try:
            self._names = await self._listed()
            if own is not None and self._names.get(str(own)) != str(own):
                mine = m.PutKv(namespace=NAMESPACE, key=str(own), value=str(own))
                await self._relay.ask_all_names(request(PUT_KV_CONFIG, mine))
                self._own = str(own)
                return True
        except PenstockError as error:
            if not self._warned:
                _log.warning("name servers cannot be asked for other Snodes (say where they are: snodes): %s", error)
            self._warned = True
        return False

    async def forget(self, at: Endpoint) -> None:
        """Delete an address at which no Snode has answered for long."""
        for name in [name for name, text in self._names.items() if text == str(at)]:
            _log.info("no Snode has answered at %s for long, it is taken from the name servers", at)
            await self._delete(name)

    async def leave(self) -> None:
        """Delete this Snode's own address."""
        if self._own:
            await self._delete(self._own)

    async def _listed(self) -> Mapping[str, str]:
        frame = await self._relay.ask_names(request(GET_KVLIST_BY_NAMESPACE, m.OfNamespace(namespace=NAMESPACE)))
        said = read_answer(GET_KVLIST_BY_NAMESPACE, frame, accept=(Code.SUCCESS, Code.QUERY_NOT_FOUND))
        if said.code != Code.SUCCESS:
            return {}
        return dict(sorted(m.read_body(m.Table, said.body).table.items())[:_MOST_SNODES])

    async def _delete(self, name: str) -> None:
        self._names = {each: text for each, text in self._names.items() if each != name}
        try:
            await self._relay.ask_all_names(request(DELETE_KV_CONFIG, m.OfKv(namespace=NAMESPACE, key=name)))
        except PenstockError as error:
            _log.info("%s could not be taken from the name servers: %s", name, error)


_log = logging.getLogger("penstock.node")

_HOLD_S: Final = 2.0
SILENT_S: Final = 6.0
"""A Snode is silent after this long without a sign of life; a frozen process shows a little sooner."""
_TICK_S: Final = 1.0
_SOON_S: Final = 0.1
_LOOK_S: Final = 10.0
_PAUSE_S: Final = 0.25
_LEAST_S: Final = 0.01
_STALE_S: Final = 600.0
_MOST_BYTES: Final = 32 << 20


class Peers:
    """The other Snodes, for one front. This Snode's own address is known once it listens."""

    def __init__(
        self,
        relay: RocketRelay,
        clients: Clients,
        runtime: Runtime,
        finding: Finding,
        union: Union,
        identity: NodeIdentity,
    ) -> None:
        self._relay = relay
        self._clients = clients
        self._runtime = runtime
        self._finding = finding
        self.union = union
        self._identity = identity
        self.stopping = False
        self.settling: Settling | None = None
        self._asked: set[Endpoint] = set()
        self._ids: dict[Endpoint, str] = {}
        self._failing: dict[Endpoint, float] = {}
        self._changed_here: set[Key] = set()
        self._waiting: set[Promise[None]] = set()
        self._looked_s = 0.0
        self._has_peers = False
        clients.changed = self.changed

    # Start and stop.

    async def start(self) -> None:
        """Ask the other Snodes before the first client is served, so that groups do not notice a restart."""
        await self._finding.look()
        self._looked_s = self._now
        places = self._places()
        heard = await self._relay.gather([self._first(each) for each in places])
        deaf = [f"{place} ({no.message})" for place, no in zip(places, heard, strict=True) if no is not None]
        if deaf:
            _log.warning("other Snodes do not answer yet, groups are without their members: %s", ", ".join(deaf))
        if not any(snode.groups for snode in self.union.others.values()):
            self.settling = Settling(self._clients, self._now, self._runtime.now_ms())
        self._runtime.spawn(self._keep_up(), "look after what other RocketMQ Snodes say")

    async def stop(self) -> None:
        """Report nothing more: clients that are disconnected now will soon be at another Snode."""
        self.stopping = True
        self._wake()
        await self._finding.leave()

    # For handlers.

    def members(self, group: str, kind: str = CONSUMER) -> dict[str, m.PeerMember]:
        """A group's members at other Snodes, by client id."""
        return {who: member for who, (_, member) in self.union.members(Key(kind, group)).items()}

    def consumers(self, group: str) -> list[str]:
        """Client ids of a consumer group's members at all Snodes, each once."""
        return list(dict.fromkeys([*self._clients.ids(group), *self.members(group)]))

    def waits(self, group: str) -> bool:
        """Whether it is too early after a start for the group's member list."""
        return self.settling is not None and self.settling.waits(group, self._now)

    def home_of(self, group: str, client_id: str) -> Endpoint | None:
        """The address of the Snode with this member; None if no Snode in reach has it."""
        found = self.union.members(Key(CONSUMER, group)).get(client_id)
        return None if found is None else self._place_of(found[0].id)

    def home_of_producer(self, client_id: str) -> Endpoint | None:
        """The address of the Snode with this producer; None if no Snode in reach has it."""
        for snode in self.union.others.values():
            for key, group in snode.groups.items():
                if key.kind == PRODUCER and any(each.client_id == client_id for each in group.members):
                    return self._place_of(snode.id)
        return None

    def homes_of(self, group: str) -> list[Endpoint]:
        """Addresses of the other Snodes that have members of the group."""
        there = {snode.id for snode, _ in self.union.members(Key(CONSUMER, group)).values()}
        return [place for each in sorted(there) if (place := self._place_of(each)) is not None]

    def left(self, kind: str, group: str, client_id: str) -> None:
        """A client has left a group for good."""
        key = Key(kind, group)
        if self.union.leave(key, client_id, self._now):
            self.changed(kind, group)
            self._heard_of([key])

    def changed(self, kind: str, group: str) -> None:
        """A group has changed on this Snode."""
        if not self.stopping:
            self._changed_here.add(Key(kind, group))
            self._wake()

    async def tell(self, asked: m.AskPeer, line: ClientConnection) -> m.TellPeer:
        """Answer another Snode with the news since its versions, as soon as there are some."""
        self._has_peers |= asked.id not in self._ids.values()
        until = self._now + min(max(asked.hold_ms, 0) / 1_000, _HOLD_S)
        while not line.over and not self._has_news(asked) and (left_s := until - self._now) > 0:
            await self._wait(line, left_s)
        return m.TellPeer(id=self.union.own.id, words=tuple(self.union.tell(asked, self._now)))

    # Internals.

    @property
    def _now(self) -> float:
        return self._runtime.monotonic()

    @property
    def _own(self) -> Endpoint | None:
        return self._identity.reached.get("rocketmq")

    def _places(self) -> list[Endpoint]:
        """Addresses that are not being asked yet."""
        siblings = self._identity.siblings.get("rocketmq", ())
        return sorted({*self._finding.places, *siblings} - self._asked - {self._own})

    def _has_news(self, asked: m.AskPeer) -> bool:
        changed, self._changed_here = self._changed_here, set()
        for key in changed:
            self.union.say(group_here(self._clients, key), self._now)
        return self.union.has_news(asked, self._now)

    async def _wait(self, line: ClientConnection, seconds: float) -> None:
        news: Promise[None] = self._runtime.promise()
        timer = self._runtime.call_later(seconds, lambda: news.set(None))
        self._waiting.add(news)
        try:
            await line.park(news)
        finally:
            timer.cancel()
            self._waiting.discard(news)

    def _wake(self) -> None:
        for each in list(self._waiting):
            each.set(None)

    def _heard_of(self, keys: Iterable[Key]) -> None:
        for key in keys:
            if key.kind == CONSUMER:
                self._clients.notify(key.name)

    def _place_of(self, snode: str) -> Endpoint | None:
        return next((place for place, each in self._ids.items() if each == snode), None)

    async def _first(self, place: Endpoint) -> PenstockError | None:
        self._asked.add(place)
        try:
            await self._ask(place, 0)
        except PenstockError as error:
            return error
        finally:
            self._runtime.spawn(self._listen(place), f"hear the RocketMQ Snode at {place}")
        return None

    async def _listen(self, place: Endpoint) -> None:
        """Ask one Snode in a loop, for as long as its address is known or it answers."""
        while place not in self._failing or self._is_configured(place):
            begun = self._now
            try:
                news = await self._ask(place, _HOLD_S)
            except PenstockError as error:
                self._fails(place, error)
                news = False
            if self._ids.get(place) == self.union.own.id:
                return
            quick = self._now - begun < _PAUSE_S
            await self._runtime.sleep(_PAUSE_S if quick and not news else _LEAST_S)
        self._failing.pop(place, None)
        self._asked.discard(place)

    async def _ask(self, place: Endpoint, hold_s: float) -> bool:
        """Ask once; returns whether there was news. Raises UpstreamLost, ServerError, ProtocolViolation."""
        before = self.union.known()
        heard = [each for each in self._ids.values() if each in before and self._is_near(each)]
        asked = m.AskPeer(
            id=self.union.own.id,
            name=self.union.own.name,
            known=before,
            heard=tuple(heard),
            hold_ms=int(hold_s * 1_000),
        )
        frame = await self._relay.ask_snode(place, request(ASK_PEER, m.NoFields(), asked), held_s=hold_s)
        said = m.read_body(m.TellPeer, read_answer(ASK_PEER, frame).body, max_bytes=_MOST_BYTES)
        self._answered(place, said.id)
        changed = self.union.hear(said.id, said.words, self._now)
        self._heard_of(changed)
        if before == self.union.known():
            return False
        self._wake()
        return True

    def _is_configured(self, place: Endpoint) -> bool:
        return place in self._finding.places or place in self._identity.siblings.get("rocketmq", ())

    def _is_near(self, snode: str) -> bool:
        return not self.union.others[snode].silent

    def _answered(self, place: Endpoint, snode: str) -> None:
        before = self._ids.get(place)
        if snode not in (before, self.union.own.id):
            _log.info("the Snode at %s is heard now", place)
        if before not in (snode, None):
            self._heard_of(self.union.lose(before))
        self._ids[place] = snode
        self._failing.pop(place, None)

    def _fails(self, place: Endpoint, error: PenstockError) -> None:
        if place not in self._failing:
            self._failing[place] = self._now
            if self.stopping:
                return
            _log.warning("what the Snode at %s said stands for now, its clients are kept: %s", place, error)
        before = self._ids.pop(place, None)
        if before is not None:
            self._heard_of(self.union.lose(before))

    async def _keep_up(self) -> None:
        await self._runtime.sleep(_SOON_S)
        while True:
            now = self._now
            self._heard_of(self.union.expire(now))
            self._settle(now)
            for kind, group in self.union.outdated(now):
                self.changed(kind, group)
            if self._has_peers or now - self._looked_s >= _LOOK_S or not self.union.own.name:
                await self._look()
            for place in self._places():
                self._asked.add(place)
                self._runtime.spawn(self._listen(place), f"hear the RocketMQ Snode at {place}")
            before = self._now
            await self._runtime.sleep(_TICK_S)
            if self._now - before > SILENT_S:
                self.union.was_away(self._now - before)

    def _settle(self, now: float) -> None:
        if self.settling is not None:
            self._heard_of(Key(CONSUMER, each) for each in self.settling.settled(now))
            if self.settling.is_over(now):
                self.settling = None

    async def _look(self) -> None:
        self._looked_s = self._now
        own = self._own
        self.union.own.name = "" if own is None else str(own)
        self._has_peers = await self._finding.look(own)
        for place, since in list(self._failing.items()):
            if self._now - since > _STALE_S:
                await self._finding.forget(place)
