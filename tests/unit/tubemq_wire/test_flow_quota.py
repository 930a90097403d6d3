"""What a broker gives to one registration, as a 2.4.0 broker was seen to do it."""

from penstock.protocols.tubemq.flow_control import FIRST_READ_BYTES, NOTHING, TRANSFER_BYTES, Grant, Quota, parse_rules
from tests.unit.tubemq_wire.test_flow_rules import RECORDED, at

NOON = at(12)
ONE_MIB = parse_rules(RECORDED.replace('"limitInM":0,"freqInMs":1500', '"limitInM":1,"freqInMs":700'))
NOTHING_AT_ALL = parse_rules(RECORDED)


def test_without_rules_every_read_gets_a_whole_answer() -> None:
    quota = Quota()
    for read in range(5):
        quota.sent(TRANSFER_BYTES)
        assert quota.grant(NOTHING, 1 << 50, NOON + read, NOON) == Grant(TRANSFER_BYTES)


def test_the_first_read_is_free_and_then_a_slice_holds_a_twelfth() -> None:
    quota = Quota()
    assert quota.grant(ONE_MIB, 1 << 40, NOON, NOON) == Grant(FIRST_READ_BYTES)
    quota.sent(FIRST_READ_BYTES)
    assert quota.grant(ONE_MIB, 1 << 40, NOON + 1, NOON) == Grant(87_381)
    quota.sent(10 * 9_000)
    assert quota.grant(ONE_MIB, 1 << 40, NOON + 2, NOON) == Grant(0, 700)
    assert quota.grant(ONE_MIB, 1 << 40, NOON + 3, NOON, escapes=True) == Grant(87_381)
    assert quota.grant(ONE_MIB, 1 << 40, NOON + 5_002, NOON) == Grant(87_381), "the next slice"


def test_a_minutes_limit_holds_over_its_slices() -> None:
    quota = Quota()
    quota.sent(1)
    granted = 0
    for slice_number in range(12):
        grant = quota.grant(ONE_MIB, 1 << 40, NOON + 4_999 + 5_001 * slice_number, NOON)
        quota.sent(grant.max_bytes * 2)
        granted += bool(grant.max_bytes)
    assert granted == 7
    assert quota.grant(ONE_MIB, 1 << 40, NOON + 120_000, NOON).max_bytes == 87_381


def test_a_limit_of_nothing_cannot_be_escaped() -> None:
    quota = Quota()
    quota.sent(100)
    assert quota.grant(NOTHING_AT_ALL, 1 << 40, NOON, NOON) == Grant(0, 1500)
    assert quota.grant(NOTHING_AT_ALL, 1 << 40, NOON, NOON, escapes=True) == Grant(0, 0)


def test_rules_count_lag_in_bytes_at_a_broker() -> None:
    quota, near = Quota(), Quota()
    quota.sent(1)
    near.sent(1)
    assert quota.grant(NOTHING_AT_ALL, 22, NOON, NOON) == Grant(0, 1500)
    assert near.grant(NOTHING_AT_ALL, 21, NOON, NOON) == Grant(TRANSFER_BYTES)
