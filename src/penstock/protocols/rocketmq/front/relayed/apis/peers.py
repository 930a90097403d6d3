"""Another Snode of this cluster asks whose clients are here."""

from __future__ import annotations

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.call import Reply
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.relayed.apis.asked import RelayedCall

__all__ = ["tell"]


async def tell(call: RelayedCall, header: m.NoFields) -> Reply:
    """Serve ask peer: held until there is news."""
    del header
    peers = call.shared.peers
    asked = m.read_body(m.AskPeer, call.asked.body)
    if not peers.stopping:
        found = await peers.tell(asked, call.line)
        if not peers.stopping:
            return Reply(body=found)
    raise Refused(Code.SYSTEM_ERROR, "this Snode stops")
