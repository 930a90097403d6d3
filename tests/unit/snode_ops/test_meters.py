"""What is counted adds up, and stays bounded whatever servers behind say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from penstock.interfaces.front import BOUNDS_S, OTHER, Meter
from penstock.protocols.kafka.server.refusals import coded_in, codes_in
from penstock.protocols.kafka.wire.fetch import FetchResponse, FetchResponsePartition, FetchResponseTopic
from penstock.protocols.kafka.wire.groups import HeartbeatResponse
from penstock.protocols.rocketmq.wire.framing import RemotingCommand, code_of, encode
from penstock.snode.monitoring import Family, Histogram, Kind, Sample, text


@given(st.lists(st.floats(0, 100)))
def test_every_answer_is_in_one_bucket_and_no_bucket_has_a_slower_one(times: list[float]) -> None:
    meter = Meter("kafka", {}.get, {}.get)
    for seconds in times:
        meter.answered(0, seconds)
    if times:
        served = meter.served[0]
        assert served.count == len(times)
        for place, bound in enumerate(BOUNDS_S):
            assert sum(served.buckets[: place + 1]) == sum(seconds <= bound for seconds in times)


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=300))
def test_codes_without_a_name_are_one(codes: list[int]) -> None:
    meter = Meter("rocketmq", {}.get, {1: "SYSTEM_ERROR"}.get)
    for code in codes:
        meter.refused(10, code)
    assert meter.errors.keys() <= {(10, 1), (10, OTHER)}
    assert sum(meter.errors.values()) == len(codes)


@given(st.integers(-(2**31), 2**31 - 1), st.booleans(), st.binary(max_size=20), st.text(max_size=20))
def test_the_code_of_a_frame_is_read_where_it_was_written(code: int, compact: bool, body: bytes, remark: str) -> None:
    said = "".join(letter for letter in remark if not 0xD800 <= ord(letter) < 0xE000)
    frame = encode(RemotingCommand(code, 7, 1, {"a": "b"}, body, said, compact=compact))
    assert code_of(frame) == code


def test_codes_are_found_at_the_top_of_an_answer_and_in_its_parts() -> None:
    parts = [FetchResponsePartition(error_code=code) for code in (0, 3, 1, 3)]
    answer = FetchResponse(error_code=70, responses=[FetchResponseTopic(topic="t", partitions=parts)])
    assert codes_in(answer) == [70, 3, 1, 3]
    assert [each.code for each in coded_in(answer)] == [70, 3, 1, 3]
    assert codes_in(HeartbeatResponse(error_code=27)) == [27]
    assert codes_in(HeartbeatResponse()) == []


@given(st.text(), st.lists(st.integers(0, 10**15), min_size=len(BOUNDS_S) + 1, max_size=len(BOUNDS_S) + 1))
def test_whatever_a_label_says_is_read_back(label: str, buckets: list[int]) -> None:
    plain = Family("penstock_a_total", Kind.COUNTER, "Says.", ("front",))
    timed = Family("penstock_b_seconds", Kind.HISTOGRAM, "Says.", ("front",))
    said = "".join(letter for letter in label if letter not in "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
    page = text([Sample(plain, 3, (said,)), Sample(timed, Histogram(buckets, 1.5), (said,))])
    counter, histogram = text_string_to_metric_families(page)
    assert [(each.labels["front"], each.value) for each in counter.samples] == [(said, 3)]
    assert [each.value for each in histogram.samples if each.name.endswith("_count")] == [sum(buckets)]
