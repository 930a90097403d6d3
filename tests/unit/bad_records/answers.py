"""Answers of which one part cannot be decoded, by protocol and kind: two good records before it, and good ones behind.

``Damaged`` says what is lost and where reading goes on. Bytes are damaged by hand; checksums fit wherever the kind is
not a wrong checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import google_crc32c
import pyarrow as pa

from penstock.interfaces import Fetched
from penstock.interfaces.client import ReadFrom
from penstock.model import Codec, Partition
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.client.fetch import KafkaFetched
from penstock.protocols.kafka.wire.fetch import FetchResponsePartition
from penstock.protocols.rocketmq.client.cluster import RocketOptions
from penstock.protocols.rocketmq.client.pulls import Got, RocketFetched
from penstock.protocols.rocketmq.wire.message_format import StoredMessage, write_stored
from penstock.protocols.tubemq.client.reading import Batch, TubeFetched
from penstock.protocols.tubemq.wire import records
from penstock.protocols.tubemq.wire.messages import GetMessageResponseB2C, TransferedMessage
from penstock.protocols.tubemq.wire.protobuf import encode
from penstock.records import encode_v2

HERE = Partition("t", 0)
Open = Callable[[int], Fetched]
"""What a fetch from this offset brings."""


@dataclass(frozen=True)
class Damaged:
    """``good`` are the values before and behind; ``bad`` is what is lost: first offset, next offset, raw bytes."""

    open: Open
    good: tuple[Sequence[bytes], Sequence[bytes]]
    bad: tuple[int, int, bytes | None]
    records: int = 1
    says: str = ""


def batch(base: int, count: int, codec: Codec = Codec.NONE) -> bytearray:
    values = pa.array([b"v%d" % n for n in range(base, base + count)], pa.binary())
    rows = pa.RecordBatch.from_arrays([values, values], names=["key", "value"])
    return bytearray(encode_v2(rows, base_offset=base, timestamp_ms=5, codec=codec))


def signed(data: bytearray) -> bytes:
    """With the checksum of what it holds now."""
    data[17:21] = struct.pack(">I", google_crc32c.value(bytes(data[21:])))
    return bytes(data)


def kafka(middle: bytes, *, behind: bytes | None = None) -> Open:
    whole = bytes(batch(0, 2)) + middle + (bytes(batch(5, 2)) if behind is None else behind)

    def opened(offset: int) -> Fetched:
        rest = whole if offset < 2 else whole[len(batch(0, 2)) :]
        rest = rest if offset < 5 else bytes(batch(5, 2))
        told = FetchResponsePartition(records=memoryview(rest), high_watermark=7)
        return KafkaFetched(ReadFrom(HERE, offset, 1), told, None, KafkaOptions())

    return opened


def _kafka_kinds() -> dict[str, Damaged]:
    before, behind = [b"v0", b"v1"], [b"v5", b"v6"]
    wrong_sum, bad_codec, bad_magic = batch(2, 3), batch(2, 3), batch(2, 3)
    wrong_sum[-3] ^= 1
    bad_codec[22] |= 7
    bad_magic[16] = 9
    stream = batch(2, 3)
    stream[22] |= Codec.GZIP
    inside = batch(2, 3)
    inside[61] = 0x7F
    crowded = batch(2, 3)
    crowded[57:61] = struct.pack(">i", 2**31 - 1)
    kinds = {
        "wrong checksum": (bytes(wrong_sum), "checksum"),
        "unknown codec": (signed(bad_codec), "codec"),
        "magic of no format": (bytes(bad_magic), "magic"),
        "not of its codec": (signed(stream), "gzip"),
        "malformed record": (signed(inside), "record"),
        "a count that lies": (signed(crowded), "do not fit"),
    }
    return {
        f"kafka, {kind}": Damaged(kafka(data), (before, behind), (2, 5, data), 3, says)
        for kind, (data, says) in kinds.items()
    }


def rocketmq(*stored: bytes) -> Open:
    def opened(offset: int) -> Fetched:
        got = Got(offset, len(stored), 0, len(stored), b"".join(stored[offset:]))
        return RocketFetched(Partition(HERE.topic, HERE.id, "broker-a"), offset, [got], RocketOptions())

    return opened


def stored(offset: int, body: bytes, sys_flag: int = 0) -> bytes:
    return write_stored(StoredMessage(topic="t", queue_offset=offset, body=body, sys_flag=sys_flag))


def _rocketmq_kinds() -> dict[str, Damaged]:
    plain = [stored(offset, b"v%d" % offset) for offset in range(5)]
    wrong_sum = bytearray(plain[2])
    wrong_sum[wrong_sum.index(b"v2")] ^= 1
    body_length = bytearray(plain[2])
    at = body_length.index(b"v2") - 4
    body_length[at : at + 4] = struct.pack(">i", 1_000)
    made = {
        "no zlib stream": (stored(2, b"no stream", 1), b"no stream", "zlib"),
        "no LZ4 frame": (stored(2, b"no stream", 0x101), b"no stream", "lz4"),
        "compressed in no known way": (stored(2, b"no stream", 0x701), b"no stream", "compressed in a way"),
        "wrong checksum of the body": (bytes(wrong_sum), b"w2", "checksum"),
        "a body beyond its message": (bytes(body_length), bytes(body_length), "body"),
    }
    return {
        f"rocketmq, {kind}": Damaged(
            rocketmq(*plain[:2], data, *plain[3:]), ([b"v0", b"v1"], [b"v3", b"v4"]), (2, 3, raw), 1, says
        )
        for kind, (data, raw, says) in made.items()
    }


def tubemq(*sent: bytes) -> Open:
    def opened(offset: int) -> Fetched:
        head = encode(GetMessageResponseB2C(success=True, err_code=200, err_msg="", curr_offset=offset))
        found = records.read_messages(memoryview(head + b"".join(sent[offset // 28 :])))
        return TubeFetched(ReadFrom(HERE, offset, 1), Batch(offset, 28 * len(sent), 28 * len(sent), found), None, ())

    return opened


def message(payload: bytes, *, flag: int = 0, off: int = 0) -> bytes:
    one = TransferedMessage(message_id=7, check_sum=records.checksum(payload) ^ off, pay_load_data=payload, flag=flag)
    return framed(encode(one))


def framed(one: bytes) -> bytes:
    return b"\x22" + bytes((len(one),)) + one


def _tubemq_kinds() -> dict[str, Damaged]:
    lying = b"\0\0\0\x09a"
    made = {
        "wrong checksum": (message(b"v2", off=1), b"v2", "damaged"),
        "attributes beyond the message": (message(lying, flag=1), lying, "damaged"),
        "no protobuf": (framed(b"\xff\xff\xff"), b"\xff\xff\xff", "field"),
        "a required field is missing": (framed(b"\x08\x07"), b"\x08\x07", "required"),
    }
    good = [message(b"v%d" % number) for number in range(5)]
    return {
        f"tubemq, {kind}": Damaged(
            tubemq(*good[:2], data, *good[3:]), ([b"v0", b"v1"], [b"v3", b"v4"]), (56, 84, raw), 1, says
        )
        for kind, (data, raw, says) in made.items()
    }


KINDS = {**_kafka_kinds(), **_rocketmq_kinds(), **_tubemq_kinds()}
