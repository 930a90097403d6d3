"""Members that read everything: where each is, it keeps itself, in Java's form."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from penstock.errors import ConfigError
from penstock.model import Committed, Partition
from penstock.protocols.rocketmq.client.client import RocketClient
from penstock.protocols.rocketmq.client.cluster import RocketOptions
from penstock.protocols.rocketmq.client.shared import path_of
from penstock.protocols.rocketmq.config import MessageModel, RocketConfig
from penstock.protocols.rocketmq.wire import rpc
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_client.cluster import Stage, go, stage
from tests.unit.rocketmq_client.test_membership import GROUP, QUEUES
from tests.unit.rocketmq_client.test_resets import told

ZERO, ONE = QUEUES[0], QUEUES[1]


class InMemory:
    """``penstock.interfaces.client.OffsetsFile``."""

    def __init__(self, content: bytes | None = None) -> None:
        self.content = content
        self.saves = 0

    async def load(self) -> bytes | None:
        return self.content

    async def save(self, content: bytes) -> None:
        self.content = content
        self.saves += 1

    def close(self) -> None: ...


def client_of(s: Stage, file: InMemory, **options: object) -> RocketClient:
    client = s.client(group="g", message_model=MessageModel.BROADCASTING, offsets_folder="/kept", **options)
    client.keep_offsets_in(file)
    return client


def test_a_member_goes_on_where_it_was_and_no_broker_hears_of_it() -> None:
    async def work() -> None:
        async with stage() as s:
            file = InMemory()
            one = client_of(s, file)
            assert await one.committed("g", QUEUES) == {}
            membership = one.membership(GROUP)
            await membership.join(["demo"], (), "")
            await membership.commit({ZERO: Committed(5)})
            await membership.commit({ONE: Committed(7)})
            assert file.content == (
                b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"demo"}:5,'
                b'{"brokerName":"broker-a","queueId":1,"topic":"demo"}:7}}'
            )
            two = client_of(s, file)
            assert await two.committed("g", QUEUES) == {ZERO: Committed(5), ONE: Committed(7)}
            assert await two.committed("g", [ONE]) == {ONE: Committed(7)}
            assert s.cluster.asked(rpc.UPDATE_CONSUMER_OFFSET) == []

    go(work())


def test_the_file_is_under_its_members_name_and_groups_that_share_have_none() -> None:
    async def work() -> None:
        async with stage() as s:
            assert s.client(group="g", offsets_folder="/kept").offsets_file is None
            assert s.client(group="g", message_model=MessageModel.BROADCASTING).offsets_file is None
            assert client_of(s, InMemory()).offsets_file is not None

    go(work())
    broadcasting = RocketConfig(message_model=MessageModel.BROADCASTING, offsets_folder="/kept")
    options = RocketOptions(rocket=broadcasting, group="g", client_id="10.0.0.1")
    assert path_of(options) == "/kept/10.0.0.1@DEFAULT/g/offsets.json"
    named = replace(options, rocket=replace(broadcasting, instance_name="../c"), client_id="a/b")
    assert path_of(named) == "/kept/a_b@.._c/g/offsets.json"


def test_what_java_wrote_is_read_and_what_nobody_can_read_is_said_aloud() -> None:
    java = (
        b'{\n\t"offsetTable":{{\n\t\t\t"brokerName":"broker-b",\n\t\t\t"queueId":1,\n\t\t\t"topic":"demo"\n\t\t}:12}}'
    )

    async def work() -> None:
        async with stage() as s:
            there = Partition("demo", 1, "broker-b")
            assert await client_of(s, InMemory(java)).committed("g", None) == {there: Committed(12)}
            for broken in (b"", b"{", b'{"offsetTable":{"a":1}}', b"\xff"):
                with pytest.raises(ConfigError, match="cannot be read") as refused:
                    await client_of(s, InMemory(broken)).committed("g", None)
                assert "offsets.json.bak" in str(refused.value)

    go(work())


def test_without_a_file_commits_are_kept_nowhere_which_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with stage() as s:
            client = s.client(group="g", message_model=MessageModel.BROADCASTING)
            membership = client.membership(GROUP)
            await membership.join(["demo"], (), "")
            await membership.commit({ZERO: Committed(5)})
            await membership.commit({ZERO: Committed(6)})
            assert await client.committed("g", QUEUES) == {}

    go(work())
    assert [each.getMessage() for each in caplog.records if "offsets_folder" in each.getMessage()] != []
    assert sum("offsets_folder" in each.getMessage() for each in caplog.records) == 1


def test_an_operator_who_puts_the_group_elsewhere_puts_the_file_there() -> None:
    async def work() -> None:
        async with stage() as s:
            file = InMemory()
            client = client_of(s, file)
            membership = client.membership(GROUP)
            await membership.join(["demo"], (), "")
            client.shared.heard.resets.reset(told("g", {ZERO: 3}))
            assert (await membership.heartbeat()).lost == {ZERO}
            await membership.commit({ZERO: Committed(100)})
            await passing(0.1)
            assert await client.committed("g", [ZERO]) == {ZERO: Committed(3)}
            assert s.cluster.asked(rpc.UPDATE_CONSUMER_OFFSET) == []

    go(work())
