"""Records of ``__transaction_state``: those of a real broker, and ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.errors import CorruptBatch, ProtocolViolation
from penstock.interfaces.enode import bytes_of
from penstock.model import Partition
from penstock.protocols.kafka.transactions import State, Transaction, entry_of, read_entry
from penstock.protocols.kafka.wire.stored_records import TransactionLogValue as Value
from penstock.protocols.kafka.wire.stored_records import write_transaction_key, write_transaction_value
from penstock.records.scalar_codec import Ended, Noted, batch_of, entries_of

DATA = Path(__file__).parents[2] / "data" / "kafka" / "batches"
RECORDED = sorted(DATA.glob("segment-4.3-transaction-state-*.bin"))


def replay(data: bytes) -> Iterator[tuple[str, Transaction | None]]:
    """What the entries of batches say."""
    for each in entries_of(data):
        if not isinstance(each, Ended) and (said := read_entry(each.key or b"", each.value)) is not None:
            yield said


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_what_a_real_broker_wrote_is_understood_and_written_the_same(path: Path) -> None:
    data = path.read_bytes()
    found = list(replay(data))
    stored = [(each.key, each.value) for each in entries_of(data) if isinstance(each, Noted)]
    assert len(found) == len(stored) > 4
    for (name, transaction), (key, value) in zip(found, stored, strict=True):
        assert transaction is not None
        assert write_transaction_key(name) == key
        if transaction.second:  # the first version's producers are of version 0 there and of version 1 here
            assert _same(entry_of(transaction)[1], value)
    first, last = found[0][1], found[-1][1]
    assert first is not None
    assert last is not None
    assert (first.state, first.partitions, first.started_ms) == (State.EMPTY, frozenset(), -1)
    assert last.producer_id == first.producer_id


def _same(ours: bytes | None, theirs: bytes | None) -> bool:
    """Kafka lists topics in the order of a hash; a list of one is the same."""
    assert ours is not None
    assert theirs is not None
    return ours == theirs or sorted(ours) == sorted(theirs)


def test_the_recorded_scenario_reads_as_what_was_done() -> None:
    """One producer: a commit with offsets, an abort, a commit; each end raises its epoch."""
    found = [each for _, each in replay(RECORDED[0].read_bytes()) if each is not None]
    states = [each.state for each in found]
    assert states[:5] == [
        State.EMPTY, State.ONGOING, State.ONGOING, State.PREPARE_COMMIT, State.COMPLETE_COMMIT,
    ]  # fmt: skip
    assert states[5:8] == [State.ONGOING, State.PREPARE_ABORT, State.COMPLETE_ABORT]
    assert [each.epoch for each in found[:8]] == [0, 0, 0, 1, 1, 1, 2, 2]
    assert found[2].partitions == {
        Partition("t-out", 0), Partition("t-out", 1), Partition("__consumer_offsets", 4),
    }  # fmt: skip


IDS = st.integers(0, 2**63 - 1)
TIMES = st.integers(-1, 2**62)


@given(
    st.builds(
        Transaction,
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40),
        IDS,
        st.integers(0, 32_767),
        st.integers(0, 2**31 - 1),
        st.sampled_from([state for state in State if state is not State.DEAD]),
        st.frozensets(
            st.builds(Partition, st.sampled_from(["t", "u"]), st.integers(0, 2**31 - 1), st.just("")), max_size=5
        ),
        TIMES,
        TIMES,
        st.booleans(),
        st.integers(-1, 2**62),
        st.integers(-1, 2**62),
    )
)
def test_what_was_written_is_read_back(transaction: Transaction) -> None:
    assume(transaction.state is not State.EMPTY or not transaction.partitions)
    assert list(replay(bytes_of(batch_of([entry_of(transaction)], 5)))) == [(transaction.transactional_id, transaction)]


def test_a_dead_id_is_a_tombstone() -> None:
    dead = Transaction("tx", 1, 0, state=State.DEAD)
    assert list(replay(bytes_of(batch_of([entry_of(dead)], 0)))) == [("tx", None)]


def test_a_state_that_nobody_knows_is_not_passed_over() -> None:
    odd = Value(producer_id=1, transaction_status=9)
    data = bytes_of(batch_of([(write_transaction_key("tx"), write_transaction_value(odd))], 0))
    with pytest.raises(ProtocolViolation, match="state 9"):
        list(replay(data))
    with pytest.raises(CorruptBatch):
        list(replay(data[:-1] + b"\xff"))
    assert list(replay(bytes_of(batch_of([(b"\0\x07other", b"")], 0)))) == []
