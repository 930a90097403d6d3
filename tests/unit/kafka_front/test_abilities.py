"""Over a log that lacks something Kafka clients are not told that it can be done, or get Kafka's own error."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.errors import CorruptBatch, PenstockError, StoreError, Unsupported, UpstreamLost
from penstock.interfaces.enode import Abilities
from penstock.protocols.kafka.errors import ErrorCode, row
from penstock.protocols.kafka.server.refusals import code_of
from penstock.protocols.kafka.wire.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from penstock.protocols.kafka.wire.fetch import FetchRequestPartition, FetchRequestTopic
from penstock.protocols.kafka.wire.metadata import (
    ApiVersionsRequest,
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    MetadataRequest,
    MetadataRequestTopic,
)
from penstock.protocols.kafka.wire.produce import InitProducerIdRequest
from penstock.store.errors import StoreDamaged
from tests.unit.kafka_front.kit import Kit, batch, run
from tests.unit.kafka_front.test_fetch import asking, fetch
from tests.unit.kafka_front.transaction_kit import latest

NAMES = list(Abilities.__struct_fields__)
GONE = {
    "sequences": {61},
    "numbered": {22},
    "transactions": {24, 25, 26, 27, 28, 65, 66},
    "epochs": {23},
    "deletion": {21},
    "topics": {19, 20, 37},
    "options": {33, 44},
    "sizes": {34, 35},
}
"""API keys that are not advertised without an ability."""


async def keys_of(kit: Kit) -> set[int]:
    answer = await kit.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
    return {row.api_key for row in answer.api_keys}


@pytest.mark.parametrize("missing", NAMES)
def test_what_the_log_cannot_do_is_not_advertised(missing: str) -> None:
    everything: set[int] = set()

    async def whole(kit: Kit) -> None:
        everything.update(await keys_of(kit))

    async def lacking(kit: Kit) -> None:
        assert everything - await keys_of(kit) == GONE.get(missing, set())
        answer = await kit.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
        found = {each.name for each in answer.finalized_features}
        assert ("transaction.version" in found) == (missing != "transactions")

    run(whole)
    run(lacking, able=Abilities(**{missing: False}))


async def numbered(kit: Kit) -> None:
    with_numbers = await kit.produce("t", batch(producer=(7, 0, 0)))
    assert with_numbers.error_code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


async def transactions(kit: Kit) -> None:
    plain = await kit.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000), 4)
    assert plain.error_code == ErrorCode.NONE
    named = await kit.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1_000), 4)
    assert named.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def epochs(kit: Kit) -> None:
    part = FetchRequestPartition(
        partition=0, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=5, last_fetched_epoch=5
    )
    (found,) = await fetch(kit, asking(topics=[FetchRequestTopic(topic="t", partitions=[part])]))
    assert (found.error_code, bool(found.records)) == (0, True)


async def compaction(kit: Kit) -> None:
    wanted = AlterConfigsRequestConfig(name="cleanup.policy", value="compact")
    resource = AlterConfigsRequestResource(resource_type=2, resource_name="t", configs=[wanted])
    answer = await kit.ask(AlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == ErrorCode.INVALID_CONFIG


async def times(kit: Kit) -> None:
    for timestamp in (5, -3):
        part = ListOffsetsRequestPartition(partition_index=0, timestamp=timestamp)
        topic = ListOffsetsRequestTopic(name="t", partitions=[part])
        answer = await kit.ask(ListOffsetsRequest(topics=[topic]), 7)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert await latest(kit, "t") == 1


async def topics(kit: Kit) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
    answer = await kit.ask(asked, 9)
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def sizes(kit: Kit) -> None:
    resource = DescribeConfigsRequestResource(resource_type=4, resource_name="1", configuration_keys=None)
    answer = await kit.ask(DescribeConfigsRequest(resources=[resource]), 4)
    assert answer.results[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("check", [numbered, transactions, epochs, compaction, times, topics, sizes])
def test_who_asks_for_it_all_the_same_gets_kafkas_own_error(
    check: Callable[[Kit], Coroutine[Any, Any, None]],
) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        assert (await kit.produce("t", batch())).error_code == 0
        await check(kit)
        (found,) = await fetch(kit, asking(0))
        assert found.high_watermark == 1

    run(test, able=Abilities(**{check.__name__: False}))


@pytest.mark.parametrize(
    ("error", "code", "again"),
    [
        (UpstreamLost("no answer"), ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (StoreError("no space left"), ErrorCode.KAFKA_STORAGE_ERROR, True),
        (StoreDamaged("a bit", file="f", position=1), ErrorCode.KAFKA_STORAGE_ERROR, True),
        (Unsupported("no times"), ErrorCode.UNSUPPORTED_VERSION, False),
        (CorruptBatch("checksum"), ErrorCode.CORRUPT_MESSAGE, True),
    ],
)
def test_clients_try_again_on_what_may_pass(error: PenstockError, code: ErrorCode, again: bool) -> None:
    assert code_of(error) is code
    assert row(code).retriable is again


def test_while_the_cluster_behind_is_lost_clients_are_told_to_try_again() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)

        async def lost(call: str) -> None:
            if call != "append_all":  # which says so of each batch
                raise UpstreamLost("the cluster does not answer")

        kit.enode.before = lost
        assert (await kit.produce("t", batch())).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer = await kit.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)
        assert answer.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE

    run(test)
