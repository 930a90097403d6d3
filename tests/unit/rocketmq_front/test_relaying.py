"""Questions of operators to a consumer itself go there, and its answers come back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.errors import ServerError
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RESPONSE, RemotingCommand, encode
from penstock.protocols.rocketmq.wire.message_format import offset_id, read_stored
from penstock.protocols.rocketmq.wire.rpc import CONSUME_MESSAGE_DIRECTLY, GET_CONSUMER_RUNNING_INFO
from tests.unit.rocketmq_front.kit import Client, Kit, run

QUESTION = m.OfMember(consumer_group="g", client_id="second")


async def member_of(kit: Kit) -> Client:
    member = kit.client()
    await member.beat("demo")
    return member


async def told(kit: Kit, member: Client, code: int) -> RemotingCommand:
    """What the member is asked."""

    async def asked() -> list[RemotingCommand]:
        return member.told(code)

    found: list[RemotingCommand] = await kit.comes(asked)
    return found[-1]


def asking(kit: Kit, method: Any, header: object, **more: Any) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(kit.ask(method, header, **more))


def test_a_member_is_asked_how_it_is() -> None:
    async def check(kit: Kit) -> None:
        member = await member_of(kit)
        task = asking(kit, GET_CONSUMER_RUNNING_INFO, QUESTION, extra={"AccessKey": "me", "Signature": "s"})
        asked = await told(kit, member, 307)
        assert asked.fields == {"consumerGroup": "g", "clientId": "second", "jstackEnable": "false"}
        wrong = RemotingCommand(0, asked.opaque + 1, RESPONSE, {}, b"to nobody")
        assert await member.send(b"".join(encode(wrong))) is None
        assert not task.done()
        right = wrong._replace(opaque=asked.opaque, body=b"fine", fields={"more": "1"})
        assert await member.send(b"".join(encode(right))) is None
        found = await task
        assert (bytes(found.body), found.command.fields) == (b"fine", {"more": "1"})
        assert not member.session.line.asked

    run(check)


def test_what_a_member_says_no_to_is_told() -> None:
    async def check(kit: Kit) -> None:
        member = await member_of(kit)
        task = asking(kit, GET_CONSUMER_RUNNING_INFO, QUESTION)
        asked = await told(kit, member, 307)
        await member.send(b"".join(encode(RemotingCommand(1, asked.opaque, RESPONSE, {}, b"", "not now"))))
        with pytest.raises(ServerError, match="not now"):
            await task

    run(check)


def test_a_member_is_given_a_message_by_its_id() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"0")
        await kit.put(b"1")
        (stored,) = await kit.read(1)
        cluster = kit.front.shared.cluster
        member = await member_of(kit)
        header = m.ConsumeDirectly(
            consumer_group="g", client_id="second", msg_id=offset_id(cluster.host, stored.physical_offset)
        )
        task = asking(kit, CONSUME_MESSAGE_DIRECTLY, header)
        asked = await told(kit, member, 309)
        assert [each.body for each in read_stored(bytes(asked.body))] == [b"1"]
        await member.send(b"".join(encode(RemotingCommand(0, asked.opaque, RESPONSE, {}, b"done"))))
        assert bytes((await task).body) == b"done"

    run(check)


def test_who_is_not_there_is_not_asked() -> None:
    async def check(kit: Kit) -> None:
        with pytest.raises(ServerError, match="The Consumer <g> <second> not online"):
            await kit.ask(GET_CONSUMER_RUNNING_INFO, QUESTION)
        await member_of(kit)
        header = m.ConsumeDirectly(consumer_group="g", client_id="second", msg_id="0" * 32)
        with pytest.raises(ServerError, match="can not find message"):
            await kit.ask(CONSUME_MESSAGE_DIRECTLY, header)
        with pytest.raises(ServerError, match="is no id"):
            await kit.ask(CONSUME_MESSAGE_DIRECTLY, replace(header, msg_id="nonsense"))

    run(check)


def test_a_member_that_goes_is_not_waited_for() -> None:
    async def check(kit: Kit) -> None:
        member = await member_of(kit)
        task = asking(kit, GET_CONSUMER_RUNNING_INFO, QUESTION)
        await told(kit, member, 307)
        member.session.lost()
        with pytest.raises(ServerError, match="did not answer"):
            await task

    run(check)


def test_nor_for_ever_is_one_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.protocols.rocketmq.server.read_requests._PATIENCE_S", 0.05)

    async def check(kit: Kit) -> None:
        member = await member_of(kit)
        with pytest.raises(ServerError, match=r"did not answer within 0\.05 s"):
            await kit.ask(GET_CONSUMER_RUNNING_INFO, QUESTION)
        assert not member.session.line.asked

    run(check)
