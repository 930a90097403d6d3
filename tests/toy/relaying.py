"""Which frames a toy node hands on to the cluster behind it as they came, and which of them it has a part in itself.

What is in the table is said about one node's partitions, or to all nodes by turns; a request names its node. What is
not in it is about the members of groups, who are connected here and not there: the node answers that itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum

from penstock.errors import PenstockError, UsageError
from penstock.interfaces import Buffer, Buffers, Frame
from penstock.interfaces.enode import Relay
from penstock.model import Endpoint
from tests.toy.dialect import Said
from tests.toy.framing import ANSWER, REQUEST, framed, pack, unpack
from tests.toy.members import Groups


class Way(Enum):
    ON = "to the node that it names, as it came; the answer goes back as it came, too"
    HELD = "the same, and the node may keep the answer for as long as the request says"
    WHOLE = "to whoever knows the whole cluster, and the answer is changed here"
    BOTH = "to the node that it names, as it came, and something is done here, too, so the answer is changed"


WAYS: Mapping[str, Way] = {
    "write": Way.ON,
    "bounds": Way.ON,
    "pull": Way.HELD,
    "create": Way.ON,
    "delete": Way.ON,
    "grow": Way.ON,
    "commit": Way.ON,
    "committed": Way.ON,
    "routes": Way.WHOLE,
    "groups": Way.BOTH,
    "forget": Way.BOTH,
}


class Relaying:
    """Of one node. ``here`` is where clients reach it."""

    def __init__(self, relay: Relay, groups: Groups, here: Callable[[], Endpoint]) -> None:
        self._relay = relay
        self._groups = groups
        self._here = here
        relay.hear(self._heard)

    def takes(self, said: Said) -> bool:
        return said["do"] in WAYS

    async def handle(self, frame: Frame, said: Said) -> Buffers | None:
        """Raises UpstreamLost, UsageError."""
        way = WAYS[said["do"]]
        node = None if way is Way.WHOLE else _node(said)

        def request(number: int) -> Buffers:
            return framed(REQUEST, number, frame.body)

        if said.get("oneway"):
            with suppress(PenstockError):  # nobody waits to be told
                await self._relay.hand_over(request, node)
            return None
        if said["do"] == "forget":
            self._groups.check_empty(said["group"])
        held_s = said["wait_ms"] / 1_000 if way is Way.HELD else 0.0
        answer = await self._relay.hand_on(request, node, held_s=held_s)
        if way in (Way.ON, Way.HELD):
            return framed(ANSWER, frame.correlation, answer.body)
        told, raw = unpack(answer)
        return self._changed(frame, said, told, raw)

    def _changed(self, frame: Frame, said: Said, told: Said, raw: Buffer) -> Buffers:
        if "error" not in told:
            change = {"routes": self._routes, "groups": self._all, "forget": self._forget}[said["do"]]
            told = change(said, told)
        return pack(ANSWER, frame.correlation, told, raw)

    def _routes(self, said: Said, told: Said) -> Said:
        """The nodes as they are called behind, and this one as the place to reach them."""
        here = self._here()
        return {"nodes": {name: {**node, "host": here.host, "port": here.port} for name, node in told["nodes"].items()}}

    def _all(self, said: Said, told: Said) -> Said:
        names = sorted({*told["groups"], *self._groups.members})
        return {"groups": {name: self._groups.said(name) | told["groups"].get(name, {}) for name in names}}

    def _forget(self, said: Said, told: Said) -> Said:
        self._groups.forget(said["group"])
        return told

    def _heard(self, node: str | None, frame: Frame) -> None:
        """A node's own members of a group have changed: ours are told, as if it were the nodes that they talk to."""
        said, _ = unpack(frame)
        self._groups.tell(said["group"])


def _node(said: Said) -> str:
    node = said.get("node")
    if not isinstance(node, str):
        raise UsageError("a request that is handed on says which node it means", hint="Ask for routes, and name one")
    return node
