"""librdkafka's list_topics() was hung up on: its Metadata v12 for all topics ends in three bytes that mean nothing."""

import socket
import struct

from penstock.testing import Broker

# As librdkafka 2.16 sends it: no topics array (null), of which four bytes are written where the version has one.
METADATA_V12 = bytes.fromhex("0003000c00000003000772646b61666b6100" + "00" * 4 + "010000")


def test_metadata_for_all_topics_from_librdkafka_is_answered() -> None:
    with Broker() as broker:
        broker.create_topic("flights", partitions=1)
        host, _, port = broker.bootstrap.partition(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection, connection.makefile("rb") as stream:
            connection.sendall(struct.pack(">i", len(METADATA_V12)) + METADATA_V12)
            (size,) = struct.unpack(">i", stream.read(4))
            answer = stream.read(size)
    assert struct.unpack_from(">i", answer) == (3,)
    assert b"flights" in answer
