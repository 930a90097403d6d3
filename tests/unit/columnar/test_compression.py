"""Payloads as other people's libraries write them, payloads that lie, and bombs."""

import gzip
import hashlib
import struct
import tracemalloc
from collections.abc import Callable

import cramjam
import pyarrow as pa
import pytest

from penstock.errors import CorruptBatch
from penstock.model import Codec
from penstock.records.compression import Arena, compress, inflate, inflate_into

PACKED = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b"".join(b'{"id": %d, "city": "Paris"}' % number for number in range(9_000))


def lz4_frame(flags: int, blocks: list[bytes], *, head: bytes = b"", checksum: int = 0) -> bytes:
    frame = struct.pack("<IBB", 0x184D2204, flags, 0x40) + head + bytes([checksum])
    return frame + b"".join(struct.pack("<I", len(block)) + block for block in blocks) + bytes(4)


def lz4_block(data: bytes) -> bytes:
    return bytes(cramjam.lz4.compress_block(data, store_size=False))


def zstd_without_a_size(data: bytes) -> bytes:
    packer = cramjam.zstd.Compressor()
    packer.compress(data)
    return bytes(packer.finish())


FOREIGN: dict[str, tuple[Codec, Callable[[bytes], bytes]]] = {
    "gzip of the standard library": (Codec.GZIP, gzip.compress),
    "gzip of two members": (Codec.GZIP, lambda data: gzip.compress(data[:70]) + gzip.compress(data[70:])),
    "snappy without framing": (Codec.SNAPPY, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "lz4 of Arrow": (Codec.LZ4, lambda data: pa.Codec("lz4").compress(data, asbytes=True)),
    "lz4 of cramjam with dependent blocks": (Codec.LZ4, lambda data: bytes(cramjam.lz4.compress(data))),
    "lz4 of two frames": (Codec.LZ4, lambda data: bytes(compress(Codec.LZ4, data[:9]) + compress(Codec.LZ4, data[9:]))),
    "lz4 with a wrong header checksum": (
        Codec.LZ4,
        lambda data: lz4_frame(
            0x60, [lz4_block(data[at : at + 65536]) for at in range(0, len(data), 65536)], checksum=1
        ),
    ),
    "lz4 with a content size": (
        Codec.LZ4,
        lambda data: lz4_frame(
            0x68, [lz4_block(data[at : at + 65536]) for at in range(0, len(data), 65536)], head=bytes(8)
        ),
    ),
    "zstd of Arrow": (Codec.ZSTD, lambda data: pa.Codec("zstd").compress(data, asbytes=True)),
    "zstd without a size": (Codec.ZSTD, zstd_without_a_size),
    "zstd of two frames": (
        Codec.ZSTD,
        lambda data: bytes(cramjam.zstd.compress(data[:70])) + zstd_without_a_size(data[70:]),
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("data", [TEXT, TEXT[:100], bytes(range(256)) * 700], ids=["text", "short", "long"])
def test_what_others_write_is_read(name: str, data: bytes) -> None:
    codec, write = FOREIGN[name]
    assert inflate(codec, write(data)) == data


@pytest.mark.parametrize("codec", PACKED)
def test_a_payload_that_needs_far_more_room_than_guessed_is_read(codec: Codec) -> None:
    data = bytes(3_000_000)
    assert inflate(codec, compress(codec, data)) == data


def test_snappy_is_written_in_blocks_of_32_kib() -> None:
    packed = bytes(compress(Codec.SNAPPY, TEXT))
    assert packed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    (length,) = struct.unpack_from(">i", packed, 16)
    assert cramjam.snappy.decompress_raw_len(packed[20 : 20 + length]) == 32 * 1024


def test_lz4_is_written_as_java_wants_it() -> None:
    packed = bytes(compress(Codec.LZ4, TEXT))
    # Version 1, independent blocks (Java refuses others), no checksums, blocks of 64 KiB, a right header checksum.
    assert packed[:7] == bytes.fromhex("04224d18604082")
    assert packed[-4:] == bytes(4)
    assert bytes(cramjam.lz4.decompress(packed)) == TEXT


def test_lz4_stores_what_does_not_shrink() -> None:
    noise = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(625))
    packed = bytes(compress(Codec.LZ4, noise))
    assert len(packed) == len(noise) + 7 + 4 + 4
    assert inflate(Codec.LZ4, packed) == noise


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("data", [b"", b"\x00", b"not packed at all", bytes(200)])
def test_what_is_no_payload_of_the_codec_is_an_error(codec: Codec, data: bytes) -> None:
    if codec is Codec.SNAPPY and data == b"\x00":
        return  # raw snappy of nothing
    with pytest.raises(CorruptBatch):
        inflate(codec, data)


@pytest.mark.parametrize("codec", PACKED)
def test_a_payload_cut_anywhere_is_an_error(codec: Codec) -> None:
    packed = bytes(compress(codec, TEXT[:3_000]))
    for cut in range(1, len(packed), 7):
        if codec is Codec.SNAPPY and cut == 16:
            continue  # xerial's head alone is a stream without blocks
        with pytest.raises(CorruptBatch):
            inflate(codec, packed[:cut])


@pytest.mark.parametrize("codec", PACKED)
def test_exactly_the_limit_is_allowed_and_one_byte_more_is_not(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert inflate(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(CorruptBatch, match=f"inflates to more than {len(TEXT) - 1} bytes"):
        inflate(codec, packed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_refused_before_it_is_inflated(codec: Codec) -> None:
    bomb = bytes(compress(codec, bytes(100 << 20)))
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match="inflates to more than 1000000 bytes"):
            inflate(codec, bomb, 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    assert pa.total_allocated_bytes() - before < 4_000_000


def test_a_snappy_length_that_lies_allocates_nothing() -> None:
    with pytest.raises(CorruptBatch, match="inflates to more than"):
        inflate(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(20), 1 << 20)


def test_a_damaged_payload_leaves_the_ones_before_it() -> None:
    arena = Arena(1 << 20)
    inflate_into(arena, Codec.GZIP, compress(Codec.GZIP, TEXT))
    with pytest.raises(CorruptBatch):
        inflate_into(arena, Codec.SNAPPY, compress(Codec.SNAPPY, TEXT)[:5000])
    assert arena.used == len(TEXT)
    begin, end = inflate_into(arena, Codec.ZSTD, compress(Codec.ZSTD, TEXT))
    assert arena.array[:end].tobytes() == TEXT + TEXT
    assert begin == len(TEXT)
