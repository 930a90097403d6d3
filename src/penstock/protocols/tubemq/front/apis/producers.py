"""Producers at the master: register, heartbeat, close. Methods 1, 2 and 3.

Source: TubeMQ 2.x master. A producer learns the brokers with its registration and the topics with its heartbeats.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.call import Call, Shared
from penstock.protocols.tubemq.front.checks import few, named, topics_of
from penstock.protocols.tubemq.messages.authorization import MasterAuthorizedInfo
from penstock.protocols.tubemq.messages.declare import has
from penstock.protocols.tubemq.messages.producer import (
    ApprovedClientConfig,
    CloseRequestP2M,
    CloseResponseM2P,
    HeartRequestP2M,
    HeartResponseM2P,
    RegisterRequestP2M,
    RegisterResponseM2P,
)
from penstock.protocols.tubemq.strings import Published, format_published

__all__ = ["close", "heartbeat", "register"]


async def register(call: Call, request: RegisterRequestP2M) -> RegisterResponseM2P:
    """Serve producer register; its topics need not exist."""
    shared = call.shared
    client = named("clientId", request.client_id)
    named("hostName", request.host_name)
    shared.producers.register(client, _topics(request.topic_list), shared.now, call.line)
    return RegisterResponseM2P(
        success=True,
        err_code=Code.SUCCESS,
        err_msg="OK!",
        broker_check_sum=shared.cluster.config_id,
        broker_infos=_brokers(shared, request.broker_check_sum),
        authorized_info=MasterAuthorizedInfo(visit_authorized_token=shared.visit_token),
        appd_config=_approved(shared, request),
    )


async def heartbeat(call: Call, request: HeartRequestP2M) -> HeartResponseM2P:
    """Serve producer heartbeat: where its topics are, each time."""
    shared = call.shared
    client = named("clientId", request.client_id)
    named("hostName", request.host_name)
    topics = _topics(request.topic_list)
    shared.producers.beat(client, topics, shared.now, call.line)
    found = [topic for name in topics if (topic := await shared.cluster.topic(name)) is not None]
    infos = [
        format_published(
            Published(
                topic.name,
                (shared.cluster.placement(topic),),
                shared.settings.topic(topic.name).max_message_bytes or None,
            )
        )
        for topic in found
        if shared.settings.accepts_publish(topic.name)
    ]
    return HeartResponseM2P(
        success=True,
        err_code=Code.SUCCESS,
        err_msg="OK!",
        broker_check_sum=shared.cluster.config_id,
        topic_infos=infos,
        broker_infos=_brokers(shared, request.broker_check_sum),
        authorized_info=MasterAuthorizedInfo(visit_authorized_token=shared.visit_token),
        appd_config=_approved(shared, request),
    )


async def close(call: Call, request: CloseRequestP2M) -> CloseResponseM2P:
    """Serve producer close."""
    call.shared.producers.close(named("clientId", request.client_id))
    return CloseResponseM2P(success=True, err_code=Code.SUCCESS, err_msg="OK!")


def _topics(listed: Sequence[str]) -> list[str]:
    names = few(listed)
    return topics_of(names) if any(name.strip() for name in names) else []


def _brokers(shared: Shared, held: int) -> list[str]:
    return [] if held == shared.cluster.config_id else shared.cluster.brokers


def _approved(shared: Shared, request: RegisterRequestP2M | HeartRequestP2M) -> ApprovedClientConfig:
    """The cluster's limit of message sizes, where the client's is not up to date."""
    held = request.appd_config.config_id if has(request, "appd_config") else 0
    limits = shared.settings.limits
    return ApprovedClientConfig(
        config_id=limits.id, max_msg_size=None if held == limits.id else limits.max_message_bytes
    )
