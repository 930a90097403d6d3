"""Moving a group from outside: it ends up exactly there, or that is an error."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from penstock.errors import OffsetOutOfRange, ServerError, UsageError
from penstock.model import Committed, Partition
from penstock.protocols.tubemq.config import ConsumePosition
from penstock.protocols.tubemq.wire import rpc as m
from tests.unit.tubemq_client.cluster import FIGURES, Cluster, Held, go, stage

ONE = Partition("demo", 0, "1")
KEY = ("stats", "demo", 0)


def filled() -> Cluster:
    cluster = Cluster({"demo": (1, 1)})
    for number in range(10):
        cluster.put("demo", 0, b"%d" % number)
    return cluster


def test_a_commit_moves_the_group_and_holds_nothing_afterwards() -> None:
    async def work() -> None:
        async with stage(filled()) as s:
            await s.client.commit("stats", {ONE: Committed(28 * 4 + 1)})
            assert (s.cluster.places[KEY], s.cluster.held) == (28 * 5, {})
            assert await s.client.committed("stats", [ONE]) == {ONE: Committed(28 * 5)}
            await s.client.commit("stats", {ONE: Committed(28)})
            assert s.cluster.places[KEY] == 28

    go(work())


def test_an_offset_that_the_log_does_not_have_is_an_error() -> None:
    async def work() -> None:
        async with stage(filled()) as s:
            with pytest.raises(OffsetOutOfRange, match="moved to 280") as caught:
                await s.client.commit("stats", {ONE: Committed(10_000)})
            assert caught.value.partition == 0

    go(work())


def test_a_member_that_holds_the_partition_is_not_pushed_aside() -> None:
    async def work() -> None:
        async with stage(filled()) as s:
            s.cluster.held[KEY] = Held("somebody", 0)
            with pytest.raises(ServerError, match="let it commit") as caught:
                await s.client.commit("stats", {ONE: Committed(28)})
            assert caught.value.code == 410
            assert s.cluster.held[KEY].client == "somebody"

    go(work())


def test_a_partition_that_is_given_back_in_time_is_no_error() -> None:
    async def work() -> None:
        async with stage(filled()) as s:
            s.cluster.held[KEY] = Held("somebody", 0)

            def leave(request: object) -> None:
                if len(s.cluster.asked(m.REGISTER_PARTITION)) == 3:
                    s.cluster.held.pop(KEY, None)

            s.cluster.refuse[15] = leave
            await s.client.commit("stats", {ONE: Committed(28)})
            assert s.cluster.places[KEY] == 28

    go(work())


@pytest.mark.parametrize(("position", "offset"), [(ConsumePosition.FIRST, 0), (ConsumePosition.LATEST, 280)])
def test_a_group_that_stands_nowhere_is_put_where_consuming_would_begin(position: ConsumePosition, offset: int) -> None:
    async def work() -> None:
        async with stage(filled(), figures=replace(FIGURES, position=position)) as s:
            assert await s.client.committed("stats", [ONE]) == {ONE: Committed(offset)}

    go(work())


def test_a_group_s_partitions_cannot_be_listed_and_names_are_checked() -> None:
    async def work() -> None:
        async with stage(filled()) as s:
            with pytest.raises(UsageError, match="admin_address"):
                await s.client.committed("stats", None)
            with pytest.raises(UsageError):
                await s.client.commit("1 bad name", {ONE: Committed(0)})

    go(work())
