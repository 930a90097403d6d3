"""murmur2 against the values of Kafka's own UtilsTest."""

from __future__ import annotations

import pytest

from penstock.protocols.kafka.client.sender import murmur2, partition_for

VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
    b"": 275646681,
}


@pytest.mark.parametrize("key", VECTORS)
def test_a_key_hashes_as_in_java(key: bytes) -> None:
    assert murmur2(key) == VECTORS[key] % 2**32


def test_many_keys_hash_as_in_kafka_python() -> None:
    theirs = pytest.importorskip("kafka.partitioner.default").murmur2
    for number in range(300):
        key = f"key {number}é".encode() * (number % 7)
        assert murmur2(key) == theirs(key)


def test_the_partition_is_the_hash_without_its_sign() -> None:
    assert partition_for(b"foobar", 10) == (VECTORS[b"foobar"] & 0x7FFFFFFF) % 10 == 6
    assert {partition_for(f"{n}".encode(), 3) for n in range(50)} == {0, 1, 2}
