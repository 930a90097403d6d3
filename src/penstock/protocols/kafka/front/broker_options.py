"""Options of the node itself as Kafka clients see them: a broker's, where they mean something here.

Which of them change while the node runs stands in `broker_changes`. Source: Kafka documentation, "Broker Configs" and
"Updating Broker Configs"; the words are those that Apache Kafka 4.3.1 answers with.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.protocols.kafka.front.broker_changes import check_number
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.front.config_values import Kind, Source
from penstock.protocols.kafka.front.described_options import EVERY_BROKER, Described, Said, Synonym, of_the_broker
from penstock.protocols.kafka.front.topic_options import BROKER_NAMES, OPTIONS
from penstock.protocols.kafka.offsets_log import OffsetsLog
from penstock.seams.enode import TopicState

__all__ = ["broker_options"]

_Row = tuple[str, Kind, object, object, str]
"""Name, type, value, Kafka's default (None where it has none), meaning."""


async def broker_options(call: Call, name: str) -> list[Described]:
    """What is in force on the broker of that number; or what was set for all of them at once. Raises Refused."""
    said = await call.shared.enode.node_options()
    if name == EVERY_BROKER:
        return [each for row in _of_topics(call, said) for each in _of_every_broker(row)]
    check_number(call, name, "Broker id must be an integer, but it is", f"{call.shared.node_id} or empty string,")
    sizes = call.shared.enode.abilities.sizes
    folder = (await call.shared.enode.room()).path if sizes else ""
    offsets_topic = await call.shared.enode.topic(OffsetsLog.topic)
    fixed = (
        *_of_the_node(call, folder),
        *_of_groups(call, offsets_topic),
        *_of_transactions(call),
    )
    return sorted([*map(_described, fixed), *_of_topics(call, said)], key=lambda row: row.name)


def _of_every_broker(row: Described) -> Iterator[Described]:
    """The row as it was set for all brokers, if it was."""
    for each in row.synonyms:
        if each.source is Source.DYNAMIC_DEFAULT_BROKER:
            yield row._replace(value=each.value, source=each.source, synonyms=(each,))


def _described(row: _Row) -> Described:
    name, kind, value, default, meaning = row
    text, usual = (str(each).lower() if isinstance(each, bool) else str(each) for each in (value, default))
    synonyms = [] if default is None else [Synonym(name, usual, Source.DEFAULT)]
    if default is None or text != usual:
        synonyms.insert(0, Synonym(name, text, Source.STATIC_BROKER))
    return Described(name, text, kind, synonyms[0].source, tuple(synonyms), meaning, read_only=True)


def _of_the_node(call: Call, folder: str) -> Iterator[_Row]:
    shared, options = call.shared, call.shared.options
    at = f"PLAINTEXT://{shared.advertised}"
    yield "advertised.listeners", Kind.LIST, at, None, "Where clients are told to go."
    yield "auto.create.topics.enable", Kind.BOOLEAN, options.auto_create_topics, True, "A topic asked for is made."
    yield "broker.id", Kind.INT, shared.node_id, -1, "This node's number."
    yield "default.replication.factor", Kind.INT, 1, 1, "Replicas of a topic whose creator does not say."
    yield "delete.topic.enable", Kind.BOOLEAN, True, True, "Whether topics can be deleted."
    yield "fetch.max.bytes", Kind.INT, options.fetch_max_bytes, 57_671_680, "The largest answer to a fetch."
    yield "listeners", Kind.LIST, at, "PLAINTEXT://:9092", "Where the node listens."
    yield "log.dirs", Kind.LIST, folder, None, "Where the logs lie."
    slots = "max.incremental.fetch.session.cache.slots"
    yield slots, Kind.INT, options.fetch_sessions, 1_000, "Fetch sessions that are kept at once."
    yield "node.id", Kind.INT, shared.node_id, None, "This node's number."
    yield "num.partitions", Kind.INT, options.default_partitions, 1, "Partitions of a topic whose creator does not say."
    yield "process.roles", Kind.LIST, "broker,controller", None, "What this node does in its cluster: everything."


