"""Error codes: rows that agree with Kafka's own table, and the errors that they become."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from penstock.errors import FencedError, OffsetOutOfRange, ServerError
from penstock.protocols.kafka.errors import ROWS, code_of, error_for, row

OF_4_4 = {
    134: ("GROUP_DELETION_FAILED", False),
    135: ("STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", False),
    136: ("CONTROLLER_ID_NOT_REGISTERED", False),
}
"""Of Java's Errors in 4.4.0; the package that has the others does not have these yet."""


def test_names_and_retriability_are_kafkas() -> None:
    ours = {code: (each.name.removesuffix("_EXCEPTION"), each.retriable) for code, each in ROWS.items()}
    theirs = {each.value: (each.name.upper().removesuffix("_EXCEPTION"), each.retriable) for each in ErrorCode}
    assert ours == OF_4_4 | theirs


def test_what_must_be_asked_anew_is_only_asked_for_retriable_codes() -> None:
    assert {code for code, each in ROWS.items() if each.refresh_metadata} == {3, 5, 6, 9, 56, 72, 74, 75, 100, 103}
    assert {code for code, each in ROWS.items() if each.rediscover_coordinator} == {15, 16}
    assert all(each.retriable for each in ROWS.values() if each.refresh_metadata or each.rediscover_coordinator)


def test_every_row_says_what_to_do() -> None:
    assert all(len(each.advice) > 9 and not each.advice.endswith(".") for each in ROWS.values())


def test_a_code_of_the_future_keeps_its_number() -> None:
    found = row(999)
    assert (found.code, found.name, found.retriable) == (999, "UNKNOWN_SERVER_ERROR", False)
    error = error_for(999, "fetching failed")
    assert (error.code, error.name) == (999, "UNKNOWN_SERVER_ERROR")
    assert "999" in str(error)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1, OffsetOutOfRange),
        (47, FencedError),
        (82, FencedError),
        (90, FencedError),
        (110, FencedError),
        (6, ServerError),
    ],
)
def test_codes_become_the_errors_that_callers_catch(code: int, kind: type[ServerError]) -> None:
    error = error_for(code, "it failed", topic="t", partition=3, offset=9, node="1", detail="said the broker")
    assert type(error) is kind
    assert (error.topic, error.partition, error.offset, error.node) == ("t", 3, 9, "1")
    assert error.retriable == ROWS[code].retriable
    assert f"it failed: {ROWS[code].name} ({code}): said the broker" in str(error)


def test_codes_are_found_by_name() -> None:
    assert code_of("NOT_COORDINATOR") == 16
    with pytest.raises(KeyError):
        code_of("NO_SUCH_ERROR")
