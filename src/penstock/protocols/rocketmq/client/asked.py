"""Asked: what brokers say of their own accord, written down for those whom it concerns.

A group's members changed (40); what became of this transaction (39); a group's offsets were reset (220). What an
operator asks members is `telling`'s. Anything else is let pass, as Java's clients do with what they do not know.
Source: Apache RocketMQ 4.9 and 5.4, ``ClientRemotingProcessor``.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from penstock.model import Endpoint
from penstock.protocols.rocketmq.client.resets import Resets
from penstock.protocols.rocketmq.client.telling import Telling
from penstock.protocols.rocketmq.command import RemotingCommand
from penstock.protocols.rocketmq.methods import (
    CHECK_TRANSACTION_STATE,
    NOTIFY_CONSUMER_IDS_CHANGED,
    RESET_CONSUMER_CLIENT_OFFSET,
)
from penstock.seams.channel import Connection

__all__ = ["Heard"]

_MOST_CHECKS: Final = 10_000


class Heard:
    """``noticed``: groups whose members changed. ``checks``: transactions that are asked about, and by which broker.
    ``resets``: groups that were put elsewhere. ``telling``: members that answer operators."""

    def __init__(self) -> None:
        self.noticed: set[str] = set()
        self.resets = Resets()
        self.telling = Telling()
        self.checks: deque[tuple[Endpoint, RemotingCommand]] = deque(maxlen=_MOST_CHECKS)

    def __call__(self, connection: Connection, asked: RemotingCommand) -> RemotingCommand | None:
        """Only what an operator asks is answered on the spot."""
        if asked.code == NOTIFY_CONSUMER_IDS_CHANGED.code:
            self.noticed.add(asked.fields.get("consumerGroup", ""))
        elif asked.code == CHECK_TRANSACTION_STATE.code:
            self.checks.append((connection.endpoint, asked))
        elif asked.code == RESET_CONSUMER_CLIENT_OFFSET.code:
            self.resets.told(asked)
        return self.telling.answer(asked)
