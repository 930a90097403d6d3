"""Values that operators keep at the name server."""

from __future__ import annotations

import pytest

from penstock.errors import ServerError
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.rpc import DELETE_KV_CONFIG, GET_KV_CONFIG, GET_KVLIST_BY_NAMESPACE, PUT_KV_CONFIG
from tests.unit.rocketmq_front.kit import Kit, run, serving

ORDER = "ORDER_TOPIC_CONFIG"


async def put(kit: Kit, key: str, value: str, namespace: str = ORDER) -> None:
    await kit.ask(PUT_KV_CONFIG, m.PutKv(namespace=namespace, key=key, value=value))


async def get(kit: Kit, key: str, namespace: str = ORDER) -> str | None:
    return (await kit.ask(GET_KV_CONFIG, m.OfKv(namespace=namespace, key=key))).header.value


def test_values_are_kept_by_namespace_and_key_also_over_a_restart() -> None:
    async def check(kit: Kit) -> None:
        await put(kit, "flights", "penstock-1:3")
        await put(kit, "ports", "penstock-1:4")
        await put(kit, "flights", "elsewhere", namespace="x")
        await put(kit, "flights", "penstock-1:5")
        assert (await get(kit, "flights"), await get(kit, "flights", "x")) == ("penstock-1:5", "elsewhere")
        async with serving(store=kit.store) as again:
            answer = await again.ask(GET_KVLIST_BY_NAMESPACE, m.OfNamespace(namespace=ORDER))
            assert m.read_body(m.Table, answer.body).table == {"flights": "penstock-1:5", "ports": "penstock-1:4"}

    run(check)


def test_what_is_not_there_is_said_so_and_deleted_in_peace() -> None:
    async def check(kit: Kit) -> None:
        await put(kit, "flights", "v")
        for _ in range(2):
            await kit.ask(DELETE_KV_CONFIG, m.OfKv(namespace=ORDER, key="flights"))
            with pytest.raises(ServerError, match="No config item, Namespace: ORDER_TOPIC_CONFIG Key: flights"):
                await get(kit, "flights")
            with pytest.raises(ServerError, match="No config item"):
                await kit.ask(GET_KVLIST_BY_NAMESPACE, m.OfNamespace(namespace=ORDER))

    run(check)


def test_values_are_bounded() -> None:
    async def check(kit: Kit) -> None:
        with pytest.raises(ServerError, match="the longest has 16384"):
            await put(kit, "flights", "v" * 20_000)

    run(check)


def test_so_is_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.protocols.rocketmq.server.cluster_requests._MOST_VALUES", 2)

    async def check(kit: Kit) -> None:
        await put(kit, "a", "1")
        await put(kit, "b", "1")
        with pytest.raises(ServerError, match="2 values are kept"):
            await put(kit, "c", "1")
        await put(kit, "a", "2")
        assert await get(kit, "a") == "2"

    run(check)
