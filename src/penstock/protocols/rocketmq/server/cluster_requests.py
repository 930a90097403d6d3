"""Handlers of requests about topics, the broker's and the name server's settings, routes, key-value settings and
Snodes."""

from __future__ import annotations

import json
import re
from typing import Final

from msgspec.structs import replace

from penstock._version import __version__
from penstock.errors import PenstockError
from penstock.interfaces.enode import Extent
from penstock.model import Partition
from penstock.protocols.rocketmq.config import RETRY, UNWRITABLE
from penstock.protocols.rocketmq.errors import Code, Refused
from penstock.protocols.rocketmq.server.call import Call, OfConnected, Reply, Shared, read_large, written
from penstock.protocols.rocketmq.server.cluster import TEMPLATE, info, own
from penstock.protocols.rocketmq.server.group_requests import named
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.log_records import is_hidden, log_name, rocket_name

__all__ = [
    "add_write_perm",
    "all_topics",
    "broker_config",
    "broker_runtime",
    "cluster_brokers",
    "create_retry_topic",
    "create_topic",
    "create_topics",
    "delete_topic",
    "delete_value",
    "forget_topic",
    "get_value",
    "group_of",
    "known_snodes",
    "list_values",
    "name_server_config",
    "name_server_topics",
    "put_value",
    "register_snode",
    "set_broker_config",
    "snodes_of_cluster",
    "system_topics",
    "topic_config",
    "topic_configs",
    "topic_route",
    "topic_stats",
    "topics_of_cluster",
    "wipe_write_perm",
]

_STEPS_OF_STATS: Final = 10
"""Steps of `LoopBudget` per queue."""
_STEPS_OF_A_TOPIC: Final = 200
_ALLOWED: Final = re.compile(r"[%a-zA-Z0-9_-]{1,127}")
_PERMS: Final = range(int(m.Perm.PRIORITY))
_SYSTEM: Final = UNWRITABLE | {TEMPLATE}
_MESSAGE_TYPE: Final = "message.type"
_MESSAGE_TYPES: Final = frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"})


async def create_topic(call: Call, request: m.CreateTopic) -> Reply:
    """Serve update and create topic."""
    topic = await call.shared.cluster.topic(request.topic) if _ALLOWED.fullmatch(request.topic) else None
    before = {} if topic is None else call.shared.settings.topic(topic).attributes
    said = m.TopicConfig(
        topic_name=request.topic,
        read_queue_nums=request.read_queue_nums,
        write_queue_nums=request.write_queue_nums,
        perm=request.perm,
        topic_filter_type=request.topic_filter_type,
        topic_sys_flag=request.topic_sys_flag or 0,
        order=request.order,
        attributes=_changed(before, request.attributes or ""),
    )
    _check(said)
    await _set(call, said)
    return Reply()


async def create_topics(call: Call, request: m.NoFields) -> Reply:
    """Serve update and create topic list. All topics are checked before any is created."""
    del request
    asked = await read_large(call.shared.background, m.TopicConfigList, call.asked.body)
    said = [replace(each, attributes=_changed({}, _as_text(each.attributes))) for each in asked.topic_config_list]
    for each in said:
        _check(each)
    async for each in call.shared.turns.through(said, _STEPS_OF_A_TOPIC):
        await _set(call, each)
    return Reply()


