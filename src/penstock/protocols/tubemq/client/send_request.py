"""Building requests that store one message each: everything but the message is encoded once for a partition.

Protobuf takes the last value of a field that stands twice, so the message's own fields are put behind a whole request
with placeholders. Source: protobuf encoding guide ("Last One Wins"); Apache InLong TubeMQ 2.x, broker method 13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.model import Partition
from penstock.protocols.tubemq.framing import frame
from penstock.protocols.tubemq.messages import (
    AuthorizedInfo,
    RequestBody,
    RequestHeader,
    RpcConnHeader,
    SendMessageRequestP2B,
    encode,
)
from penstock.protocols.tubemq.methods import SEND_MESSAGE
from penstock.protocols.tubemq.rpc import PROTOCOL_VERSION
from penstock.protocols.tubemq.wire_fields import varint
from penstock.seams.channel import Outgoing

if TYPE_CHECKING:
    from penstock.protocols.tubemq.records import Payloads

__all__ = ["SendRequests"]

_FLAG: Final = b"\x28"
_CHECK_SUM: Final = b"\x30"
_DATA: Final = b"\x22"
_MSG_TYPE: Final = b"\x42"
_MSG_TIME: Final = b"\x4a"
_REQUEST: Final = b"\x1a"


class SendRequests:
    """Requests to one partition, all alike but for the message."""

    __slots__ = ("_before", "_body", "_message")

    def __init__(
        self, partition: Partition, client_id: str, address: int, authorization: AuthorizedInfo, timeout_ms: int
    ) -> None:
        header = RequestHeader(service_type=SEND_MESSAGE.services[0], protocol_ver=PROTOCOL_VERSION)
        self._before = b"".join(_delimited(encode(unit)) for unit in (RpcConnHeader(flag=0), header))
        self._body = encode(RequestBody(method=SEND_MESSAGE.number, timeout=timeout_ms))
        self._message = encode(
            SendMessageRequestP2B(
                client_id=client_id,
                topic_name=partition.topic,
                partition_id=partition.id,
                data=b"",
                flag=0,
                check_sum=0,
                sent_addr=address,
                auth_info=authorization,
            )
        )

    def request(self, payloads: Payloads, row: int) -> Outgoing:
        """The request for one row."""
        data = payloads.payload(row)
        own = [
            self._message, _FLAG, varint(int(payloads.flags[row])), _CHECK_SUM, varint(int(payloads.checksums[row])),
        ]  # fmt: skip
        item = payloads.msg_type(row)
        if item is not None:
            own += [_MSG_TYPE, _delimited(item.encode())]
            minute = payloads.msg_time(row)
            if minute is not None:
                own += [_MSG_TIME, _delimited(minute.encode())]
        own += [_DATA, varint(len(data))]
        fields = b"".join(own)
        size = len(fields) + len(data)
        wrapped = self._body + _REQUEST + varint(size)
        head = b"".join((self._before, varint(len(wrapped) + size), wrapped, fields))
        return lambda serial: frame(serial, [head, data])


def _delimited(unit: bytes) -> bytes:
    return varint(len(unit)) + unit
