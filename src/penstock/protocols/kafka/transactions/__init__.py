"""The transaction coordinator's decisions: a state table over plain data, with clock and ids passed in."""

from penstock.protocols.kafka.transactions.decisions import (
    ANSWERS,
    asks_again,
    end_event,
    holder_fault,
    may_take_over,
    may_write,
    step,
)
from penstock.protocols.kafka.transactions.states import TABLE, Effect, Event, Row, State
from penstock.protocols.kafka.transactions.transaction import LARGEST_EPOCH, Cause, Transaction

__all__ = [
    "ANSWERS",
    "LARGEST_EPOCH",
    "TABLE",
    "Cause",
    "Effect",
    "Event",
    "Row",
    "State",
    "Transaction",
    "asks_again",
    "end_event",
    "holder_fault",
    "may_take_over",
    "may_write",
    "step",
]
