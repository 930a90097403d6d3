"""A client that is too fast for the node is refused here, and what it sent reaches no broker; later it goes on."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.protocols.rocketmq.config import RocketNodeConfig
from penstock.protocols.rocketmq.server.call import TOO_MANY
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_relayed.kit import World, run


def test_what_is_too_much_in_a_second_is_refused_and_goes_on_in_the_next_one() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        waiting = [client.begin(310, b"body", n="a", b="t") for _ in range(5)]
        answers = [await each for each in waiting]
        assert [each.code for each in answers] == [0, 0, 0, 2, 2]
        assert answers[-1].remark == TOO_MANY
        client.tell(310, b"body", n="a", b="t")
        assert (await client.ask(30, topic="t", queueId=0, bname="a")).code == 0
        assert len(world.brokers["a:0"].of(310)) == 3
        await passing(1)
        assert (await client.ask(310, b"body", n="a", b="t")).code == 0

    run(test, fronts=(RocketNodeConfig(rocketmq_flow_requests="310=3"),))


@pytest.mark.parametrize("text", ["310", "310=", "=5", "310=0", "310=-1", "x=5", "310=5,310=6", "310=99999999999"])
def test_limits_that_make_no_sense_are_refused_before_the_node_starts(text: str) -> None:
    for option in ("rocketmq_flow_requests", "rocketmq_flow_kilobytes"):
        with pytest.raises(ConfigError, match=option):
            RocketNodeConfig(**{option: text})  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["key", "key:", ":secret", "a:hush12,a:hush34", "a:hush12,b"])
def test_accounts_that_make_no_sense_are_refused_and_no_secret_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="rocketmq_accounts") as said:
        RocketNodeConfig(rocketmq_accounts=text)
    assert "hush" not in str(said.value)
    assert "hush" not in repr(RocketNodeConfig(rocketmq_accounts="a:hush12"))
