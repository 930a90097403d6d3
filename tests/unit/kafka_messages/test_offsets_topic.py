"""Records of ``__consumer_offsets``: what real brokers wrote is read and written back, the rest is left alone."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from penstock.errors import ProtocolViolation, UsageError
from penstock.protocols.kafka.wire.codec import encode
from penstock.protocols.kafka.wire.stored_records import (
    GroupKey,
    GroupValue,
    GroupValueMember,
    OffsetKey,
    OffsetValue,
    UnknownKey,
    read_group_value,
    read_key,
    read_offset_value,
    write_group_key,
    write_group_value,
    write_offset_key,
    write_offset_value,
)

BATCHES = Path(__file__).parents[2] / "data" / "kafka" / "batches"
TOPIC_ID = bytes(range(16))


def records() -> list[tuple[bytes, bytes | None]]:
    """Keys and values of the broker's own topic after all recorded scenarios, without control records."""
    return [
        (bytes.fromhex(record["key"]), None if record["value"] is None else bytes.fromhex(record["value"]))
        for file in sorted(BATCHES.glob("segment-4.3-consumer-offsets-*.json"))
        for batch in json.loads(file.read_text(encoding="utf-8"))
        if not batch["control"]
        for record in batch["records"]
    ]


def versioned(message: object, version: int) -> bytes:
    return version.to_bytes(2, "big") + b"".join(encode(message, version))


def test_recorded_keys_and_values_come_back_byte_for_byte() -> None:
    seen: Counter[tuple[type, int | None]] = Counter()
    for key, value in records():
        found = read_key(key)
        version = None if value is None else int.from_bytes(value[:2], "big")
        seen[type(found), version] += 1
        if isinstance(found, OffsetKey):
            assert write_offset_key(found) == key
            if value is not None and version is not None:
                assert versioned(read_offset_value(value), version) == value
        elif isinstance(found, GroupKey):
            assert write_group_key(found.group) == key
            if value is not None:
                assert write_group_value(read_group_value(value)) == value
    # The 98 unknown ones are of KIP-848 and KIP-932 groups: key versions 3 to 8 and 16.
    assert seen == {
        (OffsetKey, 4): 69,
        (OffsetKey, None): 50,
        (GroupKey, 3): 48,
        (GroupKey, None): 1,
        (UnknownKey, 0): 73,
        (UnknownKey, None): 25,
    }


def test_recorded_offsets_say_what_was_committed() -> None:
    found = {
        (key.group, key.topic, key.partition): read_offset_value(value)
        for raw, value in records()
        if value is not None and isinstance(key := read_key(raw), OffsetKey)
    }
    assert {key[1] for key in found} >= {"events"}
    assert all(value.offset >= 0 and value.commit_timestamp > 1_700_000_000_000 for value in found.values())
    assert any(value.topic_id != bytes(16) for value in found.values())


@pytest.mark.parametrize(
    ("wire", "value"),
    [
        ("0000 0000000000000007 0001 6d 0000000000000009", OffsetValue(offset=7, metadata="m", commit_timestamp=9)),
        (
            "0001 0000000000000007 0001 6d 0000000000000009 000000000000000b",
            OffsetValue(offset=7, metadata="m", commit_timestamp=9, expire_timestamp=11),
        ),
        ("0002 0000000000000007 0001 6d 0000000000000009", OffsetValue(offset=7, metadata="m", commit_timestamp=9)),
        (
            "0003 0000000000000007 00000005 0001 6d 0000000000000009",
            OffsetValue(offset=7, leader_epoch=5, metadata="m", commit_timestamp=9),
        ),
        (
            "0004 0000000000000007 00000005 02 6d 0000000000000009 01 00 10 " + TOPIC_ID.hex(),
            OffsetValue(offset=7, leader_epoch=5, metadata="m", commit_timestamp=9, topic_id=TOPIC_ID),
        ),
    ],
)
def test_offset_values_of_all_versions_are_read(wire: str, value: OffsetValue) -> None:
    assert read_offset_value(bytes.fromhex(wire)) == value


