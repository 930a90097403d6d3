"""Over a log that lacks something, or is lost, TubeMQ's clients get TubeMQ's own words for it."""

from __future__ import annotations

import pytest

from penstock.errors import CorruptBatch, PenstockError, StoreError, Unsupported, UpstreamLost, WriteFailed
from penstock.interfaces.enode import Abilities
from penstock.protocols.tubemq.errors import Code, refusal, row_of
from penstock.protocols.tubemq.wire.rpc import SEND_MESSAGE
from tests.unit.tubemq_front.kit import Kit, bodies, run, sent
from tests.unit.tubemq_front.web import call


def test_topics_that_cannot_be_made_from_here_are_refused() -> None:
    async def test(kit: Kit) -> None:
        made = await call(kit, "admin_add_topic_deploy_info", topicName="made", brokerId=1, createUser="me")
        assert (made["result"], made["errCode"]) == (False, Code.BAD_REQUEST)
        assert "topics" in made["errMsg"]
        changed = {"topicName": "demo", "brokerId": 1, "modifyUser": "me"}
        grown = await call(kit, "admin_update_topic_deploy_info", numTopicStores=5, **changed)
        assert grown["data"][0]["errCode"] == Code.BAD_REQUEST
        await call(kit, "admin_update_topic_deploy_info", acceptPublish="false", acceptSubscribe="false", **changed)
        gone = await call(kit, "admin_remove_topic_info", **changed)
        assert gone["data"][0]["errCode"] == Code.BAD_REQUEST
        assert await kit.enode.topic("demo") is not None

    run(test, able=Abilities(topics=False))


def test_options_of_topics_that_cannot_be_set_are_refused_and_the_rest_is_done() -> None:
    async def test(kit: Kit) -> None:
        given = {"topicName": "demo", "brokerId": 1, "modifyUser": "me"}
        refused = await call(kit, "admin_update_topic_deploy_info", deletePolicy="delete,5h", **given)
        assert refused["data"][0]["errCode"] == Code.BAD_REQUEST
        closed = await call(kit, "admin_update_topic_deploy_info", acceptPublish="false", **given)
        assert closed["data"][0]["success"]

    run(test, able=Abilities(options=False))


@pytest.mark.parametrize("missing", ["sequences", "transactions", "epochs", "compaction", "deletion", "times", "sizes"])
def test_messages_come_and_go_whatever_else_is_missing(missing: str) -> None:
    async def test(kit: Kit) -> None:
        await kit.put(b"a", b"b")
        assert (await kit.book()).success
        assert bodies(await kit.get()) == [b"a", b"b"]
        assert (await call(kit, "admin_query_pubinfo", topicName="demo"))["result"]

    run(test, able=Abilities(**{missing: False}))


@pytest.mark.parametrize(
    ("error", "code", "again"),
    [
        (UpstreamLost("no answer"), Code.SERVICE_UNAVAILABLE, True),
        (WriteFailed("no space left"), Code.SERVICE_UNAVAILABLE, True),
        (Unsupported("no topics"), Code.BAD_REQUEST, False),
        (StoreError("anything"), Code.INTERNAL_SERVER_ERROR, True),
        (CorruptBatch("checksum"), Code.INTERNAL_SERVER_ERROR, True),
    ],
)
def test_clients_try_again_on_what_may_pass(error: PenstockError, code: int, again: bool) -> None:
    assert refusal(error).code == code
    assert row_of(code).retriable is again


def test_while_the_cluster_behind_is_lost_clients_are_told_to_try_again() -> None:
    async def test(kit: Kit) -> None:
        await kit.put(b"a")
        assert (await kit.book()).success
        nothing = kit.enode.before

        async def lost(name: str) -> None:
            if name != "topic":
                raise UpstreamLost("the cluster does not answer")

        kit.enode.before = lost
        assert (await kit.get()).err_code == Code.SERVICE_UNAVAILABLE
        kit.enode.before = nothing
        assert bodies(await kit.get()) == [b"a"]

    run(test)


@pytest.mark.lossless("it counts look-ups, and loses one itself")
def test_a_message_whose_topic_cannot_be_looked_up_fails_and_the_next_one_does_not() -> None:
    async def test(kit: Kit) -> None:
        looked = 0

        async def lost_once(name: str) -> None:
            nonlocal looked
            looked += name == "topic"
            if looked == 1:
                looked += 1
                raise UpstreamLost("the cluster does not answer")

        kit.enode.before = lost_once
        answer = await kit.ask(SEND_MESSAGE, sent(b"a"))
        assert (answer.success, answer.err_code) == (False, Code.SERVICE_UNAVAILABLE)
        assert await kit.put(b"b") == [0]

    run(test)
