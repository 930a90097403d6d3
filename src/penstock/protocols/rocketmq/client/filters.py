"""Filters by properties: each broker is asked, before the first pull, whether it takes the expression.

It has to be: a broker lets every message through where a pull brings an expression that is none. Source: Apache
RocketMQ 4.9 and 5.4, ``MQClientInstance.checkClientInBroker``, ``PullMessageProcessor``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.client.subscriptions import subscription
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.methods import CHECK_CLIENT_CONFIG

if TYPE_CHECKING:
    from penstock.model import Node
    from penstock.protocols.rocketmq.client.shared import Shared

__all__ = ["try_filter"]


async def try_filter(shared: Shared, node: Node, topic: str) -> None:
    """Raises ServerError where a broker does not take what is to be read; asks each once."""
    expression, kind = shared.options.expression
    if kind == "TAG" or node.endpoint in shared.tried:
        return
    body = m.CheckClientConfig(
        client_id=shared.id,
        group=shared.options.reads_as,
        subscription_data=subscription(topic, expression, kind, 0),
    )
    # Very old brokers have no such request, and no such filters either.
    accept = (Code.SUCCESS, Code.REQUEST_CODE_NOT_SUPPORTED)
    await shared.calls.call(node.endpoint, CHECK_CLIENT_CONFIG, m.NoFields(), body, accept=accept)
    shared.tried.add(node.endpoint)
