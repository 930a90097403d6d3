"""What a producer says of topics that are not there, once it has waited for them.

What must not live here: when a record's topic counts as not there.
"""

from __future__ import annotations

import asyncio
from typing import Final

from penstock.client._surroundings import Backoff
from penstock.errors import ConnectionLost, PenstockError, RequestTimeout, UsageError
from penstock.model import Partition
from penstock.seams import LogClient

__all__ = ["no_topic", "partitions_of", "unknown_topic"]

_CREATE_IT: Final = "Create it first: Admin.create_topics(), or `penstock topics create`"


def unknown_topic(topic: str, timeout_ms: int) -> UsageError:
    """The servers were asked, and have none of that name."""
    message = f"the servers know no such topic, asked for unknown_topic_timeout_ms={timeout_ms}"
    return UsageError(message, topic=topic, hint=f"Check its name. {_CREATE_IT}")


def no_topic(topic: str, timeout_ms: int, trouble: PenstockError | None) -> PenstockError:
    """No server could be asked; ``trouble`` is what the last attempt met."""
    message = f"nobody could tell within max_block_ms={timeout_ms} whether there is such a topic"
    if trouble is None:
        return ConnectionLost(
            message, topic=topic, hint="Is a server there? Warnings of penstock.connection say why not"
        )
    kind = RequestTimeout if isinstance(trouble, RequestTimeout) else ConnectionLost
    return kind(f"{message}: {trouble.message}", topic=topic, node=trouble.node, hint=trouble.hint)


async def partitions_of(client: LogClient, topic: str, timeout_ms: int, backoff: Backoff) -> tuple[Partition, ...]:
    """A topic's partitions. Raises UsageError if there is none of that name for so long."""
    deadline = asyncio.get_running_loop().time() + timeout_ms / 1_000
    failures = 0
    found = (await client.topics([topic])).get(topic)
    while found is None or not found.partitions:
        failures += 1
        pause = backoff.seconds(failures)
        if asyncio.get_running_loop().time() + pause > deadline:
            raise unknown_topic(topic, timeout_ms)
        await asyncio.sleep(pause)
        found = (await client.topics([topic], fresh=True)).get(topic)
    return tuple(info.partition for info in found.partitions)
