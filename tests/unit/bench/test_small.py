"""A server that says no must not pass for a fast one, and a writer that was late makes no figure of its reader."""

import struct

import pytest

from bench.children import CaseFailed
from bench.clients import small_messages, small_raw, small_tubemq
from bench.clients.small_reading import Seen
from bench.goals import GOALS
from bench.scenarios import small_clients, tubemq
from bench.session import Session
from penstock.protocols.kafka.wire import fetch, produce
from penstock.protocols.kafka.wire.framing import read_request, response

_PREFIX = 4


def fetched(code: int) -> bytes:
    """The body of an answer to a fetch whose only partition has this error."""
    partition = fetch.FetchResponsePartition(partition_index=0, error_code=code, high_watermark=1, records=b"")
    answer = fetch.FetchResponse(responses=[fetch.FetchResponseTopic(topic="t", partitions=[partition])])
    return b"".join(bytes(piece) for piece in response(answer, 11, 1))[_PREFIX:]  # type: ignore[arg-type]


def test_an_error_deep_in_an_answer_is_trouble() -> None:
    asked = small_messages.fetch_at("t", 0)
    assert asked.trouble(fetched(0)) == ""
    assert "code 3" in asked.trouble(fetched(3))


@pytest.mark.parametrize("case", small_messages.KAFKA)
def test_requests_are_what_a_server_reads(case: str) -> None:
    data = small_messages.KAFKA[case]("topic-of-it").data
    assert struct.unpack_from(">i", data)[0] == len(data) - _PREFIX
    header, message = read_request(memoryview(data)[_PREFIX:])
    assert header.client_id == "bench"
    assert case.lower() in type(message).__name__.lower()
    assert case == "ApiVersions" or b"topic-of-it" in data


def test_a_produce_carries_the_value_that_fetches_at_the_end_look_for() -> None:
    data = small_messages.KAFKA["produce"]("t").data
    _, message = read_request(memoryview(data)[_PREFIX:])
    assert isinstance(message, produce.ProduceRequest)
    records = message.topic_data[0].partition_data[0].records
    assert records is not None
    assert small_messages.VALUE in bytes(records)


def test_the_mark_of_an_offset_stands_in_a_fetch_once() -> None:
    data = small_messages.fetch_at("t", small_messages.OFFSET_MARK).data
    assert data.count(struct.pack(">q", small_messages.OFFSET_MARK)) == 1


def test_every_case_of_the_raw_client_has_its_way_to_prepare() -> None:
    assert set(small_raw.CASES) == {*small_messages.KAFKA, small_raw.HEARTBEAT, small_raw.TUBEMQ_SEND}


def test_a_reader_counts_only_what_it_is_to_count() -> None:
    seen = Seen(10, counted=4)
    stamp = b"%020d" % 0
    assert [seen.add(stamp) for _ in range(10)] == [False] * 9 + [True]
    assert seen.result()["counted"] == 4
    shares = Seen(10)
    for _ in range(10):
        shares.add(stamp)
    assert shares.result()["counted"] == 8


def test_a_late_writer_is_given_other_chances_and_then_told() -> None:
    session = Session()
    rates = iter([100, 100, 0])

    def measure() -> str:
        small_clients.too_late({"late": next(rates)}, 500, 2_000)
        return "figures"

    assert small_clients.punctual(session, measure) == "figures"
    rates = iter([100] * 3)
    with pytest.raises(CaseFailed, match="too busy for 500 a second"):
        small_clients.punctual(session, measure)


def test_goals_of_tubemq_are_of_cases_that_are_measured() -> None:
    known = {"", *tubemq.CONSUMERS, *tubemq.PRODUCERS}
    for goal in GOALS:
        if goal.scenario == "tubemq":
            assert {goal.case, goal.rival} <= known, goal.what


def test_readers_of_tubemq_have_the_rivals_that_they_are_divided_by() -> None:
    from bench.scenarios import small_tubemq as scenario

    for ours, rivals in scenario.RIVALS.items():
        assert {ours, *rivals} <= set(small_tubemq.READERS)
