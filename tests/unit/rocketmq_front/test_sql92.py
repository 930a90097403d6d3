"""SQL92 filters: what real brokers let through is let through, what is no filter is refused and told where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ServerError
from penstock.protocols.rocketmq.errors import Code, Refused
from penstock.protocols.rocketmq.server.filters import matcher
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.rpc import CHECK_CLIENT_CONFIG
from tests.rocketmq_filters import BAD, CASES, MESSAGES, NEW_CASES
from tests.unit.rocketmq_front.kit import Kit, run, stored


@pytest.mark.parametrize(("expression", "wanted"), [*CASES, *NEW_CASES])
def test_the_messages_that_real_brokers_let_through(expression: str, wanted: set[int]) -> None:
    matches = matcher(expression)
    assert {number for number, each in enumerate(MESSAGES) if matches(each)} == wanted


@pytest.mark.parametrize(
    "expression", [*BAD, "n = 5 n", "n NOT = 5", "(" * 101 + "TRUE" + ")" * 101, "NOT " * 200 + "TRUE"]
)
def test_what_is_no_filter_is_refused(expression: str) -> None:
    with pytest.raises(Refused, match="no SQL92 filter, at letter") as refused:
        matcher(expression)
    assert refused.value.code == Code.SUBSCRIPTION_PARSE_FAILED


def test_an_endless_filter_is_refused_unread() -> None:
    with pytest.raises(Refused, match="an expression of 20000 letters"):
        matcher("(" * 20_000)


WORDS = [
    "n",
    "s",
    "'a'",
    "5",
    "1.5",
    "TRUE",
    "NULL",
    "=",
    "<>",
    ">",
    "<=",
    "AND",
    "OR",
    "NOT",
    "IN",
    "IS",
    "BETWEEN",
    "(",
    ")",
    ",",
]


@given(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=30))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    try:
        matches = matcher(text)
    except Refused:
        return
    assert {matches(each) for each in MESSAGES} <= {True, False}


def test_pulls_bring_what_the_filter_lets_through() -> None:
    async def check(kit: Kit) -> None:
        for number, each in enumerate(MESSAGES):
            await kit.put(b"%d" % number, properties="\2".join(f"{name}\1{value}" for name, value in each.items()))
        found = await kit.pull(tags="n > 1 OR u IS NOT NULL", expression_type="SQL92")
        assert [each.body for each in stored(found)] == [b"1", b"2", b"6"]
        with pytest.raises(ServerError, match="no SQL92 filter"):
            await kit.pull(tags="n >", expression_type="SQL92")

    run(check)


def test_a_member_s_filter_counts_where_its_pulls_say_none() -> None:
    async def check(kit: Kit) -> None:
        for number in range(4):
            await kit.put(b"%d" % number, properties=f"n\1{number}")
        wanted = m.SubscriptionData(topic="demo", sub_string="n > 1", expression_type="SQL92", sub_version=1)
        await kit.subscribe(wanted)
        found = await kit.pull(sys_flag=0, sub_version=1)
        assert [each.body for each in stored(found)] == [b"2", b"3"]

    run(check)


@pytest.mark.parametrize(("expression", "code"), [("n > 1", Code.SUCCESS), ("n >", Code.SUBSCRIPTION_PARSE_FAILED)])
def test_filters_are_tried_before_they_are_used(expression: str, code: int) -> None:
    async def check(kit: Kit) -> None:
        wanted = m.SubscriptionData(topic="demo", sub_string=expression, expression_type="SQL92")
        body = m.CheckClientConfig(client_id="first", group="g", subscription_data=wanted)
        answer = await kit.ask(CHECK_CLIENT_CONFIG, m.NoFields(), body, accept=(0, 23))
        assert answer.code == code

    run(check)