def _check(said: m.TopicConfig) -> None:
    """Raises Refused for invalid settings of a topic."""
    name = said.topic_name
    if not _ALLOWED.fullmatch(name):
        raise Refused(
            Code.INVALID_PARAMETER,
            "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        )
    if name in _SYSTEM:
        raise Refused(Code.INVALID_PARAMETER, f"The topic[{name}] is conflict with system topic.")
    if is_hidden(log_name(name)):
        raise Refused(Code.NO_PERMISSION, f"topic[{name}] is the node's own")
    if min(said.read_queue_nums, said.write_queue_nums) < 0 or not max(said.read_queue_nums, said.write_queue_nums):
        raise Refused(
            Code.INVALID_PARAMETER,
            f"a topic of {said.read_queue_nums} queues to read (readQueueNums) and {said.write_queue_nums} to write "
            "(writeQueueNums)",
        )
    if said.perm not in _PERMS:
        raise Refused(
            Code.INVALID_PARAMETER, f"perm is {said.perm}: 2 lets a topic be written, 4 be read, 6 both, 0 neither"
        )


async def _set(call: Call, said: m.TopicConfig) -> None:
    shared, most = call.shared, max(said.read_queue_nums, said.write_queue_nums)
    topic = await shared.cluster.ensure(said.topic_name, most)
    if topic.partitions < most:
        await shared.enode.add_partitions(topic.name, most)
        topic = await shared.cluster.known(said.topic_name)
    await shared.settings.set_topic(topic, said)


def _as_text(attributes: dict[str, str]) -> str:
    return ",".join(f"{name if name[:1] in ('+', '-') else f'+{name}'}={value}" for name, value in attributes.items())


def _changed(before: dict[str, str], said: str) -> dict[str, str]:
    """Attributes after changes written as ``+name=value,-name``. Raises Refused."""
    found = dict(before)
    for each in filter(None, (part.strip() for part in said.split(","))):
        name, _, value = each[1:].partition("=")
        if each[0] == "+":
            _check_attribute(name, value)
            found[name] = value
        elif each[0] == "-":
            found.pop(name, None)
        else:
            raise Refused(Code.INVALID_PARAMETER, f"attributes has {each!r}: write +name=value, or -name")
    return found


def _check_attribute(name: str, value: str) -> None:
    if name != _MESSAGE_TYPE:
        raise Refused(Code.INVALID_PARAMETER, f"the attribute {name} of topics is not served here, {_MESSAGE_TYPE} is")
    if value.upper() not in _MESSAGE_TYPES:
        raise Refused(
            Code.INVALID_PARAMETER, f"{_MESSAGE_TYPE} is {value!r}: there is {', '.join(sorted(_MESSAGE_TYPES))}"
        )


async def delete_topic(call: Call, request: m.OfTopic) -> Reply:
    """Serve delete topic in broker; deleting an unknown topic is no error."""
    if request.topic in _SYSTEM:
        raise Refused(Code.INVALID_PARAMETER, f"The topic[{request.topic}] is conflict with system topic.")
    if is_hidden(log_name(request.topic)):
        raise Refused(Code.NO_PERMISSION, f"topic[{request.topic}] is the node's own")
    topic = await call.shared.cluster.topic(request.topic)
    if topic is not None:
        await call.shared.enode.delete_topic(topic.name)
        await call.shared.settings.forget_topic(topic)
    return Reply()


async def forget_topic(call: Call, request: m.OfTopic) -> Reply:
    """Serve delete topic in name server. The name server is the broker, so it cannot forget a topic that still exists.

    Raises Refused for such a topic.
    """
    if await call.shared.cluster.topic(request.topic) is not None:
        raise Refused(
            Code.SYSTEM_ERROR,
            f"topic[{request.topic}] is still at the broker, which is the name server, too: delete it there (215)",
        )
    return Reply()


async def topic_stats(call: Call, request: m.OfTopic) -> Reply:
    """Serve get topic stats info."""
    shared = call.shared
    topic = await shared.cluster.known(request.topic)
    partitions = [Partition(topic.name, number) for number in range(shared.settings.queues(topic).most)]
    found = {}
    extents = await shared.enode.extents(partitions)
    async for partition, where in shared.turns.through(list(zip(partitions, extents, strict=True)), _STEPS_OF_STATS):
        if isinstance(where, PenstockError):
            raise where
        queue = m.MessageQueue(topic=request.topic, broker_name=shared.cluster.broker, queue_id=partition.id)
        found[queue] = m.OffsetsOfQueue(
            min_offset=where.start,
            max_offset=where.stable,
            last_update_timestamp=await _last_ms(call, partition, where),
        )
    return Reply(body=await written(shared.background, m.TopicStats(offset_table=found), len(found)))


async def _last_ms(call: Call, partition: Partition, where: Extent) -> int:
    if where.start >= where.stable:
        return 0
    newest = await call.shared.enode.max_timestamp(partition)
    return 0 if newest is None else newest[1]


# Settings of the broker, the name server and topics (21, 25, 26, 28, 205, 304, 305, 319, 327, 351). Source: Apache
# RocketMQ 4.9 and 5.x, ``AdminBrokerProcessor``, ``DefaultRequestProcessor``.
_PERM: Final = "brokerPermission"
_PERM_OF_TEXT: Final = {str(perm): perm for perm in (0, 2, 4, 6)}


async def broker_runtime(call: Call, request: m.NoFields) -> Reply:
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


async def broker_config(call: Call, request: m.NoFields) -> Reply:
    """Serve get broker config, as a property file."""
    del request
    return Reply(body="".join(f"{name}={value}\n" for name, value in _config(call).items()).encode())


async def set_broker_config(call: Call, request: m.NoFields) -> Reply:
    """Serve update broker config. Nothing is changed if one of the settings cannot be. Raises Refused."""
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
        if said[_PERM] not in _PERM_OF_TEXT:
            raise Refused(
                Code.INVALID_PARAMETER,
                f"{_PERM} is {said[_PERM][:100]!r}: 2 lets the broker be written, 4 be read, 6 both, 0 neither",
            )
        await call.shared.settings.set_perm(_PERM_OF_TEXT[said[_PERM]])
    return Reply()


async def name_server_config(call: Call, request: m.NoFields) -> Reply:
    """Serve get name server config; none of it can be changed."""
    del request
    port = call.shared.cluster.host.port
    return Reply(body=f"listenPort={port}\nclusterTest=false\norderMessageEnable=false\n".encode())


async def wipe_write_perm(call: Call, request: m.OfBroker) -> Reply:
    """Serve wipe write perm of broker: routes report the broker as not writable until that is reversed."""
    return Reply(m.WipedTopics(wipe_topic_count=await _wipe(call, request, wiped=True)))


async def add_write_perm(call: Call, request: m.OfBroker) -> Reply:
    """Serve add write perm of broker."""
    return Reply(m.AddedTopics(add_topic_count=await _wipe(call, request, wiped=False)))


async def _wipe(call: Call, request: m.OfBroker, *, wiped: bool) -> int:
    """The number of affected topics; 0 for an unknown broker, as at name servers."""
    shared = call.shared
    if request.broker_name != shared.cluster.broker:
        return 0
    await shared.settings.wipe(wiped=wiped)
    return len(await shared.cluster.topics())


async def name_server_topics(call: Call, request: m.NoFields) -> Reply:
    """Serve get system topic list from name server: names of clusters and brokers, and the address of a broker."""
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
    return Reply(body=await written(shared.background, found, len(table)))


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
    """The names and values of a property file."""
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.partition("=") for line in lines if line and line[0] not in "#!"]
    return {name.strip(): value.strip() for name, _, value in pairs}


