"""More than is allowed in a second is refused in the first Snode's words."""

from __future__ import annotations

import pytest

from penstock.errors import ServerError
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.server.call import TOO_MUCH
from penstock.protocols.rocketmq.server.cluster import RocketFrontOptions
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.rpc import GET_SNODE_CLUSTER_INFO, HEART_BEAT
from tests.unit.rocketmq_front.kit import Kit, run


def test_who_says_too_much_is_told_so_in_the_first_snode_s_words() -> None:
    async def check(kit: Kit) -> None:
        long = m.HeartbeatData(client_id="x" * 200_000)
        await kit.ask(HEART_BEAT, m.NoFields(), long)
        with pytest.raises(ServerError) as said:
            await kit.ask(HEART_BEAT, m.NoFields(), long)
        assert said.value.code == Code.SYSTEM_BUSY
        assert TOO_MUCH in str(said.value)
        await kit.ask(GET_SNODE_CLUSTER_INFO, m.NoFields())

    run(check, RocketFrontOptions(flow_kilobytes={"34": 1}))
