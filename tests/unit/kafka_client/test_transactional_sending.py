"""A transactional sender against a script: which requests in which version, what is asked again, what is final."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import ConnectionLost, FencedError, PenstockError, ProtocolViolation, ServerError
from penstock.model import Codec, Committed, GroupMetadata, Node, Partition, PreparedTransaction
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.client.sender import KafkaPacked
from penstock.protocols.kafka.client.transactions import KafkaTransactionalSender
from penstock.protocols.kafka.wire import produce as wire
from penstock.protocols.kafka.wire.metadata import ApiVersionsResponse, ApiVersionsResponseFinalizedFeature
from penstock.protocols.kafka.wire.offsets import FindCoordinatorResponse, FindCoordinatorResponseCoordinator
from penstock.protocols.kafka.wire.produce import (
    InitProducerIdResponse,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from penstock.records.batch import parse_header
from tests.unit.kafka_client.scripted import ScriptedBroker, Stage, go, metadata, stage

P, Q = Partition("events", 0), Partition("events", 1)


class Cluster(ScriptedBroker):
    """A broker that says how far its transactions have come."""

    level = 0

    def _versions(self) -> ApiVersionsResponse:
        plain = super()._versions()
        feature = ApiVersionsResponseFinalizedFeature(name="transaction.version", max_version_level=self.level)
        return ApiVersionsResponse(api_keys=plain.api_keys, finalized_features=[feature])


@dataclass
class Script:
    """``codes`` by API: what the next requests are answered with, 0 once they are used up."""

    it: Stage
    codes: dict[str, list[int]] = field(default_factory=dict)
    epoch: int = 3

    def code(self, name: str) -> int:
        left = self.codes.get(name)
        return left.pop(0) if left else 0

    def install(self) -> None:
        answers = self.it.broker.answers
        answers["Metadata"] = metadata({1: self.it.endpoint}, {"events": {0: (1, 0), 1: (1, 0)}})
        answers["FindCoordinator"] = self._coordinator
        answers["InitProducerId"] = self._init
        answers["AddPartitionsToTxn"] = self._add
        answers["AddOffsetsToTxn"] = lambda request, version: wire.AddOffsetsToTxnResponse(
            error_code=self.code("AddOffsetsToTxn")
        )
        answers["TxnOffsetCommit"] = self._offsets
        answers["EndTxn"] = self._end
        answers["Produce"] = self._produce

    def _coordinator(self, request: Any, version: int) -> object:
        assert version >= 4
        at = self.it.endpoint
        found = FindCoordinatorResponseCoordinator(
            key=request.coordinator_keys[0], node_id=1, host=at.host, port=at.port, error_code=self.code("Find")
        )
        return FindCoordinatorResponse(coordinators=[found])

    def _init(self, request: Any, version: int) -> object:
        code = self.code("InitProducerId")
        if code:
            return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
        self.epoch += 1
        return InitProducerIdResponse(producer_id=7, producer_epoch=self.epoch)

    def _add(self, request: Any, version: int) -> object:
        assert version <= 3
        code = self.code("AddPartitionsToTxn")
        return wire.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                wire.AddPartitionsToTxnResponseTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        wire.AddPartitionsToTxnResponsePartitionResult(
                            partition_index=each, partition_error_code=55 if code and each else code
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    def _offsets(self, request: Any, version: int) -> object:
        part = wire.TxnOffsetCommitResponsePartition(partition_index=0, error_code=self.code("TxnOffsetCommit"))
        return wire.TxnOffsetCommitResponse(
            topics=[wire.TxnOffsetCommitResponseTopic(name=each.name, partitions=[part]) for each in request.topics]
        )

    def _end(self, request: Any, version: int) -> object:
        code = self.code("EndTxn")
        if version < 5 or code:
            return wire.EndTxnResponse(error_code=code)
        self.epoch = request.producer_epoch + 1
        return wire.EndTxnResponse(producer_id=7, producer_epoch=self.epoch)

    def _produce(self, request: Any, version: int) -> object:
        return ProduceResponse(
            responses=[
                ProduceResponseTopic(
                    name=topic.name,
                    partition_responses=[
                        ProduceResponsePartition(index=part.index, error_code=self.code("Produce"))
                        for part in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    def asked(self) -> list[str]:
        skipped = {"ApiVersions", "Metadata", "FindCoordinator"}
        return [f"{name} v{version}" for name, _, version in self.it.broker.seen if name not in skipped]

    async def send(self, sender: KafkaTransactionalSender, *batches: KafkaPacked) -> list[PenstockError | None]:
        node = self.it.client.leader(P) or Node("1", self.it.endpoint)
        return [each.error for each in await sender.send(node, batches, acks=-1, timeout_s=5)]


@asynccontextmanager
async def begun(level: int, **codes: list[int]) -> AsyncIterator[tuple[Script, KafkaTransactionalSender]]:
    # Patience for what is waited out here however busy the machine is: a topic that nobody knows is one such thing.
    options = KafkaOptions(retry_backoff_ms=1, retry_backoff_max_ms=2, unknown_topic_patience_ms=10_000)
    async with stage(options, Cluster()) as it:
        assert isinstance(it.broker, Cluster)
        it.broker.level = level
        script = Script(it, codes)
        script.install()
        await it.client.topics(["events"])
        sender = it.client.transactional_sender("tx", 60_000)
        await sender.open()
        sender.begin()
        yield script, sender


def pack(sender: KafkaTransactionalSender, partition: Partition = P, *values: bytes) -> KafkaPacked:
    return sender.pack(partition, pa.record_batch({"value": list(values or (b"x",))}), Codec.NONE)


def test_in_the_first_version_partitions_and_groups_are_added_once() -> None:
    async def body() -> None:
        async with begun(1) as (script, sender):
            first, second = pack(sender), pack(sender, Q)
            assert parse_header(first.data).transactional
            assert await script.send(sender, first, second) == [None, None]
            assert await script.send(sender, pack(sender)) == [None]
            for _ in range(2):
                await sender.add_offsets({P: Committed(5)}, GroupMetadata("g", 2, "me", "i"))
            await sender.end(commit=True)
            assert script.asked() == [
                "InitProducerId v5", "AddPartitionsToTxn v3", "Produce v11", "Produce v11",
                "AddOffsetsToTxn v4", "TxnOffsetCommit v4", "TxnOffsetCommit v4", "EndTxn v4",
            ]  # fmt: skip
            offsets = script.it.broker.asked("TxnOffsetCommit")[0]
            assert (offsets.generation_id_or_member_epoch, offsets.member_id, offsets.group_instance_id) == (
                2,
                "me",
                "i",
            )
            assert {each.transactional_id for each in script.it.broker.asked("Produce")} == {"tx"}
            sender.begin()
            following = pack(sender)
            assert (following.identity, following.sequence) == (first.identity, 2)
            assert await script.send(sender, following) == [None]
            assert script.asked()[-2:] == ["AddPartitionsToTxn v3", "Produce v11"]

    go(body())


def test_in_the_second_version_nothing_is_added_and_every_end_brings_an_epoch() -> None:
    async def body() -> None:
        async with begun(2) as (script, sender):
            first = pack(sender)
            assert await script.send(sender, first) == [None]
            await sender.add_offsets({P: Committed(5)}, GroupMetadata("g"))
            await sender.end(commit=True)
            assert script.asked() == ["InitProducerId v5", "Produce v12", "TxnOffsetCommit v5", "EndTxn v5"]
            sender.begin()
            following = pack(sender)
            assert (following.identity.epoch, following.sequence) == (first.identity.epoch + 1, 0)

    go(body())


@pytest.mark.parametrize("level", [1, 2])
def test_a_transaction_of_nothing_needs_no_end(level: int) -> None:
    async def body() -> None:
        async with begun(level) as (script, sender):
            await sender.add_offsets({}, GroupMetadata("g"))
            assert sender.prepared() == PreparedTransaction("tx")
            await sender.end(commit=True)
            await script.it.client.complete(sender.prepared(), commit=True)
            assert script.asked() == ["InitProducerId v5"]

    go(body())


def test_what_passes_is_waited_out() -> None:
    async def body() -> None:
        codes = {"InitProducerId": [51, 14, 16], "AddPartitionsToTxn": [51, 51, 3], "EndTxn": [51, 15]}
        async with begun(1, **codes) as (script, sender):
            assert await script.send(sender, pack(sender), pack(sender, Q)) == [None, None]
            await sender.end(commit=False)
            assert script.asked().count("AddPartitionsToTxn v3") == 4
            assert script.asked().count("InitProducerId v5") == 4
            # It was asked for anew where a code says that the coordinator has moved.
            assert len(script.it.broker.asked("FindCoordinator")) == 3

    go(body())


@pytest.mark.parametrize("level", [1, 2])
def test_after_a_batch_was_given_up_the_next_transaction_has_another_epoch(level: int) -> None:
    async def body() -> None:
        async with begun(level, Produce=[0, 10]) as (script, sender):
            first, bad = pack(sender), pack(sender, Q)
            good, error = await script.send(sender, first, bad)
            assert good is None
            assert error is not None
            assert await sender.recover(bad, error) is None
            assert sender.fatal is None
            await sender.end(commit=False)
            raised = script.asked().count("InitProducerId v5") - 1
            assert raised == (1 if level == 1 else 0)
            if raised:
                again = script.it.broker.asked("InitProducerId")[-1]
                assert (again.producer_id, again.producer_epoch) == (7, first.identity.epoch)
            sender.begin()
            following = pack(sender)
            assert (following.identity.epoch, following.sequence) == (first.identity.epoch + 1, 0)

    go(body())


def test_an_end_goes_on_where_it_was_interrupted() -> None:
    async def body() -> None:
        async with begun(1, Produce=[10], InitProducerId=[0, 42]) as (script, sender):
            bad = pack(sender)
            (error,) = await script.send(sender, bad)
            assert error is not None
            await sender.abandon(bad)
            with pytest.raises(ServerError, match="INVALID_REQUEST"):
                await sender.end(commit=False)
            await sender.end(commit=False)
            assert script.asked().count("EndTxn v4") == 1

    go(body())


def test_retriable_failures_keep_the_bytes_and_their_number() -> None:
    async def body() -> None:
        async with begun(1, Produce=[6, 45]) as (script, sender):
            first, second = pack(sender), pack(sender)
            (moved,) = await script.send(sender, first)
            (overtaken,) = await script.send(sender, second)
            assert moved is not None
            assert overtaken is not None
            assert await sender.recover(first, moved) is first
            assert await sender.recover(second, overtaken) is second
            assert await sender.recover(second, ConnectionLost("gone")) is second
            assert [first.sequence, second.sequence] == [0, 1]

    go(body())


@pytest.mark.parametrize(("code", "fatal"), [(47, False), (48, False), (45, False), (90, True), (53, True)])
def test_what_a_refused_batch_means_for_the_producer(code: int, fatal: bool) -> None:
    async def body() -> None:
        async with begun(2, Produce=[code]) as (script, sender):
            bad = pack(sender)
            (error,) = await script.send(sender, bad)
            assert error is not None
            assert await sender.recover(bad, error) is None
            assert (sender.fatal is error) is fatal
            assert await sender.recover(bad, error) is None

    go(body())


@pytest.mark.parametrize("code", [47, 48, 49, 53, 90])
def test_what_the_coordinator_refuses_for_good_is_final(code: int) -> None:
    async def body() -> None:
        async with begun(1, EndTxn=[code]) as (script, sender):
            assert await script.send(sender, pack(sender)) == [None]
            with pytest.raises(ServerError) as caught:
                await sender.end(commit=True)
            assert sender.fatal is caught.value
            assert isinstance(caught.value, FencedError) is (code in (47, 90))

    go(body())


@pytest.mark.parametrize(("api", "code"), [("TxnOffsetCommit", 22), ("TxnOffsetCommit", 82), ("AddOffsetsToTxn", 30)])
def test_offsets_that_are_refused_are_not_the_end_of_the_producer(api: str, code: int) -> None:
    async def body() -> None:
        async with begun(1, **{api: [code]}) as (_, sender):
            with pytest.raises(ServerError):
                await sender.add_offsets({P: Committed(1)}, GroupMetadata("g", 1, "me"))
            assert sender.fatal is None

    go(body())


def test_partitions_that_cannot_take_part_fail_their_batches_with_the_reason() -> None:
    async def body() -> None:
        async with begun(1, AddPartitionsToTxn=[29]) as (script, sender):
            batches = [pack(sender), pack(sender, Q)]
            for error in await script.send(sender, *batches):
                assert isinstance(error, ServerError)
                assert error.name == "TOPIC_AUTHORIZATION_FAILED"
            assert "Produce v11" not in script.asked()
            for batch in batches:
                await sender.abandon(batch)
            await sender.end(commit=False)  # nothing has begun there: only the epoch is raised
            assert script.asked()[-1] == "InitProducerId v5"

    go(body())


def test_an_answer_that_leaves_something_out_is_a_violation() -> None:
    async def body() -> None:
        async with begun(1) as (script, sender):
            script.it.broker.answers["AddPartitionsToTxn"] = lambda request, version: wire.AddPartitionsToTxnResponse()
            (error,) = await script.send(sender, pack(sender))
            assert isinstance(error, ProtocolViolation)
            script.it.broker.answers["InitProducerId"] = lambda request, version: InitProducerIdResponse()
            with pytest.raises(ProtocolViolation, match="identity"):
                await script.it.client.transactional_sender("other", 1).open()

    go(body())


@pytest.mark.parametrize("level", [1, 2])
def test_a_prepared_transaction_is_ended_under_its_own_identity(level: int) -> None:
    async def body() -> None:
        async with begun(level) as (script, sender):
            assert await script.send(sender, pack(sender)) == [None]
            prepared = sender.prepared()
            assert prepared == PreparedTransaction("tx", 7, 4)
            await script.it.client.complete(prepared, commit=False)
            asked = script.it.broker.asked("EndTxn")[0]
            assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == ("tx", 7, 4)
            assert asked.committed is False
            assert script.asked()[-1] == ("EndTxn v4" if level == 1 else "EndTxn v5")

    go(body())