# The name server: routes, brokers and topics (105, 106, 206, 224).
#
# Source: Apache RocketMQ 4.9 and 5.x, ``ClientRequestProcessor``, ``DefaultRequestProcessor``. Old clients get JSON
# whose keys are numbers without quotes, as their servers write it.
_STANDARD_JSON_FROM: Final = 401
_INHERIT: Final = int(m.Perm.INHERIT)
_EVERYTHING: Final = int(m.Perm.READ | m.Perm.WRITE | m.Perm.INHERIT)
_MASTER: Final = 0
_REPLIES: Final = "_REPLY_TOPIC"
"""Suffix of the topic of replies. Replies are pushed to clients and not stored."""


async def topic_route(call: Call, request: m.GetRoute) -> Reply:
    """Serve get route info: all queues are at the one broker."""
    shared = call.shared
    if request.topic == TEMPLATE and shared.options.auto_create_topics:
        queues = shared.options.template_queues
        said = m.TopicConfig(topic_name=TEMPLATE, read_queue_nums=queues, write_queue_nums=queues, perm=_EVERYTHING)
    elif request.topic == f"{shared.cluster.name}{_REPLIES}":
        said = m.TopicConfig(topic_name=request.topic, read_queue_nums=1, write_queue_nums=1)
    else:
        topic = await shared.cluster.topic(request.topic)
        if topic is None:
            raise Refused(Code.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {request.topic}")
        said = shared.settings.topic(topic)
    queue_data = m.QueueData(
        broker_name=shared.cluster.broker,
        read_queue_nums=said.read_queue_nums,
        write_queue_nums=said.write_queue_nums,
        perm=said.perm & (shared.settings.route_perm | _INHERIT),
        topic_sys_flag=said.topic_sys_flag,
    )
    found = m.Route(broker_datas=(_broker(shared),), queue_datas=(queue_data,))
    standard = call.asked.version >= _STANDARD_JSON_FROM or bool(request.accept_standard_json_only)
    return Reply(body=m.write_body(found, bare_numbers=not standard))


async def cluster_brokers(call: Call, request: m.NoFields) -> Reply:
    """Serve get broker cluster info."""
    del request
    cluster = call.shared.cluster
    snodes = info([own(call.shared), *call.shared.snodes.all])
    found = m.ClusterInfo(
        broker_addr_table={cluster.broker: _broker(call.shared)},
        cluster_addr_table={cluster.name: (cluster.broker,)},
        snode_table=snodes.snode_table,
        snode_cluster=snodes.snode_cluster,
    )
    return Reply(body=m.write_body(found, bare_numbers=True))


async def all_topics(call: Call, request: m.NoFields) -> Reply:
    """Serve get all topics."""
    del request
    return Reply(body=m.TopicList(topic_list=tuple(await call.shared.cluster.names())))


async def topics_of_cluster(call: Call, request: m.OfCluster) -> Reply:
    """Serve get topics by cluster."""
    cluster = call.shared.cluster
    names = await cluster.names() if request.cluster == cluster.name else []
    return Reply(body=m.TopicList(topic_list=tuple(names)))


def _broker(shared: Shared) -> m.BrokerData:
    cluster = shared.cluster
    return m.BrokerData(
        cluster=cluster.name,
        broker_name=cluster.broker,
        broker_addrs={_MASTER: cluster.address},
        enable_acting_master=False,
    )


# The name server's key-value settings, by namespace and key (100, 101, 102, 219).
#
# The node does not read them; clients and tools do (``ORDER_TOPIC_CONFIG``). A namespace exists while it has a key.
# Source: Apache RocketMQ 4.9 and 5.x, ``DefaultRequestProcessor``, ``KVConfigManager``.
_KV: Final = "kv"
_MOST_VALUES: Final = 10_000
_LONGEST_VALUE: Final = 16_384


async def put_value(call: Call, request: m.PutKv) -> Reply:
    """Serve put KV config."""
    ledger, name = call.shared.ledger, _name(request.namespace, request.key)
    length = len(name) + len(request.value)
    if length > _LONGEST_VALUE:
        raise Refused(
            Code.SYSTEM_ERROR, f"a value of {length} letters with its names, the longest has {_LONGEST_VALUE}"
        )
    if ledger.get(_KV, name) is None and sum(1 for _ in ledger.all(_KV)) >= _MOST_VALUES:
        raise Refused(Code.SYSTEM_ERROR, f"{_MOST_VALUES} values are kept, and no more are taken: delete some (102)")
    await ledger.put(_KV, name, request.value)
    return Reply()


async def get_value(call: Call, request: m.OfKv) -> Reply:
    """Serve get KV config."""
    value = call.shared.ledger.get(_KV, _name(request.namespace, request.key))
    if value is None:
        raise _unknown(f"Namespace: {request.namespace} Key: {request.key}")
    return Reply(m.KvValue(value=value))


async def delete_value(call: Call, request: m.OfKv) -> Reply:
    """Serve delete KV config; deleting an unknown key is no error."""
    ledger, name = call.shared.ledger, _name(request.namespace, request.key)
    if ledger.get(_KV, name) is not None:
        await ledger.put(_KV, name, None)
    return Reply()


async def list_values(call: Call, request: m.OfNamespace) -> Reply:
    """Serve get KV list by namespace."""
    every = ((json.loads(name), value) for name, value in call.shared.ledger.all(_KV))
    found = {key: value for (namespace, key), value in every if namespace == request.namespace}
    if not found:
        raise _unknown(f"Namespace: {request.namespace}")
    return Reply(body=m.Table(table=found))


def _name(namespace: str, key: str) -> str:
    return json.dumps([namespace, key], ensure_ascii=False)


def _unknown(what: str) -> Refused:
    return Refused(Code.QUERY_NOT_FOUND, f"No config item, {what}")


# Snodes at the name server (350, 353, 354), and a group's retry topic, which Snodes' clients ask for (355).
#
# The first Snode's own name server answered 350 as unknown, and looked 354 up by the wrong key. Source: the Snode of
# 2018 and 2019, ``DefaultRequestProcessor``, ``ConsumerManageProcessor``.
async def register_snode(call: OfConnected, request: m.RegisterSnode) -> Reply:
    """Serve register snode."""
    call.shared.snodes.register(call.line, request, call.shared.now)
    return Reply()


async def known_snodes(call: OfConnected, request: m.NoFields) -> Reply:
    """Serve get snode cluster info."""
    del request
    return Reply(body=info([own(call.shared), *call.shared.snodes.all]))


async def snodes_of_cluster(call: OfConnected, request: m.OfSnodeCluster) -> Reply:
    """Serve get snode info."""
    return Reply(body=info([own(call.shared), *call.shared.snodes.all], request.snode_cluster_name))


async def create_retry_topic(call: Call, request: m.CreateRetryTopic) -> Reply:
    """Serve create retry topic."""
    await call.shared.cluster.ensure(f"{RETRY}{group_of(request)}", 1)
    return Reply()


def group_of(request: m.CreateRetryTopic) -> str:
    """The group whose retry topic is asked for. Raises Refused."""
    group = request.group_name or request.consumer_group
    if not group:
        raise Refused(Code.SYSTEM_ERROR, "the request names no group (groupName)")
    return named(group)
