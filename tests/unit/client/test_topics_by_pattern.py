"""Topics that are subscribed by pattern: those that come are read from their beginning, those that go are given up."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client import AsyncConsumer, Consumer, Producer, RebalanceListener
from penstock.client.consumer.subscription import Subscribed, of_address
from penstock.errors import ConfigError, UsageError
from penstock.model import Partition, TopicInfo
from penstock.testing import Broker
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import passing, run

ADDRESS = "fake://h:1"
AGE_S = 60


def topics(names: Iterable[str], internal: Collection[str] = ()) -> dict[str, TopicInfo]:
    return {name: TopicInfo(name, (), None, name in internal) for name in names}


def consumer_of(group: str | None = "g") -> AsyncConsumer:
    return AsyncConsumer(ADDRESS, group=group, metadata_max_age_ms=AGE_S * 1_000)


async def read(consumer: AsyncConsumer, expected: Collection[bytes]) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < len(expected):
        batch = await consumer.poll(10 * AGE_S)
        found.extend(message.value for message in batch)
        if batch and consumer._settings.config.group:
            await consumer.commit(batch)  # who joins anew begins where the group has committed
    return sorted(found, key=str)


@pytest.mark.parametrize("group", ["g", None])
@pytest.mark.parametrize("pattern", ["^t", re.compile("t")])
def test_a_new_topic_is_read_from_its_first_record(
    log: FakeLog, group: str | None, pattern: str | re.Pattern[str]
) -> None:
    async def main() -> None:
        log.write("t", [b"first"])
        log.create("other", 1)
        log.write("other", [b"not meant"])
        async with consumer_of(group) as consumer:
            await consumer.subscribe(pattern)
            assert await read(consumer, [b"first"]) == [b"first"]
            assert consumer.subscription() == {"t", "t4"}
            log.create("tomorrow", 2)
            log.write("tomorrow", [b"zero"], 0)
            log.write("tomorrow", [b"one"], 1)
            before = asyncio.get_running_loop().time()
            assert await read(consumer, [b"one", b"zero"]) == [b"one", b"zero"]
            assert asyncio.get_running_loop().time() - before <= AGE_S + 5
            assert consumer.subscription() == {"t", "t4", "tomorrow"}

    run(main())


def test_a_topic_that_is_gone_is_given_up(log: FakeLog) -> None:
    told: list[tuple[str, set[str]]] = []

    class Heard(RebalanceListener):
        def assigned(self, partitions: Collection[Partition]) -> None:
            told.append(("assigned", {each.topic for each in partitions}))

        def revoked(self, partitions: Collection[Partition]) -> None:
            told.append(("revoked", {each.topic for each in partitions}))

    async def main() -> None:
        async with consumer_of() as consumer:
            await consumer.subscribe(listener=Heard(), pattern="t")
            await consumer.poll(1)
            del log.topics["t4"]
            for _ in range(3):
                await consumer.poll(AGE_S)
            assert consumer.subscription() == {"t"}
            assert consumer.assignment() == {Partition("t", 0)}

    run(main())
    assert told[:3] == [("assigned", {"t", "t4"}), ("revoked", {"t", "t4"}), ("assigned", {"t"})]


def test_nothing_matches_yet(log: FakeLog) -> None:
    async def main() -> None:
        async with consumer_of() as consumer:
            await consumer.subscribe(pattern="new-")
            assert not await consumer.poll(1)
            assert consumer.subscription() == set()
            log.create("new-one", 1)
            log.write("new-one", [b"a"])
            assert await read(consumer, [b"a"]) == [b"a"]

    run(main())


def test_names_beside_patterns_and_names_alone_again(log: FakeLog) -> None:
    async def main() -> None:
        log.create("other", 1)
        async with consumer_of() as consumer:
            await consumer.subscribe(["other", "^t4$"])
            await consumer.poll(1)
            assert consumer.subscription() == {"other", "t4"}
            await consumer.subscribe(["t"])
            await consumer.poll(1)
            log.create("t44", 1)
            asked = len(log.asked)
            await passing(3 * AGE_S)
            assert [names for _, names in log.asked[asked:] if names is None] == [], "all topics, for nobody"
            assert consumer.subscription() == {"t"}

    run(main())


def test_two_members_share_what_a_pattern_finds(log: FakeLog) -> None:
    async def polls(consumer: AsyncConsumer) -> None:
        for _ in range(8):
            await consumer.poll(AGE_S)

    async def main() -> None:
        async with consumer_of() as one, consumer_of() as two:
            await one.subscribe("^t")
            await two.subscribe("^t")
            await asyncio.gather(polls(one), polls(two))
            log.create("t2", 2)
            await asyncio.gather(polls(one), polls(two))
            both = one.assignment() | two.assignment()
            assert len(both) == len(one.assignment()) + len(two.assignment()) == 7

    run(main())


def test_an_address_and_an_option_name_patterns(log: FakeLog) -> None:
    async def main() -> None:
        for consumer in (AsyncConsumer(f"{ADDRESS}/^t4"), AsyncConsumer(ADDRESS, topics="^t4")):
            async with consumer:
                await consumer.poll(0.1)
                assert consumer.subscription() == {"t4"}

    run(main())


def test_a_server_that_does_not_answer_delays_the_join_and_no_more(log: FakeLog) -> None:
    async def main() -> None:
        log.write("t", [b"a"])
        async with consumer_of() as consumer:
            await consumer.subscribe("^t$")
            log.topics_delays_s.extend([100.0, 100.0])
            assert not await consumer.poll(1)
            assert await read(consumer, [b"a"]) == [b"a"]

    run(main())


@given(
    names=st.sets(st.text("abc_", min_size=1, max_size=4)),
    internal=st.sets(st.text("abc_", min_size=1, max_size=4)),
    named=st.sets(st.text("abc", min_size=1, max_size=2)),
)
def test_what_is_chosen_fits_or_was_named(names: set[str], internal: set[str], named: set[str]) -> None:
    subscribed = Subscribed(frozenset(named), (re.compile("a"), re.compile("b+$")))
    chosen = subscribed.choose(topics(names, internal))
    assert named <= chosen <= named | names
    assert chosen - named == {
        name for name in names - internal - named if name[0] == "a" or (name[0] == "b" and set(name) == {"b"})
    }


@pytest.mark.parametrize("wrong", ["^(", "^*"])
def test_a_pattern_that_is_none_is_refused_at_once(log: FakeLog, wrong: str) -> None:
    with pytest.raises(ConfigError, match="no regular expression"):
        of_address([wrong])
    with Consumer(ADDRESS) as consumer:
        for call in (lambda: consumer.subscribe(wrong), lambda: consumer.subscribe(pattern=wrong)):
            with pytest.raises(UsageError, match="no regular expression"):
                call()
        with pytest.raises(UsageError, match="must be a string"):
            consumer.subscribe(pattern=re.compile(b"t"))  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="no topics to subscribe to"):
            consumer.subscribe([])
        with pytest.raises(UsageError, match="topics must be a name or a list of names, got None"):
            consumer.subscribe()


@pytest.mark.parametrize("scheme", ["kafka", "rocketmq"])
def test_our_node_is_read_by_pattern_whatever_it_is_asked_in(scheme: str) -> None:
    with Broker(listen=["kafka://127.0.0.1:0", "rocketmq://127.0.0.1:0"]) as node, Producer(node.address) as producer:
        node.create_topic("a-one")
        node.create_topic("b-one")
        with Consumer(f"{node.url(scheme)}/^a-", group="g", metadata_max_age_ms=200) as consumer:
            for name in ("a-one", "a-two"):
                if name == "a-two":
                    node.create_topic(name)
                producer.send(name, name.encode()).result(10)
                found = consumer.poll(20)
                assert [(message.topic, message.value) for message in found] == [(name, name.encode())]
                consumer.commit(found)
            assert consumer.subscription() == {"a-one", "a-two"}


def test_groups_that_share_subscriptions_name_their_topics() -> None:
    with (
        Broker(listen=["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]) as node,
        Consumer(node.url("tubemq"), group="g") as consumer,
        pytest.raises(UsageError, match="all members have to name the same topics"),
    ):
        consumer.subscribe("^a")
