"""InitProducerId for idempotent producers. Source: Kafka protocol, InitProducerId v0-v4; KIP-98, KIP-360."""

from __future__ import annotations

from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["init_producer_id"]


async def init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Serve InitProducerId: always a new id; transactional producers are refused, so that they fail at once."""
    if request.transactional_id is not None:
        return InitProducerIdResponse(
            error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, producer_id=-1, producer_epoch=-1
        )
    return InitProducerIdResponse(producer_id=call.shared.producer_ids.new(), producer_epoch=0)