def test_offset_values_are_written_for_other_peoples_tools() -> None:
    value = OffsetValue(offset=7, leader_epoch=5, metadata="m", commit_timestamp=9, topic_id=TOPIC_ID)
    assert write_offset_value(value) == bytes.fromhex("0003 0000000000000007 00000005 0001 6d 0000000000000009")
    assert write_offset_key(OffsetKey(group="g", topic="t", partition=3)) == bytes.fromhex(
        "0001 0001 67 0001 74 00000003"
    )


def test_an_offset_that_says_when_it_expires_is_written_as_a_real_broker_writes_it() -> None:
    """By 4.3.1, for OffsetCommit v2 with a retention time of 1,500 ms."""
    seen = bytes.fromhex("0001 0000000000000005 0001 6d 000001a2149dfd79 000001a2149e0355")
    value = OffsetValue(offset=5, metadata="m", commit_timestamp=1_795_642_228_089, expire_timestamp=1_795_642_229_589)
    assert write_offset_value(value) == seen
    assert read_offset_value(seen) == value


@pytest.mark.parametrize("name", ["g", "ü" * 9_000, ""])
@pytest.mark.parametrize("number", [0, -1, 2**31 - 1])
def test_what_a_commit_writes_is_what_its_declarations_say(name: str, number: int) -> None:
    key = OffsetKey(group=name, topic=name + "t", partition=number)
    assert write_offset_key(key) == versioned(key, 1)
    value = OffsetValue(offset=number * 2**32, leader_epoch=number, metadata=name, commit_timestamp=2**62)
    assert write_offset_value(value) == versioned(value, 3)


@pytest.mark.parametrize("name", ["x" * 40_000, "\ud800"])
def test_a_name_that_no_key_can_hold_is_named(name: str) -> None:
    with pytest.raises(UsageError, match=r"OffsetKey\.group"):
        write_offset_key(OffsetKey(group=name))
    with pytest.raises(UsageError, match=r"OffsetKey\.partition"):
        write_offset_key(OffsetKey(partition=2**31))
    with pytest.raises(UsageError, match=r"OffsetValue\.metadata"):
        write_offset_value(OffsetValue(metadata=name))


def group(version: int) -> GroupValue:
    """A group with what the version can say about it."""
    member = GroupValueMember(
        member_id="m",
        group_instance_id="i" if version >= 3 else None,
        client_id="c",
        client_host="/h",
        rebalance_timeout=5 if version >= 1 else 0,
        session_timeout=6,
        subscription=b"sub",
        assignment=b"got",
    )
    return GroupValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        current_state_timestamp=8 if version >= 2 else -1,
        members=(member,),
    )


@pytest.mark.parametrize("version", range(5))
def test_group_values_of_all_versions_are_read(version: int) -> None:
    assert read_group_value(versioned(group(version), version)) == group(version)


def test_an_empty_group_has_neither_protocol_nor_leader() -> None:
    value = GroupValue(protocol_type="consumer", current_state_timestamp=9)
    assert write_group_value(value) == bytes.fromhex(
        "0003 0008" + b"consumer".hex() + "00000000 ffff ffff 0000000000000009 00000000"
    )
    assert read_group_value(write_group_value(value)) == value


def test_keys_of_both_old_versions_are_the_same() -> None:
    key = OffsetKey(group="g", topic="t", partition=3)
    assert read_key(b"\x00\x00" + write_offset_key(key)[2:]) == read_key(write_offset_key(key)) == key
    assert read_key(write_group_key("g")) == GroupKey(group="g")


@pytest.mark.parametrize("version", [3, 8, 16, 99, -1])
def test_other_key_versions_are_left_alone(version: int) -> None:
    assert read_key(version.to_bytes(2, "big", signed=True) + b"anything") == UnknownKey(version)


@pytest.mark.parametrize("wire", ["", "00", "0005", "ffff", "0003 00", "0004 0000000000000007 00000005 02 6d 00"])
def test_values_that_are_cut_short_or_of_the_future_are_noticed(wire: str) -> None:
    with pytest.raises(ProtocolViolation):
        read_offset_value(bytes.fromhex(wire))
    with pytest.raises(ProtocolViolation):
        read_group_value(bytes.fromhex(wire))
