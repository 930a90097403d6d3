"""Building requests that store one message each, and reading their answers: a small message should cost little more
than its bytes.

All that differs between the requests to one partition are the message, four lengths and two numbers. So there is one
template, in which those have fixed places: varints of a fixed width, longer than need be, which protobuf allows. A
field that stands twice counts with its last value, so the message's own fields are put behind a whole request with
placeholders. Source: protobuf encoding guide ("Base 128 Varints", "Last One Wins"); Apache InLong TubeMQ 2.x, broker
method 13.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.interfaces.channel import Many, Outgoing
from penstock.interfaces.framing import Buffer, Buffers, Frame
from penstock.model import Node, Partition
from penstock.protocols.tubemq.framing import BLOCK_BYTES, TOKEN, frame
from penstock.protocols.tubemq.messages import (
    AuthorizedInfo,
    RequestBody,
    RequestHeader,
    RpcConnHeader,
    RspResponseBody,
    SendMessageRequestP2B,
    SendMessageResponseB2P,
    decode,
    encode,
)
from penstock.protocols.tubemq.methods import SEND_MESSAGE
from penstock.protocols.tubemq.records.handful import FewPayloads
from penstock.protocols.tubemq.rpc import PROTOCOL_VERSION, read_answer, request
from penstock.protocols.tubemq.wire_fields import varint

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from penstock.protocols.tubemq.records import Payloads

    AnyPayloads: TypeAlias = "Payloads | FewPayloads"

__all__ = ["SendRequests", "read_sent"]

_FLAG: Final = b"\x28"
_CHECK_SUM: Final = b"\x30"
_DATA: Final = b"\x22"
_REQUEST: Final = b"\x1a"
_SUCCESS: Final = b"\x08\x00"
_LENGTH_WIDTH: Final = 4
_CHECK_SUM_WIDTH: Final = 5
_HEAD: Final = struct.Struct(">Iiii")


class SendRequests:
    """Requests to one partition, all alike but for the message."""

    def __init__(
        self, partition: Partition, client_id: str, address: int, authorization: AuthorizedInfo, timeout_ms: int
    ) -> None:
        self._timeout_ms = timeout_ms
        self._authorization = authorization
        self._like = SendMessageRequestP2B(
            client_id=client_id,
            topic_name=partition.topic,
            partition_id=partition.id,
            data=b"",
            flag=0,
            check_sum=0,
            sent_addr=address,
            auth_info=authorization,
        )
        header = RequestHeader(service_type=SEND_MESSAGE.services[0], protocol_ver=PROTOCOL_VERSION)
        before = b"".join(varint(len(unit)) + unit for unit in map(encode, (RpcConnHeader(flag=0), header)))
        body = encode(RequestBody(method=SEND_MESSAGE.number, timeout=timeout_ms)) + _REQUEST
        message = encode(self._like)
        length = bytes(_LENGTH_WIDTH)
        template = before
        self._body_size_at = len(template)
        template += length + body
        self._message_size_at = len(template)
        template += length + message + _FLAG
        self._flag_at = len(template)
        template += b"\0" + _CHECK_SUM
        self._check_sum_at = len(template)
        template += bytes(_CHECK_SUM_WIDTH) + _DATA
        self._data_size_at = len(template)
        self._template = template + length

    def serves(self, authorization: AuthorizedInfo, timeout_ms: int) -> bool:
        """Whether these are the requests for that, too."""
        return timeout_ms == self._timeout_ms and authorization == self._authorization

    def requests(self, payloads: AnyPayloads, rows: Sequence[int]) -> list[Outgoing]:
        """The requests for some rows."""
        if payloads.filters is not None:
            return [self._with_filter(payloads, row) for row in rows]
        heads, width = self._heads(payloads, rows), len(self._template)
        return [
            _framed(heads[place * width : (place + 1) * width], payloads.payload(row)) for place, row in enumerate(rows)
        ]

    def together(self, payloads: AnyPayloads, rows: Sequence[int]) -> Many:
        """The same in one piece: nothing is made for each of them but its bytes."""
        sizes = payloads.sizes()
        width = len(self._template)
        if payloads.filters is not None or width + max(sizes[row] for row in rows) > BLOCK_BYTES:
            each = self.requests(payloads, rows)
            return lambda serials: [piece for one, serial in zip(each, serials, strict=True) for piece in one(serial)]
        heads = self._heads(payloads, rows)
        head, payload = _HEAD.pack, payloads.payload

        def write(serials: Sequence[int]) -> Buffers:
            pieces: list[Buffer] = []
            at = 0
            for row, serial in zip(rows, serials, strict=True):
                pieces += (head(TOKEN, serial, 1, width + sizes[row]), heads[at : at + width], payload(row))
                at += width
            return (b"".join(pieces),)

        return write

    def _heads(self, payloads: AnyPayloads, rows: Sequence[int]) -> bytes:
        """All that stands before the payloads of these rows, without a frame's own beginning, one behind the other."""
        if isinstance(payloads, FewPayloads):
            return b"".join(self._head(payloads, row) for row in rows)
        import numpy as np

        chosen = np.asarray(rows, np.int64)
        sizes = (payloads.ends[chosen + 1] - payloads.ends[chosen]).astype(np.int64)
        width = len(self._template)
        heads = np.empty((len(rows), width), np.uint8)
        heads[:] = np.frombuffer(self._template, np.uint8)
        behind_body = self._body_size_at + _LENGTH_WIDTH
        behind_message = self._message_size_at + _LENGTH_WIDTH
        _put(heads, self._body_size_at, _LENGTH_WIDTH, sizes + (width - behind_body))
        _put(heads, self._message_size_at, _LENGTH_WIDTH, sizes + (width - behind_message))
        heads[:, self._flag_at] = payloads.flags[chosen] & 0x7F
        _put(heads, self._check_sum_at, _CHECK_SUM_WIDTH, payloads.checksums[chosen].astype(np.int64))
        _put(heads, self._data_size_at, _LENGTH_WIDTH, sizes)
        return heads.tobytes()

    def _head(self, payloads: FewPayloads, row: int) -> bytes:
        size = len(payloads.data[row])
        head = bytearray(self._template)
        behind_body = self._body_size_at + _LENGTH_WIDTH
        behind_message = self._message_size_at + _LENGTH_WIDTH
        head[self._body_size_at : behind_body] = _wide(size + len(head) - behind_body)
        head[self._message_size_at : behind_message] = _wide(size + len(head) - behind_message)
        head[self._flag_at] = payloads.flags[row] & 0x7F
        summed = payloads.checksums[row]
        head[self._check_sum_at : self._check_sum_at + _CHECK_SUM_WIDTH] = _wide(summed, _CHECK_SUM_WIDTH)
        head[self._data_size_at :] = _wide(size)
        return bytes(head)

    def _with_filter(self, payloads: AnyPayloads, row: int) -> Outgoing:
        """A request whose message says its filter item; encoded by the protobuf library."""
        message = SendMessageRequestP2B(
            client_id=self._like.client_id,
            topic_name=self._like.topic_name,
            partition_id=self._like.partition_id,
            data=bytes(payloads.payload(row)),
            flag=int(payloads.flags[row]),
            check_sum=int(payloads.checksums[row]),
            sent_addr=self._like.sent_addr,
            msg_type=payloads.msg_type(row),
            msg_time=payloads.msg_time(row),
            auth_info=self._like.auth_info,
        )
        return request(SEND_MESSAGE, message, timeout_ms=self._timeout_ms)


