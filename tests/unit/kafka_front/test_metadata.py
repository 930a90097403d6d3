"""Metadata, the cluster, and ids for producers."""

import pytest

from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server.limits import KafkaFrontOptions
from penstock.protocols.kafka.wire.cluster import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsRequestTopic,
)
from penstock.protocols.kafka.wire.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocols.kafka.wire.produce import InitProducerIdRequest
from tests.unit.kafka_front.kit import Kit, run


def topics(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


# Metadata.


def test_who_gives_ids_is_answered_by_ids_whatever_the_names_are() -> None:
    """Java's consumers leave the name empty, not null; what is asked for by name beside ids is not answered."""

    async def test(kit: Kit) -> None:
        topic = kit.store.create_topic("t", 1)
        kit.store.create_topic("other", 1)
        unknown = b"x" * 16
        asked = [MetadataRequestTopic(name=name, topic_id=topic.id) for name in ("", "other")]
        for one in asked:
            wanted = [one, MetadataRequestTopic(name="", topic_id=unknown), *topics("other"), one]
            answer = await kit.ask(MetadataRequest(topics=wanted), 12)
            told = [(each.name, each.topic_id, each.error_code) for each in answer.topics]
            assert told == [("t", topic.id, 0), (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID)]

    run(test)


@pytest.mark.parametrize("version", range(13))
def test_metadata_names_the_node_and_all_topics(version: int) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 2)
        kit.store.create_topic("__consumer_offsets", 1)
        answer = await kit.ask(MetadataRequest(topics=None if version else []), version)
        assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [(1, "127.0.0.1", 9_092)]
        assert [(each.name, len(each.partitions)) for each in answer.topics] == [("__consumer_offsets", 1), ("t", 2)]
        part = answer.topics[1].partitions[1]
        assert (part.leader_id, list(part.replica_nodes), list(part.isr_nodes)) == (1, [1], [1])
        if version >= 1:
            assert answer.controller_id == 1
            assert [each.is_internal for each in answer.topics] == [True, False]

    run(test)


def test_no_topics_asked_for_is_not_all_topics() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        assert not (await kit.ask(MetadataRequest(topics=[]), 1)).topics

    run(test)


def test_a_missing_topic_is_made_where_both_sides_allow_it() -> None:
    async def test(kit: Kit) -> None:
        refused = await kit.ask(MetadataRequest(topics=topics("t"), allow_auto_topic_creation=False), 9)
        assert refused.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        made = await kit.ask(MetadataRequest(topics=topics("t")), 9)
        assert (made.topics[0].error_code, len(made.topics[0].partitions)) == (0, 3)
        for name, code in (("a b", 17), ("..", 17), ("__transaction_state", 3)):
            assert (await kit.ask(MetadataRequest(topics=topics(name)), 9)).topics[0].error_code == code

    run(test, KafkaFrontOptions(default_partitions=3))


def test_a_node_that_makes_no_topics_says_unknown() -> None:
    async def test(kit: Kit) -> None:
        answer = await kit.ask(MetadataRequest(topics=topics("t")), 9)
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(test, KafkaFrontOptions(auto_create_topics=False))


def test_names_that_differ_only_in_dots_collide() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("a.b", 1)
        answer = await kit.ask(MetadataRequest(topics=topics("a_b")), 9)
        assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    run(test)


def test_topics_are_found_by_their_ids() -> None:
    async def test(kit: Kit) -> None:
        topic = kit.store.create_topic("t", 1)
        wanted = [MetadataRequestTopic(name=None, topic_id=each) for each in (topic.id, b"x" * 16)]
        known, unknown = (await kit.ask(MetadataRequest(topics=wanted), 12)).topics
        assert (known.name, known.error_code) == ("t", 0)
        assert (unknown.name, unknown.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)

    run(test)


def test_allowed_operations_are_shown_when_asked_for() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        plain = await kit.ask(MetadataRequest(topics=None), 9)
        assert plain.topics[0].topic_authorized_operations == plain.cluster_authorized_operations == -(1 << 31)
        asked = MetadataRequest(
            topics=None, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
        )
        shown = await kit.ask(asked, 9)
        assert shown.topics[0].topic_authorized_operations & 1 << 4
        assert shown.cluster_authorized_operations & 1 << 5

    run(test)


# The cluster.


def test_the_cluster_is_this_node() -> None:
    async def test(kit: Kit) -> None:
        answer = await kit.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
        assert (answer.cluster_id, answer.controller_id) == (kit.store.cluster_id, 1)
        assert [(each.broker_id, each.port) for each in answer.brokers] == [(1, 9_092)]
        controllers = await kit.ask(DescribeClusterRequest(endpoint_type=2), 1)
        assert controllers.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE

    run(test)


def test_partitions_are_described_page_by_page() -> None:
    async def test(kit: Kit) -> None:
        for name in "cab":
            kit.store.create_topic(name, 3)
        wanted = [DescribeTopicPartitionsRequestTopic(name=name) for name in ("b", "a", "missing")]
        seen: list[tuple[str, int]] = []
        cursor = None
        for _ in range(10):
            request = DescribeTopicPartitionsRequest(topics=wanted, response_partition_limit=2, cursor=cursor)
            answer = await kit.ask(request, 0)
            seen += [(topic.name, part.partition_index) for topic in answer.topics for part in topic.partitions]
            if answer.next_cursor is None:
                break
            at = answer.next_cursor
            cursor = DescribeTopicPartitionsRequestCursor(topic_name=at.topic_name, partition_index=at.partition_index)
        assert seen == [(name, number) for name in "ab" for number in range(3)]
        assert answer.topics[-1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(test)


# Producers.


def test_each_producer_gets_an_id_of_its_own_and_a_transactional_one_keeps_it() -> None:
    async def test(kit: Kit) -> None:
        ids = [(await kit.ask(InitProducerIdRequest(transactional_id=None), 4)).producer_id for _ in range(3)]
        assert len(set(ids)) == 3
        assert all(each >> 32 == kit.store.epoch for each in ids)
        named = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1)
        first, second = await kit.ask(named, 4), await kit.ask(named, 4)
        assert first.producer_id not in ids
        assert (second.producer_id, second.producer_epoch) == (first.producer_id, first.producer_epoch + 1)
        nameless = await kit.ask(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1), 4)
        assert (nameless.error_code, nameless.producer_id) == (42, -1)

    run(test)
