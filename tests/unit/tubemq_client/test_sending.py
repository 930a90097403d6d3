"""Sending message by message: what is stored stays stored, what is not is sent again, who is ill is left alone."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from penstock.errors import ConnectionLost, PenstockError, RequestTimeout, ServerError
from penstock.interfaces.client import Sent
from penstock.model import Codec, Node, Partition
from penstock.protocols.tubemq.client.sender import TubePacked, TubeSender
from penstock.protocols.tubemq.wire import rpc as m
from penstock.protocols.tubemq.wire.messages import SendMessageResponseB2P
from penstock.protocols.tubemq.wire.protobuf import decode
from penstock.protocols.tubemq.wire.records import unpack
from penstock.protocols.tubemq.wire.rpc import Status
from tests.unit.client.virtual_time import passing
from tests.unit.tubemq_client.cluster import FIGURES, SILENCE, Cluster, Stage, Thrown, go, stage

ONE, TWO = Partition("demo", 0, "1"), Partition("demo", 1, "1")


def rows(*values: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})


def refused(code: int) -> SendMessageResponseB2P:
    return SendMessageResponseB2P(success=False, err_code=code, err_msg="no")


async def opened(s: Stage) -> tuple[TubeSender, Node]:
    sender = TubeSender(s.client.shared)
    await sender.open()
    await s.client.topics(["demo"])
    node = s.client.leader(ONE)
    assert node is not None
    return sender, node


at_once: list[bool] = []
"""Whether requests are written at once where they can be, or always in a task."""


@pytest.fixture(autouse=True, params=[False, True], ids=["in a task", "at once"])
def _way(request: pytest.FixtureRequest) -> None:
    at_once[:] = [request.param]


async def send(sender: TubeSender, node: Node, *batches: TubePacked, timeout_s: float = 10.0) -> list[Sent]:
    if not at_once[0]:
        return list(await sender.send(node, batches, acks=-1, timeout_s=timeout_s))
    shared = sender._shared
    with contextlib.suppress(PenstockError):
        for packed in batches:
            await shared.channel.link(node.endpoint, shared.options.lane_of(packed.partition))
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    if not sender.send_at_once(node, batches, answer.set_result, acks=-1, timeout_s=timeout_s):
        return list(await sender.send(node, batches, acks=-1, timeout_s=timeout_s))
    assert not answer.done()
    found = {id(sent.packed): sent for sent in await answer}
    return [found[id(packed)] for packed in batches]


def test_each_row_is_a_message_and_has_its_own_offset() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 2)}), publishing=True) as s:
            sender, node = await opened(s)
            batches = [sender.pack(ONE, rows(b"a", b"b"), Codec.NONE), sender.pack(TWO, rows(b"c"), Codec.ZSTD)]
            first, second = await send(sender, node, *batches)
            offsets = [*(first.offsets or ()), *(second.offsets or ())]
            assert (first.error, second.error, sorted(offsets)) == (None, None, [0, 28, 56])
            assert first.base_offset == (first.offsets or (None,))[0]
            stored = [
                (owner, unpack(payload, flag).value) for owner, payload, flag, _ in s.cluster.stores["demo", 0].records
            ]
            assert sorted(stored) == [(0, b"a"), (0, b"b"), (1, b"c")]

    go(work())


def test_a_request_says_who_sends_what_with_checksum_filter_item_and_time() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 2)}), publishing=True, local_address="10.1.2.3") as s:
            sender, node = await opened(s)
            headers = pa.array(
                [[{"key": "tubemq.filter", "value": b"red"}]],
                pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
            )
            moment = pa.array([1_764_000_000_000_000], pa.timestamp("us", tz="UTC"))
            batch = pa.RecordBatch.from_arrays(
                [pa.array([b"v"], pa.binary()), headers, moment], names=["value", "headers", "timestamp"]
            )
            await send(sender, node, sender.pack(TWO, batch, Codec.NONE))
            (request,) = s.cluster.asked(m.SEND_MESSAGE)
            assert (request.client_id, request.topic_name, request.partition_id) == (
                s.client.shared.publisher.client_id, "demo", 1,
            )  # fmt: skip
            assert (request.msg_type, request.msg_time, request.sent_addr) == ("red", "202511241600", 0x0A010203)
            assert request.check_sum >= 0
            assert request.auth_info.visit_authorized_token == s.cluster.token
            assert unpack(request.data, request.flag).filter_item == "red"

    go(work())


def test_only_what_was_refused_is_sent_again() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}), publishing=True) as s:
            sender, node = await opened(s)
            s.cluster.refuse[13] = lambda request: refused(419) if b"b" in request.data else None
            packed = sender.pack(ONE, rows(b"a", b"b", b"c"), Codec.NONE)
            (sent,) = await send(sender, node, packed)
            assert isinstance(sent.error, ServerError)
            assert (sent.error.code, sent.error.retriable, sent.offsets) == (419, True, (0, -1, 28))
            del s.cluster.refuse[13]
            again = await sender.recover(packed, sent.error)
            assert again is packed
            (sent,) = await send(sender, node, packed)
            assert (sent.error, sent.offsets) == (None, (0, 56, 28))
            assert len(s.cluster.stores["demo", 0].records) == 3

    go(work())


def test_what_can_never_be_stored_is_reported_and_the_rest_is_stored() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}), publishing=True) as s:
            sender, node = await opened(s)
            packed = sender.pack(ONE, rows(b"a", b"x" * 2_000, b"c"), Codec.NONE)
            (sent,) = await send(sender, node, packed)
            assert isinstance(sent.error, ServerError)
            assert (sent.error.code, sent.error.topic, sent.offsets) == (445, "demo", (0, -1, 28))
            assert await sender.recover(packed, sent.error) is None

    go(work())


def test_a_retriable_error_comes_before_one_that_is_final() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}), publishing=True) as s:
            sender, node = await opened(s)
            s.cluster.refuse[13] = lambda request: refused(403 if b"a" in request.data else 500)
            packed = sender.pack(ONE, rows(b"a", b"b"), Codec.NONE)
            (sent,) = await send(sender, node, packed)
            assert isinstance(sent.error, ServerError)
            assert sent.error.code == 500
            del s.cluster.refuse[13]
            (sent,) = await send(sender, node, packed)
            assert isinstance(sent.error, ServerError)
            assert (sent.error.code, sent.offsets) == (403, (-1, 0))

    go(work())


def test_a_broken_connection_is_each_batch_s_error_and_asks_a_master_anew() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 2)}), publishing=True) as s:
            sender, _ = await opened(s)
            gone = Node("1", s.masters[0].__class__("nowhere", 1))
            packed = sender.pack(ONE, rows(b"a"), Codec.NONE)
            (sent,) = await send(sender, gone, packed)
            assert isinstance(sent.error, ConnectionLost)
            assert s.client.leader(ONE) is None
            assert await sender.recover(packed, sent.error) is packed

    go(work())


def test_no_answer_in_time_is_an_error_and_the_message_goes_again() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}), publishing=True) as s:
            sender, node = await opened(s)
            s.cluster.refuse[13] = lambda request: SILENCE
            packed = sender.pack(ONE, rows(b"a"), Codec.NONE)
            (sent,) = await send(sender, node, packed, timeout_s=1.0)
            assert isinstance(sent.error, RequestTimeout | ConnectionLost)
            assert sent.error.retriable

    go(work())


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize(
    "answer",
    [
        refused(503),
        refused(419),
        Thrown("ServerNotReadyException", Status.FATAL),
        Thrown("OutOfMemoryError", Status.FATAL),
    ],
)
def test_what_is_surely_not_stored_is_sent_again(answer: object, allowed: bool) -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}), publishing=True, allow_duplicates=allowed) as s:
            sender, node = await opened(s)
            s.cluster.refuse[13] = lambda request: answer if b"b" in request.data else None
            packed = sender.pack(ONE, rows(b"a", b"b"), Codec.NONE)
            (sent,) = await send(sender, node, packed)
            assert (sent.error is not None and sent.error.retriable, sent.offsets) == (True, (0, -1))
            s.cluster.refuse.clear()
            assert await sender.recover(packed, sent.error or PenstockError("")) is packed
            (sent,) = await send(sender, node, packed)
            assert (sent.error, sent.offsets) == (None, (0, 28))

    go(work())


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("answer", [refused(500), SILENCE, Thrown("ServiceStoppingException")])
def test_what_may_be_stored_is_sent_again_if_duplicates_are_allowed(answer: object, allowed: bool) -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}), publishing=True, allow_duplicates=allowed) as s:
            sender, node = await opened(s)
            s.cluster.refuse[13] = lambda request: answer if b"b" in request.data else None
            packed = sender.pack(ONE, rows(b"a", b"b"), Codec.NONE)
            (sent,) = await send(sender, node, packed, timeout_s=1.0)
            assert sent.error is not None
            assert (sent.error.retriable, sent.offsets) == (allowed, (0, -1))
            assert ("allow_duplicates" in str(sent.error)) is not allowed
            s.cluster.refuse.clear()
            again = await sender.recover(packed, sent.error)
            assert (again is packed) is allowed
            if again is not None:
                (sent,) = await send(sender, node, again)
                assert (sent.error, sent.offsets) == (None, (0, 28))
            assert len(s.cluster.stores["demo", 0].records) == 1 + allowed

    go(work())


def test_in_order_means_that_a_message_waits_for_the_one_before() -> None:
    async def work() -> None:
        figures = replace(FIGURES, publishing=True, in_order=True)
        async with stage(Cluster({"demo": (1, 1)}), figures=figures) as s:
            sender, node = await opened(s)
            codes = iter([200, 419, 200])
            s.cluster.refuse[13] = lambda request: None if (code := next(codes)) == 200 else refused(code)
            packed = sender.pack(ONE, rows(b"a", b"b", b"c"), Codec.NONE)
            (sent,) = await send(sender, node, packed)
            assert sent.offsets == (0, -1, -1)  # c must not overtake b
            s.cluster.refuse.clear()
            (sent,) = await send(sender, node, packed)
            assert sent.offsets == (0, 28, 56)

    go(work())


def test_a_broker_that_is_unavailable_is_avoided_for_a_while() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}), publishing=True, unavailable_broker_ms=50_000) as s:
            sender, node = await opened(s)
            s.cluster.refuse[13] = lambda request: refused(503)
            await send(sender, node, sender.pack(ONE, rows(b"a"), Codec.NONE))
            assert sender.avoids(ONE)
            assert sender.avoids(TWO)
            await passing(49)
            assert sender.avoids(ONE)
            await passing(2)
            assert not sender.avoids(ONE)

    go(work())


def test_every_message_is_signed_and_a_signature_that_is_refused_is_final() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}), publishing=True, user="tube", password="pwd") as s:
            sender, node = await opened(s)
            shown: list[str] = []
            s.cluster.refuse[13] = lambda request: shown.append(request.auth_info.auth_authorized_token)
            for value in (b"a", b"b"):
                (sent,) = await send(sender, node, sender.pack(ONE, rows(value), Codec.NONE))
                assert sent.error is None
            await passing(1.5)
            await send(sender, node, sender.pack(ONE, rows(b"c"), Codec.NONE))
            assert [text.split()[0] for text in shown] == ["tube"] * 3
            assert shown[0] == shown[1] != shown[2]  # used for a second, so that messages cost no more than without
            packed = sender.pack(ONE, rows(b"d"), Codec.NONE)
            s.cluster.refuse[13] = lambda _: refused(415)
            (sent,) = await send(sender, node, packed)
            assert isinstance(sent.error, ServerError)
            assert sent.error.code == 415
            assert await sender.recover(packed, sent.error) is None

    go(work())


def test_a_new_token_of_the_master_is_shown_at_once() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}), publishing=True, user="tube", password="pwd") as s:
            sender, node = await opened(s)
            shown: list[int] = []
            s.cluster.refuse[13] = lambda request: shown.append(request.auth_info.visit_authorized_token)
            await send(sender, node, sender.pack(ONE, rows(b"a"), Codec.NONE))
            s.cluster.token = 800
            await sender.beat()
            await send(sender, node, sender.pack(ONE, rows(b"b"), Codec.NONE))
            assert shown == [700, 800]

    go(work())


def test_beats_come_as_often_as_configured_and_slower_after_failures() -> None:
    async def work() -> None:
        async with stage(
            Cluster({"demo": (1, 1)}), publishing=True, heartbeat_retries=1, heartbeat_after_fail_ms=60_000
        ) as s:
            sender, _ = await opened(s)
            assert sender.beat_interval_s == 13.0
            assert not await sender.beat()
            s.cluster.topics["demo"] = (1, 4)
            assert await sender.beat()
            s.cluster.standby.add("master0")
            for _ in range(2):
                with pytest.raises(PenstockError):
                    await sender.beat()
            assert sender.beat_interval_s == 60.0
            s.cluster.standby.clear()
            await sender.beat()
            assert sender.beat_interval_s == 13.0

    go(work())


def test_what_is_built_by_hand_is_what_protobuf_would_build() -> None:
    async def work() -> None:
        async with stage(Cluster({"demo": (1, 1)}), publishing=True) as s:
            sender, node = await opened(s)
            await send(sender, node, *[sender.pack(ONE, rows(b"x" * size), Codec.NONE) for size in (1, 127, 128, 900)])
            for request in s.cluster.asked(m.SEND_MESSAGE):
                again = decode(type(request), request.SerializeToString())
                assert unpack(again.data, again.flag).value == b"x" * len(
                    unpack(request.data, request.flag).value or b""
                )
            await asyncio.sleep(0)
            assert len(s.cluster.asked(m.SEND_MESSAGE)) == 4

    go(work())