def _of_groups(call: Call, topic: TopicState | None) -> Iterator[_Row]:
    options, groups = call.shared.options, call.shared.options.groups
    wait, least = groups.initial_rebalance_delay_ms, groups.min_session_timeout_ms
    protocols = "group.coordinator.rebalance.protocols"
    yield protocols, Kind.LIST, "classic,consumer", "classic,consumer,streams", "The kinds of groups that are served."
    yield from _of_newer_groups(call)
    yield "group.initial.rebalance.delay.ms", Kind.INT, wait, 3_000, "How long a new group waits for more members."
    yield "group.max.session.timeout.ms", Kind.INT, groups.max_session_timeout_ms, 1_800_000, "Of a group's member."
    yield "group.max.size", Kind.INT, groups.max_size, 2**31 - 1, "Members of one group."
    yield "group.min.session.timeout.ms", Kind.INT, least, 6_000, "Of a group's member."
    yield "offset.metadata.max.bytes", Kind.INT, options.offset_metadata_max_bytes, 4_096, "Beside one offset."
    every = options.offsets_check_interval_ms
    yield "offsets.retention.check.interval.ms", Kind.LONG, every, 600_000, "How often old offsets are looked for."
    minutes = options.offsets_retention_ms // 60_000
    yield "offsets.retention.minutes", Kind.INT, minutes, 10_080, "When an empty group's offsets are forgotten."
    if topic is not None:
        yield "offsets.topic.num.partitions", Kind.INT, topic.partitions, 50, "Of the topic with committed offsets."
    yield "offsets.topic.replication.factor", Kind.SHORT, 1, 3, "Of the topic with committed offsets."


def _of_newer_groups(call: Call) -> Iterator[_Row]:
    newer, begins = call.shared.options.newer_groups, "group.consumer"
    session, interval = "When a member counts as gone.", "How often members are to be heard of."
    bound = "Of what can be set for a single group."
    yield f"{begins}.heartbeat.interval.ms", Kind.INT, newer.heartbeat_interval_ms, 5_000, interval
    yield f"{begins}.max.heartbeat.interval.ms", Kind.INT, newer.max_heartbeat_interval_ms, 15_000, bound
    yield f"{begins}.max.session.timeout.ms", Kind.INT, newer.max_session_timeout_ms, 60_000, bound
    policy = "Which way a group with members may go over."
    yield f"{begins}.migration.policy", Kind.STRING, newer.migration_policy, "bidirectional", policy
    yield f"{begins}.min.heartbeat.interval.ms", Kind.INT, newer.min_heartbeat_interval_ms, 5_000, bound
    yield f"{begins}.min.session.timeout.ms", Kind.INT, newer.min_session_timeout_ms, 45_000, bound
    yield f"{begins}.session.timeout.ms", Kind.INT, newer.session_timeout_ms, 45_000, session


def _of_transactions(call: Call) -> Iterator[_Row]:
    options = call.shared.options
    expires, most = options.transactional_id_expiration_ms, options.transaction_max_timeout_ms
    yield "transaction.max.timeout.ms", Kind.INT, most, 900_000, "How long a transaction may be open."
    yield "transaction.state.log.min.isr", Kind.INT, 1, 2, "Of the topic with transactional ids."
    count = options.transaction_partitions
    yield "transaction.state.log.num.partitions", Kind.INT, count, 50, "Of the topic with transactional ids."
    yield "transaction.state.log.replication.factor", Kind.SHORT, 1, 3, "Of the topic with transactional ids."
    yield "transactional.id.expiration.ms", Kind.INT, expires, 604_800_000, "When an unused transactional id goes."


def _of_topics(call: Call, said: Said) -> Iterator[Described]:
    """What topics have that do not say; it can be changed."""
    for name, theirs in BROKER_NAMES.items():
        option = OPTIONS[name]
        synonyms = tuple(of_the_broker(name, call.shared, said))
        meaning = f"Of a topic that does not say. {option.meaning}"
        mine = next((each for each in synonyms if each.name == theirs), None)
        source = Source.DEFAULT if mine is None else mine.source
        yield Described(theirs, mine and mine.value, option.kind, source, synonyms, meaning)
        for other in synonyms:
            if other.name != theirs:  # in another unit, and as the node was started
                yield Described(other.name, other.value, Kind.INT, other.source, (other,), meaning, read_only=True)
