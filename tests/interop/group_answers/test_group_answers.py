"""Groups, asked step by step in every state: our node answers as a real broker does."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from penstock.protocols.kafka.wire.topics import CreateTopicsRequest, CreateTopicsRequestTopic
from penstock.testing import Broker, NodeProcess
from tests.interop.group_answers import beating, joining, migrating, offsets, rounds, static, timing
from tests.interop.group_answers.asking import Script, Told, asking
from tests.interop.group_answers.restarting import restarted
from tests.interop.peers.fixtures import KafkaBroker
from tests.interop.wire import wired
from tools.peers import kafka
from tools.peers.maven import Unavailable

pytestmark = pytest.mark.interop

SHORT: Final = {**rounds.SCRIPTS, **static.SHORT}
LONG: Final = {**joining.SCRIPTS, **static.SCRIPTS, **offsets.SCRIPTS}
SCRIPTS: Final[Mapping[str, Script]] = {**SHORT, **LONG, **timing.SCRIPTS, **beating.SCRIPTS, **migrating.SCRIPTS}

KNOWN: Final[Mapping[str, str]] = {
    "bounds/refused: DescribeGroupsRequest v6": (
        "A real broker keeps a group that was made for a join it then refused, until it looks for unused ones."
    ),
    "rounds/twice: (a joins v9|b syncs v5|the first join|the first sync)": (
        "Who asks again while its first request waits has lost that one: a real broker never answers it, ours says 27."
    ),
    "coordinators/: .* of type (2|9|-1) v[1-6]": (
        "Ours says which type it does not know. Shares (type 2, which v6 may ask for) are not served."
    ),
    "group_bounds/handed out: p[34] joins v9": (
        "Ids that were handed out and not used yet are bounded, too: each is memory that a stranger takes."
    ),
    "killed/(handed out|completing): (DescribeGroupsRequest v6.*|a commits v9 )": (
        "A real broker writes each new group down before anybody is in it; ours with its first assignment, so that"
        " who only asks for ids leaves nothing in the log."
    ),
    "shared/offsets: a fetches offsets v9 member_id=None": (
        "A real broker stumbles over a member epoch without a member (-1); ours says that there is no such member."
    ),
    "migrated_refused/nothing to choose from: x joins v3": (
        "A real broker fails on a subscription that it cannot read (-1); ours says that it does not fit."
    ),
    r"(beaten|changing)/.*subscribed_topic_regex=\(.*": (
        "Both say what is wrong with the pattern, each in the words of its own RE2."
    ),
}
"""Where ours differs, by script and answer, and why."""


async def new_topic(bootstrap: str, partitions: int = 3) -> tuple[str, bytes]:
    name = f"t-{uuid.uuid4().hex[:8]}"
    wanted = CreateTopicsRequestTopic(name=name, num_partitions=partitions, replication_factor=1)
    async with wired(bootstrap) as wire:
        made = await wire.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=9_000), 7)
    return name, bytes(made.topics[0].topic_id)


def answers(bootstrap: str, script: str) -> Told:
    async def main() -> Told:
        partitions = migrating.PARTITIONS if script in migrating.SCRIPTS else 3
        async with asking(bootstrap, *await new_topic(bootstrap, partitions)) as asked:
            await SCRIPTS[script](asked)
            return asked.found

    return asyncio.run(asyncio.wait_for(main(), 100))


def answers_of_killed(bootstrap: str, restart: Callable[[], None]) -> Told:
    async def main() -> Told:
        return await restarted(bootstrap, *await new_topic(bootstrap), restart)

    return asyncio.run(asyncio.wait_for(main(), 100))


def compare(script: str, theirs: Told, ours: Told) -> None:
    assert list(theirs) == list(ours)
    differing = {f"{script}/{what}": (their, ours[what]) for what, their in theirs.items() if their != ours[what]}
    known = {what for what in differing if any(re.fullmatch(each, what) for each in KNOWN)}
    assert {what: both for what, both in differing.items() if what not in known} == {}
    mended = [each for each in KNOWN if each.startswith(f"{script}/") and not any(re.fullmatch(each, k) for k in known)]
    assert mended == []


@pytest.mark.parametrize("script", [*SHORT, *(pytest.param(each, marks=pytest.mark.long) for each in LONG)])
def test_our_node_answers_as_a_real_broker(kafka_broker: KafkaBroker, broker: Broker, script: str) -> None:
    compare(script, answers(kafka_broker().bootstrap, script), answers(broker.bootstrap, script))


def _kafka(folder: Path, settings: Mapping[str, str]) -> Iterator[kafka.Broker]:
    try:
        with kafka.broker(folder, settings=settings) as started:
            yield started
    except Unavailable as reason:
        pytest.skip(f"no Kafka to test with: {reason}")


@pytest.fixture(scope="module")
def hasty_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Broker]:
    """A real broker with short sessions, a first delay and small groups."""
    yield from _kafka(tmp_path_factory.mktemp("hasty"), timing.THEIRS)


@pytest.mark.long
@pytest.mark.parametrize("script", timing.SCRIPTS)
def test_our_node_answers_as_a_real_broker_when_time_passes(
    hasty_kafka: kafka.Broker, tmp_path: Path, script: str
) -> None:
    with Broker(f"file:{tmp_path}", **timing.OURS) as broker:
        compare(script, answers(hasty_kafka.bootstrap, script), answers(broker.bootstrap, script))


@pytest.fixture(scope="module")
def newer_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Broker]:
    """A real broker that shares out at once, and keeps groups what they are."""
    yield from _kafka(tmp_path_factory.mktemp("newer"), beating.THEIRS)


@pytest.mark.long
@pytest.mark.parametrize("script", beating.SCRIPTS)
def test_our_node_answers_newer_groups_as_a_real_broker(newer_kafka: kafka.Broker, tmp_path: Path, script: str) -> None:
    with Broker(f"file:{tmp_path}", **beating.OURS) as broker:
        compare(script, answers(newer_kafka.bootstrap, script), answers(broker.bootstrap, script))


@pytest.fixture(scope="module")
def converting_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Broker]:
    """A real broker that shares out at once, and converts groups."""
    yield from _kafka(tmp_path_factory.mktemp("converting"), migrating.THEIRS)


@pytest.mark.long
@pytest.mark.parametrize("script", migrating.SCRIPTS)
def test_our_node_converts_groups_as_a_real_broker(converting_kafka: kafka.Broker, broker: Broker, script: str) -> None:
    compare(script, answers(converting_kafka.bootstrap, script), answers(broker.bootstrap, script))


@pytest.mark.long
def test_our_node_comes_back_with_the_groups_that_a_real_broker_does(tmp_path: Path) -> None:
    try:
        theirs = kafka.broker_process(tmp_path / "theirs")
    except Unavailable as reason:
        pytest.skip(f"no Kafka to test with: {reason}")

    def again(node: NodeProcess | kafka.BrokerProcess) -> Callable[[], None]:
        def restart() -> None:
            node.kill()
            node.start()

        return restart

    with theirs, NodeProcess(tmp_path / "ours") as ours:
        expected = answers_of_killed(theirs.endpoint, again(theirs))
        compare("killed", expected, answers_of_killed(ours.bootstrap, again(ours)))
