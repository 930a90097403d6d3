"""The toy's server side, over the node's services: unordered answers, pushed notices, a long poll.

A front is a data node, a name server, or both: one that is told of no name server is its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from penstock.errors import PenstockError, ProtocolViolation
from penstock.interfaces import Buffer, Buffers, Frame, Peer, Services
from penstock.interfaces.front import Front
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from tests.toy.dialect import Said, ToyDialect, asked
from tests.toy.framing import ANSWER, EVENT, ToyFraming, pack, unpack
from tests.toy.group_verbs import GroupVerbs
from tests.toy.log_verbs import LogVerbs
from tests.toy.members import Groups
from tests.toy.relaying import Relaying
from tests.toy.routes import Routes

Reply = tuple[Said, Buffer]
Verb = Callable[[Said, memoryview], Awaitable[Reply]]

REGISTER_EVERY_S = 0.2


class ToyFront(Front):
    """``names``: where the name server is; None: here. ``keeps`` is False for a name server that keeps no data.

    ``hand_on``: over a cluster of toys, frames go on as they came (`relaying`); else all goes by the neutral form.
    """

    scheme = "toy"

    def __init__(
        self,
        services: Services,
        names: Endpoint | None = None,
        *,
        keeps: bool = True,
        spoil_sums: bool = False,
        hand_on: bool = True,
    ) -> None:
        self.services = services
        self.spoil_sums = spoil_sums
        self.name = f"node-{services.identity.node_id}"
        self.routes = Routes()
        self.groups = Groups()
        self._names = names
        self._keeps = keeps
        relay = services.enode.relay(self.scheme) if hand_on else None
        self.relaying: Relaying | None = None
        if relay is not None:
            self.relaying = Relaying(relay, self.groups, lambda: services.identity.advertised[self.scheme])

    async def start(self) -> None:
        if self._names is not None:
            self.services.runtime.spawn(self._register_now_and_then(), "register")

    async def stop(self) -> None:
        return

    def session(self, peer: Peer) -> ToySession:
        return ToySession(self, peer)

    async def register(self) -> None:
        """Tell the name server what is here; nothing before the node listens."""
        here = self.services.identity.advertised.get(self.scheme)
        if here is None or not self._keeps:
            return
        topics = {topic.name: topic.partitions for topic in await self.services.enode.topics()}
        if self._names is None:
            self.routes.register(self.name, here, topics)
            return
        said = {"do": "register", "name": self.name, "host": here.host, "port": here.port, "topics": topics}
        channel = AsyncioChannel(ToyDialect())
        try:
            await asked(channel, self._names, said)
        finally:
            await channel.close()

    async def _register_now_and_then(self) -> None:
        while True:
            with suppress(PenstockError):  # the name server is away, and is told when it is back
                await self.register()
            await self.services.runtime.sleep(REGISTER_EVERY_S)


class ToySession:
    ordered = False
    at_once = False

    def __init__(self, front: ToyFront, peer: Peer) -> None:
        self._front = front
        self._peer = peer
        self._log = LogVerbs(front.services, front.register, spoil_sums=front.spoil_sums)
        self._groups = GroupVerbs(front.services, front.groups, self.notice)
        self._verbs: dict[str, Verb] = {
            "register": self._register,
            "routes": self._routes,
            **self._log.verbs,
            **self._groups.verbs,
        }

    def framing(self) -> ToyFraming:
        return ToyFraming()

    def notice(self, group: str) -> None:
        self._peer.push(pack(EVENT, 0, {"event": "members", "group": group}))

    async def handle(self, frame: Frame) -> Buffers | None:
        said, raw = unpack(frame)
        verb = self._verbs.get(str(said.get("do")))
        if verb is None:
            raise ProtocolViolation(f"the toy has no verb {said.get('do')!r}")
        try:
            if self._front.relaying is not None and self._front.relaying.takes(said):
                return await self._front.relaying.handle(frame, said)
            answer, body = await verb(said, raw)
        except PenstockError as error:
            answer, body = {"error": type(error).__name__, "text": str(error), "retriable": error.retriable}, b""
        return None if said.get("oneway") else pack(ANSWER, frame.correlation, answer, body)

    def lost(self) -> None:
        self._log.lost()
        self._groups.lost()

    async def _register(self, said: Said, raw: memoryview) -> Reply:
        self._front.routes.register(said["name"], Endpoint(said["host"], said["port"]), said["topics"])
        return {}, b""

    async def _routes(self, said: Said, raw: memoryview) -> Reply:
        if self._front.services.identity.advertised:
            await self._front.register()
        return {"nodes": self._front.routes.said()}, b""
