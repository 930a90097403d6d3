"""Any bytes as a broker's answers: consumers, producers and admins raise errors of ours, or believe them, and end.

An input is the number of a use and the answers to its requests in turn, without their sizes, parted by ``MARK``. The
highest bit of the number makes sizes and correlation ids lie, too.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from penstock.client import AsyncAdmin, AsyncConsumer, AsyncProducer, ResetTo
from penstock.errors import PenstockError
from penstock.interfaces import Buffers, Frame, NewTopic, Peer
from penstock.model import Partition
from penstock.net.server import Handle
from penstock.protocols.kafka.wire.framing import read_header
from tests.fuzz.lying_broker import ADDRESS, Everywhere, over
from tests.fuzz.memory_taken import no_more_memory
from tests.fuzz.node_conversations import TOPIC, batch, produced
from tests.fuzz.node_in_memory import World, errors_noted, in_virtual_time
from tests.vectors.kafka_frames.recorded import files, recorded

MARK: Final = b"\xfa\xce\x0f\xf0"
_LONGEST = 4_000
_OTHERS = 3
_PATIENCE_S = 600
_HASTY: Final[dict[str, Any]] = {
    "request_timeout_ms": 200,
    "api_timeout_ms": 500,
    "retry_backoff_ms": 50,
    "retry_backoff_max_ms": 100,
}
_READER: Final = {**_HASTY, "fetch_max_wait_ms": 50}
_PARTITION = Partition(TOPIC, 0)


Kind = tuple[int, int]
"""API key and version."""


async def look(seen: Seen) -> None:
    """Everything an admin can ask."""
    async with AsyncAdmin(ADDRESS, **_READER) as admin:
        await seen(admin.topics)
        await seen(admin.groups)
        await seen(lambda: admin.describe_group("g"))
        await seen(lambda: admin.topic_config(TOPIC))
        await seen(lambda: admin.end_offsets([_PARTITION]))
        await seen(lambda: admin.offsets_for_times({_PARTITION: 5}))
        await seen(lambda: admin.lag("g"))
        await seen(lambda: admin.group_offsets("g"))


async def change(seen: Seen) -> None:
    """Everything an admin can do."""
    async with AsyncAdmin(ADDRESS, **_READER) as admin:
        await seen(lambda: admin.create_topics([NewTopic("new", 2)]))
        await seen(lambda: admin.add_partitions("new", 3))
        await seen(lambda: admin.delete_records({_PARTITION: 1}))
        await seen(lambda: admin.commit("g", {_PARTITION: 1}))
        await seen(lambda: admin.reset_offsets("g", ResetTo.earliest(), execute=True))
        await seen(lambda: admin.delete_offsets("g", [_PARTITION]))
        await seen(lambda: admin.remove_members("g", ["one"]))
        await seen(lambda: admin.remove_members("g"))
        await seen(lambda: admin.delete_groups(["g"]))
        await seen(lambda: admin.delete_topics(["new"]))


async def read(seen: Seen, **options: Any) -> None:
    """Poll, look at every record, commit if there is a group."""
    async with AsyncConsumer(f"{ADDRESS}/{TOPIC}", **_READER, **options) as consumer:
        for _ in range(2):
            messages = await seen(lambda: consumer.poll(0.3))
            if messages:
                messages.to_arrow().validate(full=True)
                list(messages)
            for partition in consumer.assignment():
                await seen(partial(consumer.position, partition))
        if "group" in options:
            await seen(consumer.commit)
            await seen(lambda: consumer.committed([_PARTITION]))


async def read_in_a_group(seen: Seen) -> None:
    """The same as a member."""
    await read(seen, group="g", heartbeat_interval_ms=50, session_timeout_ms=6_000)


async def write(seen: Seen) -> None:
    """Send a few records."""
    async with AsyncProducer(ADDRESS, delivery_timeout_ms=1_000, max_block_ms=500, **_HASTY) as producer:
        deliveries = [await producer.send(TOPIC, b"%d" % number, partition=number % 2) for number in range(3)]
        for delivery in deliveries:
            await seen(partial(_of, delivery))


async def _of(delivery: Awaitable[object]) -> object:
    return await delivery


class Seen:
    """Does something and notes how it ended; errors that are not ours go through."""

    def __init__(self) -> None:
        self.ends: list[str] = []

    async def __call__(self, work: Callable[[], Awaitable[Any]]) -> Any:
        try:
            result = await work()
        except PenstockError as error:
            self.ends.append(f"{type(error).__name__}: {error.message}")
            return None
        self.ends.append(type(result).__name__)
        return result


USES: Final = (look, change, read, read_in_a_group, write)


def run(data: bytes) -> str:
    """Use a client of a broker that answers with ``data``."""
    use = USES[data[0] % len(USES)] if data else look
    bugs: list[BaseException] = []
    seen = Seen()

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: bugs.append(context.get("exception") or RuntimeError(str(context)))
        )
        over(Everywhere(data[1:].split(MARK), shuffled=data[:1] >= b"\x80"))
        async with asyncio.timeout(_PATIENCE_S):
            await seen(lambda: use(seen))

    with no_more_memory(), errors_noted(bugs), the_same_dice():
        in_virtual_time(main())
    if bugs:
        raise AssertionError(f"{len(bugs)} errors were only logged") from bugs[0]
    return re.sub("[0-9]+", "#", f"{use.__name__} {seen.ends}")


@contextmanager
def the_same_dice() -> Iterator[None]:
    """Backoffs are drawn from the process's dice."""
    before = random.getstate()
    random.seed(0)
    try:
        yield
    finally:
        random.setstate(before)


def seeds() -> Iterator[bytes]:
    """What a good node answers to each use, and the same with an answer of another broker in its place."""
    heard: dict[Kind, list[bytes]] = {}
    for name in files():
        for frame in recorded(name):
            if not frame.is_request and len(frame.wire) <= _LONGEST:
                heard.setdefault((frame.api_key, frame.version), []).append(bytes(frame.body))
    for number, use in enumerate(USES):
        good = _good_answers(use)
        answers = [answer for _, answer in good]
        yield bytes([number]) + MARK.join(answers)
        for place, (kind, _) in enumerate(good):
            for other in heard.get(kind, ())[:_OTHERS]:
                yield bytes([number]) + MARK.join([*answers[:place], other, *answers[place + 1 :]])


def _good_answers(use: Callable[[Seen], Awaitable[None]]) -> list[tuple[Kind, bytes]]:
    bugs: list[BaseException] = []
    answers: list[tuple[Kind, bytes]] = []

    async def tap(peer: Peer, frame: Frame, handle: Handle) -> Buffers | None:
        header, _ = read_header(frame.body)
        kind = header.api_key, header.api_version
        place = len(answers)
        answers.append((kind, b""))
        answer = await handle(frame)
        answers[place] = kind, b"".join(answer or ())[4:]
        return answer

    async def main() -> None:
        world = World(bugs, tap)
        async with world.node:
            await world.node.enode.create_topic(TOPIC, 2, {})
            await world.ask(await world.line(), produced(batch(b"a", b"b")), 9)
            answers.clear()
            over(world.network)
            await use(Seen())

    with errors_noted(bugs), the_same_dice():
        in_virtual_time(main())
    if bugs:
        raise PenstockError("a good use failed") from bugs[0]
    return answers
