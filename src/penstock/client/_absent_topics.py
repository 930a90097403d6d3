"""What a producer says of topics that are not there. What must not live here: deciding that they are not."""

from __future__ import annotations

from typing import Final

from penstock.errors import ConnectionLost, PenstockError, RequestTimeout, UsageError

__all__ = ["no_topic", "unknown_topic"]

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
