"""What only the first Snode's clients ask for: which Snodes there are, and a group's retry topic. 350, 353 to 355.

355 is never handed on: stock brokers do not know it, or mean something else by it. Source: the Snode of 2019,
``ConsumerManageProcessor``.
"""

from __future__ import annotations

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.apis.snodes import group_of, known, of_cluster, register
from penstock.protocols.rocketmq.front.call import Reply
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.relayed.apis.asked import RelayedCall

__all__ = ["known", "of_cluster", "register", "retry_topic"]


async def retry_topic(call: RelayedCall, request: m.CreateRetryTopic) -> Reply:
    """Serve create retry topic: where the broker that is named has none yet, it is told to make it (17)."""
    around, relay = call.shared, call.shared.relay
    said = request.enode_name
    name = None if said is None else relay.brokers.known(said)
    if said is not None and name is None:
        raise Refused(Code.SERVICE_NOT_AVAILABLE, f"no name server knows a broker {said[:100]!r}")
    group = group_of(request)
    await around.made_groups.need(group)
    await around.retry_topics.ensure(group, only=name)
    return Reply()
