"""Topics: made, grown, closed, deleted in two steps, and shown; and how long their data is kept."""

from __future__ import annotations

import itertools
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from penstock.concurrency.runtime import retry_while_unreachable
from penstock.errors import PenstockError, TopicExists, UpstreamLost
from penstock.interfaces.enode import TopicState
from penstock.protocols.tubemq.errors import Code, Refused, refusal
from penstock.protocols.tubemq.server.context import Shared
from penstock.protocols.tubemq.server.settings import UNSET, Steps
from penstock.protocols.tubemq.server.web_api.access_control import max_message_bytes
from penstock.protocols.tubemq.server.web_api.routes import (
    CONDITION,
    EXISTS,
    UNKNOWN,
    AdminCall,
    Answer,
    Parameters,
    from_master,
    item,
)
from penstock.protocols.tubemq.wire.strings import STORE_BASE

__all__ = [
    "add",
    "delete",
    "policy_of",
    "query",
    "query_brokers",
    "query_by_broker",
    "query_by_topic",
    "query_configured",
    "query_deployed",
    "query_names",
    "query_view",
    "remove",
    "restore",
    "retention_of",
    "update",
]

# How long data is kept: TubeMQ's policy (``delete,168h``) and the topic option that says the same.
_POLICY: Final = re.compile(r"delete,([0-9]{1,7})([hms]?)")
_MS: Final = {"": 3_600_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_DEFAULT_MS: Final = 7 * 24 * 3_600_000
_OPTION: Final = "retention.ms"


def retention_of(policy: str) -> dict[str, str]:
    """The topic options that a policy means; none for an empty one. Raises Refused (BAD_REQUEST)."""
    if not policy:
        return {}
    found = _POLICY.fullmatch(policy.replace(" ", ""))
    if found is None or not int(found[1]):
        raise Refused(Code.BAD_REQUEST, f"Parameter deletePolicy is {policy[:80]!r}, wanted is delete,<number>[h|m|s]")
    return {_OPTION: str(int(found[1]) * _MS[found[2]])}


def policy_of(config: Mapping[str, str]) -> str:
    """The policy of a topic with these options; without a limit it is the longest that can be said."""
    ms = int(config.get(_OPTION, _DEFAULT_MS))
    if ms < 0:
        return "delete,9999999h"
    for unit in "hms":
        if ms % _MS[unit] == 0:
            return f"delete,{ms // _MS[unit]}{unit}"
    return f"delete,{max(1, ms // 1_000)}s"


# Topics: made, grown, closed, deleted in two steps, and shown.
#
# A deployment here is the whole topic: numTopicStores stores of numPartitions partitions each (`Shape`). Deleting, as
# there, needs a topic that is closed for writing and reading; it then only hides it; removing takes the data away.
_MB: Final = 1 << 20


async def add(call: AdminCall) -> Answer:
    """Serve admin_add_topic_deploy_info: make topics."""
    _check_able(call, "topics")
    given = call.parameters
    topics = given.new_topics()
    given.text("brokerId")
    given.user("createUser")
    stores, partitions = _size(call, 1, 1)
    config = retention_of(given.optional("deletePolicy"))

    async def make(name: str) -> None:
        exists = Refused(EXISTS, f"Existed record found for brokerId-topicName({_broker(call)}:{name})!")
        if await call.shared.enode.topic(name) is not None:
            raise exists
        try:
            await _make(call, name, stores * partitions, config)
        except TopicExists as error:
            # Another client was quicker; or it is one whose name differs only in "." and "_".
            raise error if await call.shared.enode.topic(name) is None else exists from error
        _shape(call.shared, name, ((stores, partitions),) if partitions > 1 else ())
        _open(call.shared, name, given)

    return await _each(call, topics, make)


async def update(call: AdminCall) -> Answer:
    """Serve admin_update_topic_deploy_info: open, close, keep for another time, add partitions."""
    given = call.parameters
    given.user("modifyUser")
    config = retention_of(given.optional("deletePolicy"))

    async def change(name: str) -> None:
        async with call.shared.services.locks.held(("config", name)):
            await change_alone(name)

    async def change_alone(name: str) -> None:
        topic = await _known(call, name)
        before = call.shared.cluster.shape(topic)
        stores, partitions = _size(call, before.stores, before.partitions)
        if stores < before.stores or partitions < before.partitions:
            size = f"{before.stores} stores of {before.partitions} partitions"
            raise Refused(Code.BAD_REQUEST, f"topic {name} has {size}, and keeps them")
        if config:
            _check_able(call, "options")
            await call.shared.enode.set_config(name, {**topic.config, **config})
        if stores * partitions > topic.partitions:
            _check_able(call, "topics")
            await _grow(call, name, stores * partitions)
        if partitions > 1:
            # What anybody added until now keeps the ids that it has.
            now = (before.stores, before.partitions)
            steps = [*call.shared.settings.topic(name).shapes, now, (stores, partitions)]
            _shape(call.shared, name, tuple(step for step, _ in itertools.groupby(steps)))
        _open(call.shared, name, given)

    return await _each(call, given.names("topicName", required=True), change)


async def delete(call: AdminCall) -> Answer:
    """Serve admin_delete_topic_info: hide closed topics; their data stays."""
    call.parameters.user("modifyUser")

    async def hide(name: str) -> None:
        await _check_closed(call, name)
        settings = call.shared.settings
        settings.set_topic(name, replace(settings.topic(name), deleted=True))

    return await _each(call, call.parameters.names("topicName", required=True), hide)


async def restore(call: AdminCall) -> Answer:
    """Serve admin_redo_deleted_topic_info: show deleted topics again, closed as they were."""
    call.parameters.user("modifyUser")

    async def show(name: str) -> None:
        await _known(call, name)
        settings = call.shared.settings
        settings.set_topic(name, replace(settings.topic(name), deleted=False))

    return await _each(call, call.parameters.names("topicName", required=True), show)


async def remove(call: AdminCall) -> Answer:
    """Serve admin_remove_topic_info: take closed topics away, with everything in them."""
    call.parameters.user("modifyUser")

    async def take_away(name: str) -> None:
        _check_able(call, "topics")
        await _check_closed(call, name)
        await _delete(call, name)
        call.shared.settings.forget_topic(name)
        # Retried: the same call again would only find that there is no such topic.
        await retry_while_unreachable(call.shared.services.runtime, lambda: _forget_offsets(call, name))

    return await _each(call, call.parameters.names("topicName", required=True), take_away)


async def query(call: AdminCall) -> Answer:
    """Serve admin_query_topic_info."""
    return from_master([_described(call, topic) for topic in await _chosen(call)])


async def query_view(call: AdminCall) -> Answer:
    """Serve admin_query_cluster_topic_view: each topic's sums over all brokers, of which there is one."""
    return from_master(
        [
            {
                "topicName": topic.name,
                "totalCfgBrokerCnt": 1,
                "totalCfgNumStore": shape.stores,
                "totalRunNumStore": shape.stores,
                "totalCfgNumPart": len(shape.ids),
                "totalRunNumPartCount": len(shape.ids),
                "isSrvAcceptPublish": call.shared.settings.accepts_publish(topic.name),
                "isSrvAcceptSubscribe": call.shared.settings.accepts_subscribe(topic.name),
                "enableAuthControl": call.shared.settings.topic(topic.name).controlled,
            }
            for topic in await _chosen(call)
            for shape in [call.shared.cluster.shape(topic)]
        ]
    )


async def query_by_topic(call: AdminCall) -> Answer:
    """Serve admin_query_topic_broker_config_info: the same, and what of it can be written and read."""
    settings = call.shared.settings
    return from_master(
        [
            {
                "topicName": topic.name,
                **{f"{what}TotalCfgCnt": count for what, count in _sizes(call, topic).items()},
                **{f"{what}TotalRunCnt": count * (publish or subscribe) for what, count in _sizes(call, topic).items()},
                **{f"{what}AccPubTotalCnt": count * publish for what, count in _sizes(call, topic).items()},
                **{f"{what}AccSubTotalCnt": count * subscribe for what, count in _sizes(call, topic).items()},
                "topicSrvAccPubStatus": publish,
                "topicSrvAccSubStatus": subscribe,
                "enableAuthControl": settings.topic(topic.name).controlled,
            }
            for topic in await _chosen(call)
            for publish in [settings.accepts_publish(topic.name)]
            for subscribe in [settings.accepts_subscribe(topic.name)]
        ]
    )


def _sizes(call: AdminCall, topic: TopicState) -> dict[str, int]:
    shape = call.shared.cluster.shape(topic)
    return {"broker": 1, "store": shape.stores, "part": len(shape.ids)}


async def query_by_broker(call: AdminCall) -> Answer:
    """Serve admin_query_broker_topic_config_info: the sums over the topics of the broker."""
    topics, settings, node = await _chosen(call), call.shared.settings, call.shared.cluster.node
    if not topics and not _is_asked_for(call):
        return from_master([])
    shapes = {topic.name: call.shared.cluster.shape(topic) for topic in topics}
    row: dict[str, Any] = {
        "brokerId": _broker(call),
        "brokerIp": node.endpoint.host,
        "brokerPort": node.endpoint.port,
        "manageStatus": "online",
        "acceptPublish": settings.broker.accepts_publish,
        "acceptSubscribe": settings.broker.accepts_subscribe,
        "nodeRunInfo": "running",
    }
    written = [topic for topic in topics if settings.accepts_publish(topic.name)]
    read = [topic for topic in topics if settings.accepts_subscribe(topic.name)]
    for title, chosen in (("TotalCfgCnt", topics), ("AccPubTotalCnt", written), ("AccSubTotalCnt", read)):
        row[f"topic{title}"] = len(chosen)
        row[f"store{title}"] = sum(shapes[topic.name].stores for topic in chosen)
        row[f"part{title}"] = sum(len(shapes[topic.name].ids) for topic in chosen)
    return from_master([row])


async def query_brokers(call: AdminCall) -> Answer:
    """Serve admin_query_deployed_broker_ids: where topics are."""
    broker: Any = _broker(call)
    if call.parameters.flag("withIp"):
        broker = {"brokerId": broker, "brokerIp": call.shared.cluster.node.endpoint.host}
    return from_master(
        [{"topicName": topic.name, "brokerInfo": [broker], "brokerCnt": 1} for topic in await _chosen(call)]
    )


async def query_configured(call: AdminCall) -> Answer:
    """Serve admin_query_topic_deploy_configure: one row for each topic and broker."""
    return from_master([_described(call, topic)["topicInfo"][0] for topic in await _chosen(call)])


async def query_deployed(call: AdminCall) -> Answer:
    """Serve admin_query_topic_deploy_info: the same under other names."""
    rows = []
    for topic in await _chosen(call):
        row = _described(call, topic)
        row["deployInfo"] = row.pop("topicInfo")
        row["topicNameId"] = call.shared.settings.topic(topic.name).name_id
        row["enableAuthControl"] = call.shared.settings.topic(topic.name).controlled
        rows.append(row)
    return from_master(rows)


async def query_names(call: AdminCall) -> Answer:
    """Serve admin_query_deployed_topics."""
    if not _is_asked_for(call):
        return from_master([])
    names = [topic.name for topic in await call.shared.cluster.topics()]
    return from_master([{"brokerId": _broker(call), "topicName": names, "topicCount": len(names)}])


# Parts.


async def _make(call: AdminCall, name: str, partitions: int, config: Mapping[str, str]) -> None:
    """It was not there just now: where the answer is lost, and it is there, it was made."""
    enode = call.shared.enode
    try:
        await enode.create_topic(name, partitions, config)
    except UpstreamLost:
        made = await retry_while_unreachable(call.shared.services.runtime, lambda: enode.topic(name))
        if made is None or made.partitions != partitions:
            raise


async def _grow(call: AdminCall, name: str, partitions: int) -> None:
    """There were fewer just now: where the answer is lost, and all are there, they were added. Their shape is still to
    be noted: a second call would find other stores than there were."""
    enode = call.shared.enode
    try:
        await enode.add_partitions(name, partitions)
    except UpstreamLost:
        grown = await retry_while_unreachable(call.shared.services.runtime, lambda: enode.topic(name))
        if grown is None or grown.partitions != partitions:
            raise


async def _delete(call: AdminCall, name: str) -> None:
    """It was there just now: where the answer is lost, and it is gone, it was deleted."""
    enode = call.shared.enode
    try:
        await enode.delete_topic(name)
    except UpstreamLost:
        if await retry_while_unreachable(call.shared.services.runtime, lambda: enode.topic(name)) is not None:
            raise


async def _forget_offsets(call: AdminCall, topic: str) -> None:
    offsets = call.shared.offsets
    for group in list(await offsets.groups()):
        if any(each.topic == topic for each in await offsets.committed(group)):
            await offsets.forget(group, lambda each, _: each.topic == topic)


async def _each(call: AdminCall, topics: list[str], do: Callable[[str], Awaitable[None]]) -> Answer:
    """Do it for each topic on each broker named (there is one); each says how it went."""
    rows = []
    for broker in call.parameters.names("brokerId") or [str(_broker(call))]:
        for name in topics:
            about: dict[str, Any] = {"brokerId": int(broker) if broker.isdigit() else broker, "topicName": name}
            try:
                if broker != str(_broker(call)):
                    raise Refused(UNKNOWN, f"Not found broker configure record by brokerId={broker}")
                await do(name)
                rows.append(item(**about))
            except PenstockError as error:
                rows.append(item(refusal(error), **about))
    return from_master(rows)


def _broker(call: AdminCall) -> int:
    return call.shared.cluster.broker_id


def _is_asked_for(call: AdminCall) -> bool:
    """Whether a query is about this broker, too."""
    wanted = call.parameters.names("brokerId")
    return not wanted or str(_broker(call)) in wanted


async def _chosen(call: AdminCall) -> list[TopicState]:
    """The topics that a query is about; it may name any of them, and a size or a state that they have."""
    given = call.parameters
    wanted = given.names("topicName")
    deleted = given.number("topicStatusId", UNSET, low=UNSET, high=3)
    stores = given.number("numTopicStores", 0, low=UNSET)
    partitions = given.number("numPartitions", 0, low=UNSET)
    publish, subscribe = given.flag("acceptPublish"), given.flag("acceptSubscribe")
    found = []
    for topic in await call.shared.cluster.topics():
        shape, settings = call.shared.cluster.shape(topic), call.shared.settings.topic(topic.name)
        if (
            (not wanted or topic.name in wanted)
            and deleted in (UNSET, int(settings.deleted))
            and (stores <= 0 or stores == shape.stores)
            and (partitions <= 0 or partitions == shape.partitions)
            and publish in (None, settings.accepts_publish)
            and subscribe in (None, settings.accepts_subscribe)
        ):
            found.append(topic)
    return found if _is_asked_for(call) else []


async def _known(call: AdminCall, name: str) -> TopicState:
    topic = await call.shared.cluster.topic(name)
    if topic is None:
        raise Refused(UNKNOWN, f"Not found topic deploy record by brokerId-topicName({_broker(call)}:{name})!")
    return topic


async def _check_closed(call: AdminCall, name: str) -> None:
    await _known(call, name)
    settings = call.shared.settings.topic(name)
    if settings.accepts_publish or settings.accepts_subscribe:
        raise Refused(
            CONDITION,
            "The values of acceptPublish and acceptSubscribe must be false before change status of "
            f"brokerId-topicName({_broker(call)}:{name}) record!",
        )


def _check_able(call: AdminCall, ability: str) -> None:
    call.shared.enode.abilities.need(ability)


def _size(call: AdminCall, stores: int, partitions: int) -> tuple[int, int]:
    """Stores, and partitions a store, as far as they are given."""
    given: Parameters = call.parameters
    most = call.shared.options.max_partitions
    stores = given.number("numTopicStores", stores, low=1, high=most)
    partitions = given.number("numPartitions", partitions, low=1, high=min(most, STORE_BASE))
    if stores * partitions > most:
        raise Refused(Code.BAD_REQUEST, f"{stores * partitions} partitions; a topic may have {most}")
    return stores, partitions


def _shape(shared: Shared, name: str, steps: Steps) -> None:
    known = shared.settings.topic(name)
    if known.shapes != steps:
        shared.settings.set_topic(name, replace(known, shapes=steps))


def _open(shared: Shared, name: str, given: Parameters) -> None:
    """What a topic's settings are to be: whether it is open, its largest message, its number."""
    publish, subscribe = given.flag("acceptPublish"), given.flag("acceptSubscribe")
    name_id = given.number("topicNameId", UNSET, low=UNSET, high=2**31 - 1)
    known = shared.settings.topic(name)
    changed = replace(
        known,
        max_message_bytes=max_message_bytes(given) or known.max_message_bytes,
        name_id=known.name_id if name_id == UNSET else name_id,
        accepts_publish=known.accepts_publish if publish is None else publish,
        accepts_subscribe=known.accepts_subscribe if subscribe is None else subscribe,
    )
    if changed != known:
        shared.settings.set_topic(name, changed)


def _described(call: AdminCall, topic: TopicState) -> dict[str, Any]:
    settings = call.shared.settings.topic(topic.name)
    node, shape = call.shared.cluster.node, call.shared.cluster.shape(topic)
    run = {
        "acceptPublish": settings.accepts_publish,
        "acceptSubscribe": settings.accepts_subscribe,
        "numPartitions": shape.partitions,
        "numTopicStores": shape.stores,
        "brokerManageStatus": "online",
    }
    deployed = {
        "topicName": topic.name,
        "brokerId": _broker(call),
        "topicNameId": settings.name_id,
        "brokerIp": node.endpoint.host,
        "brokerPort": node.endpoint.port,
        "topicStatusId": int(settings.deleted),
        "numTopicStores": shape.stores,
        "numPartitions": shape.partitions,
        "acceptPublish": settings.accepts_publish,
        "acceptSubscribe": settings.accepts_subscribe,
        "deletePolicy": policy_of(topic.config),
        "dataVersionId": UNSET,
        "runInfo": run,
    }
    limit = settings.max_message_bytes or call.shared.settings.limits.max_message_bytes
    return {
        "topicName": topic.name,
        "maxMsgSizeInMB": limit // _MB,
        "topicInfo": [deployed],
        "infoCount": 1,
        "totalCfgNumPart": len(shape.ids),
        "isSrvAcceptPublish": call.shared.settings.accepts_publish(topic.name),
        "isSrvAcceptSubscribe": call.shared.settings.accepts_subscribe(topic.name),
        "totalRunNumPartCount": len(shape.ids),
        "authData": {},
    }
