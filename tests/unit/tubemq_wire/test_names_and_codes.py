"""Names, error codes and signatures."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import OffsetOutOfRange, ServerError, UsageError
from penstock.protocols.tubemq.client.options import (
    NO_TOKEN,
    Credentials,
    broker_authorization,
    master_certificate,
    signature,
    verified,
)
from penstock.protocols.tubemq.errors import Code, error_of, row_of
from penstock.protocols.tubemq.wire import strings

USER = Credentials("tube", "pwd")
NOW = 1_700_000_000_000
SIGNED = "7L1xY547VkHJg0Vw2VUxUJ41QVM%3D"


def test_a_signature_is_that_of_the_protocols_example() -> None:
    assert signature(USER, NOW, 12345) == SIGNED


def test_masters_and_brokers_are_shown_the_same_signature() -> None:
    info = master_certificate(USER, NOW, 12345).auth_info
    assert (info.user_name, info.timestamp, info.nonce, info.oth_params, info.signature) == (
        "tube",
        NOW,
        12345,
        "",
        SIGNED,
    )
    shown = broker_authorization(99, USER, NOW, 12345)
    assert (shown.visit_authorized_token, shown.auth_authorized_token) == (99, f"tube {NOW} 12345 {SIGNED}")
    assert broker_authorization(NO_TOKEN).visit_authorized_token == -2


def test_only_what_was_signed_lately_with_the_password_is_verified() -> None:
    info = master_certificate(USER, NOW, 12345).auth_info
    assert verified(info, USER, NOW + 20_000)
    assert not verified(info, USER, NOW + 20_001)
    assert not verified(info, Credentials("tube", "other"), NOW)
    assert not verified(info, Credentials("cube", "pwd"), NOW)
    info.nonce = -1
    assert not verified(info, USER, NOW)


@pytest.mark.parametrize("nonce", [-1, 2**31 - 1])
def test_a_nonce_out_of_bounds_is_refused(nonce: int) -> None:
    with pytest.raises(UsageError, match="nonce"):
        signature(USER, NOW, nonce)


def test_a_password_is_not_shown() -> None:
    assert "pwd" not in repr(USER) + str(USER)


@pytest.mark.parametrize(
    ("check", "good"),
    [
        (strings.check_topic, " a_1 "), (strings.check_topic, "x" * 64), (strings.check_group, "a-b_c"),
        (strings.check_group, "g" * 1024),
        (strings.check_client_id, "own_127.0.0.1-1-2-Pull-1.13.0"), (strings.check_host, "h.example"),
    ],
)  # fmt: skip
def test_a_good_name_is_trimmed(check: Callable[[str], str], good: str) -> None:
    assert check(good) == good.strip()


@pytest.mark.parametrize(
    ("check", "bad"),
    [
        (strings.check_topic, ""), (strings.check_topic, "a"), (strings.check_topic, "1a"),
        (strings.check_topic, "a-b"),
        (strings.check_topic, "aé"), (strings.check_topic, "x" * 65), (strings.check_topic, "ab\n:c"),
        (strings.check_group, " "), (strings.check_group, "a"), (strings.check_group, "a.b"),
        (strings.check_group, "g" * 1025),
        (strings.check_client_id, "a@b"), (strings.check_client_id, "a#b"), (strings.check_client_id, "c" * 1025),
        (strings.check_host, ""), (strings.check_host, "h" * 257),
    ],
)  # fmt: skip
def test_a_bad_name_is_refused(check: Callable[[str], str], bad: str) -> None:
    with pytest.raises(UsageError):
        check(bad)


def test_filter_items_are_counted_once_and_have_no_separators() -> None:
    assert strings.check_filters([" b ", "a", "b"]) == ["a", "b"]
    for bad in ("a,b", "a=b", "a#b", " ", "x" * 257):
        with pytest.raises(UsageError, match="filter item"):
            strings.check_filters([bad])
    with pytest.raises(UsageError, match="501 filter items"):
        strings.check_filters([f"i{number}" for number in range(501)])


def test_topics_are_counted_once() -> None:
    assert strings.check_topics(["bb", " aa", "bb "]) == ["bb", "aa"]
    with pytest.raises(UsageError, match="1025 topics"):
        strings.check_topics([f"t{number}" for number in range(1025)])


def test_a_code_becomes_an_error_that_says_what_to_do() -> None:
    error = error_of(Code.PARTITION_OCCUPIED, " Partition is taken ", topic="t", partition=3, node="1")
    assert isinstance(error, ServerError)
    assert (error.code, error.name, error.retriable) == (410, "PARTITION_OCCUPIED", True)
    assert str(error).startswith("PARTITION_OCCUPIED (410): Partition is taken (topic t, partition 3, node 1). Wait")
    assert str(error_of(404)).startswith("NOT_FOUND (404). Poll again")


def test_an_offset_that_is_gone_is_out_of_range() -> None:
    assert isinstance(error_of(Code.MOVED, offset=28), OffsetOutOfRange)


def test_a_code_nobody_listed_keeps_its_number() -> None:
    error = error_of(777, "new")
    assert (error.code, error.name, error.retriable) == (777, "UNLISTED_777", True)


def test_the_codes_our_side_uses_are_all_listed_under_their_names() -> None:
    used = {name: code for name, code in vars(Code).items() if not name.startswith("_")}
    assert len(used) == 26
    assert {name: row_of(code).name for name, code in used.items()} == {name: name for name in used}


def test_whom_the_server_does_not_know_registers_again() -> None:
    assert {code for code in range(200, 600) if row_of(code).register_again} == {401, 411}
