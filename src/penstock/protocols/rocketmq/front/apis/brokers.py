"""The broker and the name server as operators see and set them, and how topics are set.

Requests 21, 25, 26, 28, 205, 304, 305, 319, 327, 351.

Source: Apache RocketMQ 4.9 and 5.x, ``AdminBrokerProcessor``, ``DefaultRequestProcessor``.
"""

from __future__ import annotations

from typing import Final

from penstock._version import __version__
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.config.names import UNWRITABLE
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.call import Call, Reply, written
from penstock.protocols.rocketmq.front.cluster import TEMPLATE
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.naming import rocket_name

__all__ = [
    "add_write_perm",
    "config",
    "names_config",
    "runtime",
    "set_config",
    "system_topics",
    "system_topics_of_names",
    "topic_config",
    "topic_configs",
    "wipe_write_perm",
]

_PERM: Final = "brokerPermission"
_PERMS: Final = {str(perm): perm for perm in (0, 2, 4, 6)}


async def runtime(call: Call, request: m.NoFields) -> Reply:
    """Serve get broker runtime info."""
    del request
    shared = call.shared
    topics = await shared.cluster.topics()
    table = {
        "brokerVersionDesc": f"penstock_{__version__}",
        "brokerVersion": str(call.asked.version),
        "consumerNum": str(len(shared.clients.consumers)),
        "producerNum": str(len(shared.clients.producers)),
        "topicNum": str(len(topics)),
        "queueNum": str(sum(topic.partitions for topic in topics)),
    }
    return Reply(body=m.Table(table=table))


async def config(call: Call, request: m.NoFields) -> Reply:
    """Serve get broker config, as a property file."""
    del request
    return Reply(body="".join(f"{name}={value}\n" for name, value in _config(call).items()).encode())


async def set_config(call: Call, request: m.NoFields) -> Reply:
    """Serve update broker config: all of it, or nothing where something cannot be changed. Raises Refused."""
    del request
    now = _config(call)
    said = _properties(bytes(call.asked.body).decode("utf-8", "replace"))
    for name, value in said.items():
        if name != _PERM and value != now.get(name):
            raise Refused(
                Code.NO_PERMISSION,
                f"{name[:100]} cannot be set while the node runs, {_PERM} can: give the node its options at its start "
                "(docs/node)",
            )
    if _PERM in said:
        if said[_PERM] not in _PERMS:
            raise Refused(
                Code.INVALID_PARAMETER,
                f"{_PERM} is {said[_PERM][:100]!r}: 2 lets the broker be written, 4 be read, 6 both, 0 neither",
            )
        await call.shared.settings.set_perm(_PERMS[said[_PERM]])
    return Reply()


async def names_config(call: Call, request: m.NoFields) -> Reply:
    """Serve get name server config, which has nothing that can be set."""
    del request
    port = call.shared.cluster.host.port
    return Reply(body=f"listenPort={port}\nclusterTest=false\norderMessageEnable=false\n".encode())


async def wipe_write_perm(call: Call, request: m.OfBroker) -> Reply:
    """Serve wipe write perm of broker: routes say that it cannot be written to, until that is taken back."""
    return Reply(m.WipedTopics(wipe_topic_count=await _wipe(call, request, wiped=True)))


async def add_write_perm(call: Call, request: m.OfBroker) -> Reply:
    """Serve add write perm of broker."""
    return Reply(m.AddedTopics(add_topic_count=await _wipe(call, request, wiped=False)))


async def _wipe(call: Call, request: m.OfBroker, *, wiped: bool) -> int:
    """How many topics that is about; none of a broker that is not here, as name servers say."""
    shared = call.shared
    if request.broker_name != shared.cluster.broker:
        return 0
    await shared.settings.wipe(wiped=wiped)
    return len(await shared.cluster.topics())


async def system_topics_of_names(call: Call, request: m.NoFields) -> Reply:
    """Serve get system topic list from name server: names of clusters and brokers, and where a broker is."""
    del request
    cluster = call.shared.cluster
    return Reply(body=m.TopicList(topic_list=(cluster.name, cluster.broker), broker_addr=cluster.address))


async def system_topics(call: Call, request: m.NoFields) -> Reply:
    """Serve get system topic list from broker."""
    del call, request
    return Reply(body=m.TopicList(topic_list=tuple(sorted(UNWRITABLE | {TEMPLATE}))))


async def topic_config(call: Call, request: m.OfTopic) -> Reply:
    """Serve get topic config."""
    return Reply(body=call.shared.settings.topic(await call.shared.cluster.known(request.topic)))


async def topic_configs(call: Call, request: m.NoFields) -> Reply:
    """Serve get all topic configs."""
    del request
    shared = call.shared
    topics = await shared.cluster.topics()
    table = {rocket_name(topic.name): shared.settings.topic(topic) for topic in topics}
    rows = [f"{topic.id.hex()} {table[rocket_name(topic.name)]}".encode() for topic in topics]
    version = await shared.settings.version("topics", rows, shared.now_ms)
    found = m.TopicConfigs(topic_config_table=table, data_version=version)
    return Reply(body=await written(shared.beside, found, len(table)))


def _config(call: Call) -> dict[str, str]:
    shared = call.shared
    return {
        "autoCreateSubscriptionGroup": "true" if shared.options.auto_create_groups else "false",
        "autoCreateTopicEnable": "true" if shared.options.auto_create_topics else "false",
        "brokerClusterName": shared.cluster.name,
        "brokerId": "0",
        "brokerName": shared.cluster.broker,
        _PERM: str(shared.settings.perm),
        "maxMessageSize": str(shared.options.max_message_bytes),
    }


def _properties(text: str) -> dict[str, str]:
    """A property file's names and values."""
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.partition("=") for line in lines if line and line[0] not in "#!"]
    return {name.strip(): value.strip() for name, _, value in pairs}
