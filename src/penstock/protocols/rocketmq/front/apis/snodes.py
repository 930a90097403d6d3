"""The name server: which Snodes there are. 350, 353, 354; and a group's retry topic, as their clients ask for it. 355.

The first Snode's own name server answered 350 as if nobody had served it, and 354 by the wrong key. Source: the Snode
of 2018 and 2019, ``DefaultRequestProcessor``, ``ConsumerManageProcessor``.
"""

from __future__ import annotations

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.config.names import RETRY
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.apis.membership import named
from penstock.protocols.rocketmq.front.call import Call, OfConnected, Reply
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.snodes import info, own

__all__ = ["group_of", "known", "of_cluster", "register", "retry_topic"]


async def register(call: OfConnected, request: m.RegisterSnode) -> Reply:
    """Serve register snode."""
    call.shared.snodes.register(call.line, request, call.shared.now)
    return Reply()


async def known(call: OfConnected, request: m.NoFields) -> Reply:
    """Serve get snode cluster info."""
    del request
    return Reply(body=info([own(call.shared), *call.shared.snodes.all]))


async def of_cluster(call: OfConnected, request: m.OfSnodeCluster) -> Reply:
    """Serve get snode info."""
    return Reply(body=info([own(call.shared), *call.shared.snodes.all], request.snode_cluster_name))


async def retry_topic(call: Call, request: m.CreateRetryTopic) -> Reply:
    """Serve create retry topic."""
    await call.shared.cluster.ensure(f"{RETRY}{group_of(request)}", 1)
    return Reply()


def group_of(request: m.CreateRetryTopic) -> str:
    """Whose retry topic it is. Raises Refused."""
    group = request.group_name or request.consumer_group
    if not group:
        raise Refused(Code.SYSTEM_ERROR, "the request names no group (groupName)")
    return named(group)
