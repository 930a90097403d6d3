"""InitProducerId, for idempotent and for transactional producers.

Source: Kafka protocol, InitProducerId v0-v5; KIP-98, KIP-360, KIP-588 (PRODUCER_FENCED from v4 on).
"""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.messages.produce import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["init_producer_id"]

_FENCED_SINCE = 4


async def init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Serve InitProducerId: a new id, or for a transactional id its own, in a new epoch."""
    if request.transactional_id is None:
        return await _idempotent(call)
    if not request.transactional_id or (request.producer_id < 0) != (request.producer_epoch < 0):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)
    if not call.shared.enode.abilities.transactions:
        # Of all codes the one that producers give up on: librdkafka asks on for ever where a version is unsupported.
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    try:
        code, producer_id, epoch = await call.shared.transactions.init(
            request.transactional_id,
            request.transaction_timeout_ms,
            request.producer_id,
            request.producer_epoch,
            call.line.address.host,
        )
    except PenstockError:
        code, producer_id, epoch = ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1
    if code is ErrorCode.PRODUCER_FENCED and call.version < _FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(error_code=code, producer_id=producer_id, producer_epoch=epoch)


async def _idempotent(call: Call) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=await call.shared.producer_ids.idempotent(), producer_epoch=0)
    except PenstockError:
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, producer_id=-1, producer_epoch=-1)
