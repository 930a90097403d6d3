"""What a server's answer means is the same in every protocol: nobody above has to know what each calls it."""

from __future__ import annotations

import pickle

import pytest

from penstock.errors import ErrorKind, FencedError, LogTruncated, ServerError
from penstock.protocols.kafka.errors import ROWS, error_for
from penstock.protocols.rocketmq.errors import error_of as rocketmq_error
from penstock.protocols.tubemq.errors import Code, error_of


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (10, ErrorKind.TOO_LARGE),
        (18, ErrorKind.TOO_LARGE),
        (36, ErrorKind.TOPIC_EXISTS),
        (22, ErrorKind.NOT_A_MEMBER),
        (25, ErrorKind.NOT_A_MEMBER),
        (27, ErrorKind.NOT_A_MEMBER),
        (48, ErrorKind.WRONG_TRANSACTION_STATE),
        (50, ErrorKind.TRANSACTION_TIMEOUT_TOO_LONG),
        (38, ErrorKind.TOO_FEW_NODES),
        (87, ErrorKind.OTHER),
        (31_000, ErrorKind.OTHER),
    ],
)
def test_kafkas_codes(code: int, kind: ErrorKind) -> None:
    assert error_for(code, "produce").kind is kind


def test_codes_of_both_that_mean_the_same() -> None:
    for kafka, tubemq in ((3, Code.TOPIC_NOT_DEPLOYED), (29, Code.CONSUME_GROUP_FORBIDDEN), (1, Code.MOVED)):
        assert error_for(kafka, "fetch").kind is error_of(tubemq).kind is not ErrorKind.OTHER


def test_a_message_that_is_too_large_by_itself_is_none_of_a_batch_that_could_be_halved() -> None:
    assert error_of(Code.PARAMETER_MSG_OVER_MAX_LENGTH).kind is ErrorKind.RECORD_TOO_LARGE


def test_an_errors_class_and_its_kind_say_the_same() -> None:
    for code in ROWS:
        error = error_for(code, "anything")
        assert isinstance(error, FencedError) is (error.kind is ErrorKind.FENCED)
    assert LogTruncated("cut", parted_at=1, code=1, name="X").kind is ErrorKind.OFFSET_OUT_OF_RANGE
    assert ServerError("no", code=1, name="X").kind is ErrorKind.OTHER


def test_the_kind_crosses_processes() -> None:
    assert pickle.loads(pickle.dumps(error_for(36, "create"))).kind is ErrorKind.TOPIC_EXISTS


@pytest.mark.parametrize(
    ("remark", "again"),
    [
        ('java.lang.NumberFormatException: For input string: "x", java.base/java.lang.NumberFormatException', False),
        ("java.lang.IllegalArgumentException: no such thing", False),
        ("com.alibaba.fastjson.JSONException: syntax error", False),
        ("org.apache.rocketmq.remoting.exception.RemotingCommandException: the custom field <a> is null", False),
        ("The broker does not support consumer to filter message by SQL92", False),
        ("The topic[TBW102] is conflict with system topic.", False),
        ("look message by offset failed, 17", False),
        ("java.lang.NullPointerException", True),
        (
            "request queueId[9] is illegal, topic t has 4 queues",
            True,
        ),  # the route may be old
        ("", True),
    ],
)
def test_a_system_error_of_rocketmq_is_waited_out_unless_the_request_is_at_fault(remark: str, again: bool) -> None:
    assert rocketmq_error(1, remark).retriable is again
