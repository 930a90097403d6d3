"""Whatever is framed is cut again, whatever a string says is read again; any bytes and any text are safe."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ProtocolViolation
from penstock.model import Endpoint, Node, Partition
from penstock.protocols.tubemq.flow_control import parse_rules
from penstock.protocols.tubemq.wire import strings
from penstock.protocols.tubemq.wire.rpc import TOKEN, TubeFraming, frame
from penstock.protocols.tubemq.wire.strings import Held, Located, Placement, Published, Subscribable

PIECES = st.lists(st.binary(max_size=9_000), min_size=1, max_size=4).filter(any)
SERIALS = st.integers(-(2**31), 2**31 - 1)


def cut(stream: bytes) -> list[tuple[int, bytes]]:
    framing, found, at = TubeFraming(answers=False), [], 0
    while len(stream) - at >= framing.need():
        size = framing.need()
        assert size >= 1
        complete = framing.feed(memoryview(stream)[at : at + size])
        at += size
        if complete is not None:
            found.append((complete.correlation, bytes(complete.body)))
    assert at == len(stream)
    return found


@given(st.lists(st.tuples(SERIALS, PIECES), max_size=3))
def test_what_is_framed_is_cut_again(sent: list[tuple[int, list[bytes]]]) -> None:
    stream = b"".join(b"".join(frame(serial, pieces)) for serial, pieces in sent)
    assert cut(stream) == [(serial, b"".join(pieces)) for serial, pieces in sent]


@given(SERIALS, st.lists(st.binary(max_size=5), min_size=1, max_size=6), st.integers(0, 1))
def test_blocks_of_any_size_are_put_together(serial: int, blocks: list[bytes], again: int) -> None:
    one = struct.pack(">Iii", TOKEN, serial, len(blocks)) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)
    assert cut(one * (again + 1)) == [(serial, b"".join(blocks))] * (again + 1)


@given(st.binary(max_size=80))
def test_any_stream_is_cut_or_refused(stream: bytes) -> None:
    framing, at = TubeFraming(answers=True), 0
    try:
        while len(stream) - at >= framing.need():
            size = framing.need()
            assert size >= 1
            framing.feed(memoryview(stream)[at : at + size])
            at += size
    except ProtocolViolation:
        pass


NAMES = st.text(st.characters(exclude_characters="#:,@=", exclude_categories=["Cs", "Z", "Cc"]), min_size=1, max_size=8)
IDS = st.integers(0, 2**31 - 1)
PORTS = st.integers(1, 65_535)
NODES = st.builds(
    lambda number, host, port: Node(str(number), Endpoint(host, port)), IDS, NAMES | st.just("::1"), PORTS
)
LOCATED = st.builds(lambda node, topic, number: Located(node, Partition(topic, number, node.name)), NODES, NAMES, IDS)
PARTITIONS = st.builds(lambda topic, number, node: Partition(topic, number, str(node)), NAMES, IDS, IDS)
PLACEMENTS = st.lists(st.builds(Placement, IDS, IDS, IDS), max_size=3).map(tuple)

SAID: list[tuple[st.SearchStrategy[Any], Callable[[Any], str], Callable[[str], Any]]] = [
    (NODES, strings.format_broker, strings.parse_broker),
    (LOCATED, strings.format_located, strings.parse_located),
    (PARTITIONS, strings.format_key, strings.parse_key),
    (st.builds(Held, NAMES, NAMES, LOCATED), strings.format_held, strings.parse_held),
    (st.tuples(IDS, LOCATED), lambda said: strings.format_failure(*said), strings.parse_failure),
    (
        st.dictionaries(PARTITIONS, st.integers(0, 2**63 - 1), max_size=3),
        strings.format_required,
        strings.parse_required,
    ),
    (st.builds(Published, NAMES, PLACEMENTS, st.none() | IDS), strings.format_published, strings.parse_published),
    (st.builds(Subscribable, NAMES, PLACEMENTS), strings.format_subscribable, strings.parse_subscribable),
]


@given(st.data())
def test_what_is_said_is_read_again(data: st.DataObject) -> None:
    said, write, read = data.draw(st.sampled_from(SAID))
    value = data.draw(said)
    assert read(write(value)) == value


READERS = [
    *(read for _, _, read in SAID), strings.parse_topic_filter, strings.parse_topic_holdings,
    strings.parse_broker_identity, parse_rules,
]  # fmt: skip


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
@given(text=st.text(max_size=40) | st.text("1:#,@=a ", max_size=20) | st.text('[]{}":,01etyprul ', max_size=30))
def test_any_text_is_read_or_refused(read: Callable[[str], Any], text: str) -> None:
    with contextlib.suppress(ProtocolViolation):
        read(text)
