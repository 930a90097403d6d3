"""Who asks is known at the node and at brokers behind it, although the node writes other requests than came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.protocols.rocketmq.config import RocketNodeConfig
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from penstock.protocols.rocketmq.wire.rpc import Account, is_signed, signed
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_relayed.kit import NAMES, Client, World, ok, run

NODE, READER = Account("node", "node-secret"), Account("reader", "reader-secret")
OWN = f"rocketmq://{NAMES}?access_key=node&secret_key=node-secret"
ACCOUNTS = "reader:reader-secret,other:other-secret"
WANTED = {"consumerGroup": "g", "topic": "t", "queueId": 0, "queueOffset": 5, "maxMsgNums": 32, "bname": "a"}


def fronts(**options: Any) -> tuple[object, ...]:
    return (RocketNodeConfig(**options),)


def as_reader(body: bytes = b"", /, **fields: object) -> Mapping[str, str]:
    return signed(READER, {name: str(value) for name, value in fields.items()}, body)


def by(account: Account, asked: RemotingCommand, *without: str) -> bool:
    signs = is_signed(account.secret_key, asked.fields, asked.body, without=without)
    return signs and asked.fields["AccessKey"] == account.access_key


async def signed_member(world: World) -> Client:
    client = await world.client()
    body = (
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"t","subString":"*"}]}]}'
    )
    assert (await client.ask(34, body, **as_reader(body))).code == 0
    return client


def test_without_accounts_what_a_client_signed_goes_on_as_it_came() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        fields = as_reader(b"body", b="t", n="a", e="0")
        assert (await client.ask(310, b"body", **fields)).code == 0
        (seen,) = world.brokers["a:0"].of(310)
        assert seen.fields == fields

    run(test)


def test_everything_goes_on_in_the_node_s_own_name_where_it_has_one() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        await client.beat(consumes={"t": "*", "%RETRY%g": "*"}, produces="p")
        assert (await client.ask(310, b"body", b="t", n="a", Signature="old", AccessKey="x")).code == 0
        assert (await client.ask(11, **WANTED)).code == 0
        assert (await client.ask(351, **WANTED, sysFlag=4, subscription="*")).code == 0
        assert (await client.ask(17, topic="made")).code == 0
        assert (await client.ask(105, topic="t")).code == 0
        client.tell(15, consumerGroup="g", topic="t", queueId=0, commitOffset=1, bname="a")
        await passing(40)
        everywhere = [each for server in (*world.brokers.values(), world.names) for each in server.seen]
        assert {each.code for each in everywhere} >= {310, 11, 17, 34, 15, 105, 106, 350}
        assert [each.code for each in everywhere if not by(NODE, each)] == []

    run(test, store=OWN)


def test_a_key_that_brokers_check_in_two_ways_is_signed_in_the_one_that_all_take() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        fields = {"topic": "t", "key": "k", "_UNIQUE_KEY_QUERY": "true"}
        assert (await client.ask(12, **fields)).code == 0
        (seen,) = world.brokers["a:0"].of(12)
        assert by(NODE, seen, "_UNIQUE_KEY_QUERY")
        assert (seen.version, seen.fields["_UNIQUE_KEY_QUERY"]) == (399, "true")

    run(test, store=OWN)


def test_clients_keep_their_names_at_brokers_and_the_node_has_its_own() -> None:
    async def test(world: World) -> None:
        client = await signed_member(world)
        assert (await client.ask(310, b"body", **as_reader(b"body", b="t", n="a"))).code == 0
        assert (await client.ask(11, **as_reader(**WANTED))).code == 0
        at = world.brokers["a:0"]
        assert by(READER, at.of(310)[0])
        assert by(READER, at.of(11)[0])
        assert at.of(11)[0].fields["subscription"] == "*"
        assert all(by(NODE, each) for each in world.names.seen)

    run(test, store=OWN, fronts=fronts(rocketmq_accounts=ACCOUNTS))


def test_or_brokers_know_nobody_but_the_node() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        assert (await client.ask(310, b"body", **as_reader(b"body", b="t", n="a"))).code == 0
        assert by(NODE, world.brokers["a:0"].of(310)[0])

    run(test, store=OWN, fronts=fronts(rocketmq_accounts=ACCOUNTS, sign_as_clients=False))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"AccessKey": None, "Signature": None}, "No accessKey is configured"),
        ({"AccessKey": "stranger"}, "No acl config for stranger"),
        ({"AccessKey": "other"}, "Check signature failed for accessKey=other"),
        ({"Signature": None}, "Check signature failed for accessKey=reader"),
        ({"b": "another"}, "Check signature failed for accessKey=reader"),
    ],
)
def test_who_signs_wrong_is_refused_here_and_no_broker_hears_of_it(change: dict[str, str | None], says: str) -> None:
    async def test(world: World) -> None:
        client = await world.client()
        fields = {**as_reader(b"body", b="t", n="a"), **change}
        said = await client.ask(310, b"body", **{name: value for name, value in fields.items() if value is not None})
        assert (said.code, said.remark) == (16, says)
        said = await client.ask(310, b"other", **as_reader(b"body", b="t", n="a"))
        assert (said.code, said.remark) == (16, "Check signature failed for accessKey=reader")
        assert not world.brokers["a:0"].of(310)

    run(test, fronts=fronts(rocketmq_accounts=ACCOUNTS))


@pytest.mark.parametrize("signs_it", [True, False])
def test_a_query_by_key_is_believed_from_clients_of_all_versions(signs_it: bool) -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: ok(b"found"))
        client = await world.client()
        fields = {"topic": "t", "key": "k", "_UNIQUE_KEY_QUERY": "true"}
        whole = signed(READER, fields, b"", without=() if signs_it else ("_UNIQUE_KEY_QUERY",))
        assert (await client.ask(12, **whole)).body == b"found"

    run(test, fronts=fronts(rocketmq_accounts=ACCOUNTS))
