"""What became of a transaction. 37.

Source: Apache RocketMQ 4.9 and 5.x, ``EndTransactionProcessor``.
"""

from __future__ import annotations

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.call import Call, Reply
from penstock.protocols.rocketmq.front.faults import Refused

__all__ = ["end"]


async def end(call: Call, request: m.EndTransaction) -> Reply:
    """Serve end transaction; clients send it one-way, and are asked again where it got lost."""
    shared = call.shared
    found = await shared.places.find(request.commit_log_offset)
    if found is None or found[1] != request.tran_state_table_offset:
        raise Refused(Code.SYSTEM_ERROR, "The transaction state table offset wrong")
    await shared.transactions.end(*found, request.commit_log_offset, request.producer_group, request.commit_or_rollback)
    return Reply()
