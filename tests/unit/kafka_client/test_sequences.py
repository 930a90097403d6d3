"""Numbering of an idempotent producer's batches, against a broker's own rule (KIP-98) kept in a few lines here."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model import Partition
from penstock.protocols.kafka.client.sender import KafkaPacked, Numbering, ProducerIdentity
from penstock.protocols.kafka.wire.records import Producing, encode
from penstock.records.batch import parse_header, verify_crc

P = Partition("events", 0)
FIRST = ProducerIdentity(7, 0)
LAST_SEQUENCE = 2**31 - 1


def packed(numbering: Numbering, current: ProducerIdentity, records: int) -> KafkaPacked:
    identity, sequence = numbering.take(current, records)
    rows = pa.record_batch({"value": [b"x"] * records})
    producing = Producing(identity.producer_id, identity.epoch, sequence)
    batch = KafkaPacked(P, records, encode(rows, producing=producing), identity, sequence)
    numbering.waiting.append(batch)
    return batch


def header_of(batch: KafkaPacked) -> tuple[int, int, int]:
    header = parse_header(batch.data)
    verify_crc(batch.data, header)
    return header.producer_id, header.producer_epoch, header.base_sequence


def test_each_batch_begins_where_the_one_before_ends() -> None:
    numbering = Numbering(FIRST)
    assert [header_of(packed(numbering, FIRST, n)) for n in (3, 1, 4)] == [(7, 0, 0), (7, 0, 3), (7, 0, 4)]


def test_sequences_wrap_to_zero() -> None:
    numbering = Numbering(FIRST, next=LAST_SEQUENCE)
    assert [packed(numbering, FIRST, n).sequence for n in (2, 1)] == [LAST_SEQUENCE, 1]


def test_what_could_not_be_packed_takes_no_number() -> None:
    numbering = Numbering(FIRST, next=LAST_SEQUENCE)
    assert [numbering.place(FIRST), numbering.place(FIRST)] == [(FIRST, LAST_SEQUENCE)] * 2
    batch = KafkaPacked(P, 2, memoryview(b""), *numbering.place(FIRST))
    numbering.taken(batch)
    assert numbering.place(FIRST) == (FIRST, 1)
    # While something is under way, its identity stays; a place alone is nothing under way.
    second = ProducerIdentity(7, 1)
    assert numbering.place(second) == (FIRST, 1)
    numbering.acknowledged(batch)
    assert [numbering.place(second), numbering.place(second)] == [(second, 0)] * 2


def test_answers_may_come_in_any_order() -> None:
    numbering = Numbering(FIRST)
    first, second, third = (packed(numbering, FIRST, 1) for _ in range(3))
    for answered, left in ((second, [first, third]), (second, [first, third]), (first, [third]), (third, [])):
        numbering.acknowledged(answered)
        assert all(one is other for one, other in zip(numbering.waiting, left, strict=True))


def test_a_new_epoch_numbers_all_that_waits_anew_and_leaves_sent_bytes_alone() -> None:
    numbering = Numbering(FIRST)
    batches = [packed(numbering, FIRST, n) for n in (3, 1, 4)]
    on_the_way = [(batch.sending(), bytes(batch.data)) for batch in batches]
    numbering.acknowledged(batches[0])
    numbering.restart(ProducerIdentity(7, 1))
    assert [header_of(batch) for batch in batches] == [(7, 0, 0), (7, 1, 0), (7, 1, 1)]
    assert [batch.renumbered for batch in batches] == [False, True, True]
    assert all(bytes(view) == copy for view, copy in on_the_way)
    assert packed(numbering, ProducerIdentity(7, 1), 2).sequence == 5


def test_a_partition_goes_over_to_a_new_epoch_once_nothing_of_it_is_under_way() -> None:
    numbering, second = Numbering(FIRST), ProducerIdentity(7, 1)
    first = packed(numbering, FIRST, 3)
    assert header_of(packed(numbering, second, 1)) == (7, 0, 3)
    for batch in list(numbering.waiting):
        numbering.acknowledged(batch)
    assert header_of(packed(numbering, second, 1)) == (7, 1, 0)
    assert not first.renumbered


def test_a_number_that_may_be_stored_is_not_used_again() -> None:
    numbering = Numbering(FIRST)
    batch = packed(numbering, FIRST, 2)
    batch.sending()
    batch.sending()
    assert not numbering.give_back(batch)


@pytest.mark.parametrize(("which", "gap_is_closed"), [(2, True), (1, False), (0, False)])
def test_a_number_given_back_is_used_again_if_it_was_the_last(which: int, gap_is_closed: bool) -> None:
    numbering = Numbering(FIRST)
    batches = [packed(numbering, FIRST, 2) for _ in range(3)]
    assert numbering.give_back(batches[which]) is gap_is_closed
    assert numbering.next == (4 if gap_is_closed else 6)
    assert batches[which] not in numbering.waiting


@dataclass
class Log:
    """One partition at a broker: what it would answer to a batch."""

    epoch: int = -1
    next: int = 0
    stored: list[object] = field(default_factory=list)
    seen: dict[tuple[int, int], object] = field(default_factory=dict)

    def append(self, batch: KafkaPacked) -> str:
        _, epoch, sequence = header_of(batch)
        if (epoch, sequence) in self.seen:
            assert self.seen[epoch, sequence] is batch
            return "duplicate"
        if epoch < self.epoch:
            return "old epoch"
        if sequence != (self.next if epoch == self.epoch else 0):
            return "out of order"
        self.epoch, self.next = epoch, sequence + batch.records
        self.seen[epoch, sequence] = batch
        self.stored.append(batch)
        return "stored"


@given(st.randoms(use_true_random=False), st.integers(1, 12))
def test_whatever_is_lost_or_given_up_the_rest_is_stored_once_and_in_order(dice: random.Random, count: int) -> None:
    log, numbering, identity = Log(), Numbering(FIRST), FIRST
    batches = [packed(numbering, identity, dice.randint(1, 5)) for _ in range(count)]
    given_up: list[KafkaPacked] = []
    while numbering.waiting:
        batch = numbering.waiting[0]
        fate = dice.random()
        if fate < 0.1:  # refused for good, now or after it was stored and the answer was lost
            batch.sending()
            given_up.append(batch)
            if not numbering.give_back(batch):
                identity = ProducerIdentity(7, identity.epoch + 1)
                numbering.restart(identity)
            continue
        batch.sending()
        answer = log.append(batch)
        assert answer in {"stored", "duplicate"}, answer
        if fate < 0.7:  # else the answer was lost and it is sent again
            numbering.acknowledged(batch)
    assert [batch for batch in batches if batch not in given_up or batch in log.stored] == log.stored