def read_sent(frame: Frame, node: Node) -> SendMessageResponseB2P:
    """The answer to one request. Those that succeeded, and look as real servers write them, are read by the protobuf
    library alone: they are many. Raises RpcFailure, ProtocolViolation."""
    body = bytes(frame.body)
    # Three units, each behind a length of one byte; the second begins with the status, 0.
    second = 1 + body[0] if body else 0
    third = second + 1 + body[second] if second < len(body) else len(body)
    whole = third + 1 < len(body) and body[third] == len(body) - third - 1 < 128
    if whole and body[second + 1 : second + 3] == _SUCCESS:
        wrapped = decode(RspResponseBody, body[third + 1 :])
        if wrapped.method == SEND_MESSAGE.number:
            return decode(SendMessageResponseB2P, wrapped.data)
    return read_answer(SEND_MESSAGE, frame, node=str(node.endpoint))


def _put(heads: npt.NDArray[np.uint8], at: int, width: int, numbers: npt.NDArray[np.int64]) -> None:
    """Write numbers as varints of ``width`` bytes into their place in every row."""
    for byte in range(width):
        last = byte == width - 1
        heads[:, at + byte] = (numbers >> (7 * byte)) & 0x7F | (0 if last else 0x80)


def _wide(number: int, width: int = _LENGTH_WIDTH) -> bytes:
    """A varint of ``width`` bytes, however small."""
    last = width - 1
    return bytes((number >> (7 * byte)) & 0x7F | (0 if byte == last else 0x80) for byte in range(width))


def _framed(head: bytes, payload: Buffer) -> Outgoing:
    size = len(head) + len(payload)
    if size > BLOCK_BYTES:
        return lambda serial: frame(serial, [head, payload])
    return lambda serial: [_HEAD.pack(TOKEN, serial, 1, size), head, payload]
