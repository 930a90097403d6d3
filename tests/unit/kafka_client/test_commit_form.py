"""A commit of one partition is written from a form: the codec's bytes; an answer is good only if it says just that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.interfaces.framing import Buffer
from penstock.model import Committed, Partition
from penstock.protocols.kafka.client.coordinator import Identity, _commit_message
from penstock.protocols.kafka.wire.framing import request, response
from penstock.protocols.kafka.wire.offsets import (
    FIRST_VERSION,
    MARKED,
    CommitForm,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TEXT = st.text(max_size=20)
ONE = Partition("demo", 3)
FIRST_WITH_INSTANCES = 7


@given(
    st.integers(FIRST_VERSION, 10),
    st.sampled_from([0, 3, 0xA5, 0xA5A5]),
    st.binary(min_size=16, max_size=16) | st.just(b"\xa5" * 16),
    TEXT,
    TEXT,
    TEXT,
    st.none() | TEXT,
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**31 - 1),
)
def test_its_requests_are_the_codecs_bytes(
    version: int,
    number: int,
    topic_id: bytes,
    group: str,
    metadata: str,
    member: str,
    instance: str | None,
    offset: int,
    epoch: int,
) -> None:
    one = Partition("demo", number)
    identity = Identity(member, 7, instance if version >= FIRST_WITH_INSTANCES else None)
    marked = _commit_message(group, {one: replace(MARKED, metadata=metadata, topic_id=topic_id)}, identity)
    form = CommitForm(marked, one, version, "client")
    wanted = _commit_message(group, {one: Committed(offset, metadata, epoch, topic_id=topic_id)}, identity)
    assert b"".join(form.fill(offset, epoch)(77)) == b"".join(request(wanted, version, "client")(77))


@pytest.mark.parametrize("version", range(FIRST_VERSION, 10))
def test_an_answer_is_good_only_if_it_says_that_this_is_stored(version: int) -> None:
    form = CommitForm(_commit_message("g", {ONE: MARKED}, Identity()), ONE, version, None)

    def says(*partitions: tuple[int, int], topic: str = "demo") -> bool:
        parts = [OffsetCommitResponsePartition(partition_index=each, error_code=code) for each, code in partitions]
        answer = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=topic, partitions=parts)])
        pieces = response(answer, version, 99)
        return form.is_good(memoryview(b"".join(piece for piece in pieces if isinstance(piece, Buffer)))[4:])

    assert says((3, 0))
    assert not any([says((3, 16)), says((4, 0)), says((3, 0), (4, 0)), says(), says((3, 0), topic="demi")])
