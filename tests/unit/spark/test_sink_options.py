"""Options of the sink: Spark's own names, ours, the producer's; and refusals that say what to do."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.spark._sink_options import SINK_OPTIONS, Guarantee, parse_sink_options

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def test_sparks_own_spelling() -> None:
    parsed = parse_sink_options({**SERVERS, "topic": "t", "kafka.compression.type": "lz4", "KAFKA.linger.ms": "20"})
    assert (parsed.address, parsed.topic) == ("kafka://127.0.0.1:9092", "t")
    assert parsed.client == {"compression": "lz4", "linger_ms": "20"}
    assert parsed.guarantee is Guarantee.AT_LEAST_ONCE


def test_address_may_say_it_all_and_options_win() -> None:
    parsed = parse_sink_options({"path": "kafka://h:1,i:2/t?linger_ms=7&acks=all", "kafka.linger.ms": "9"})
    assert (parsed.address, parsed.topic) == ("kafka://h:1,i:2", "t")
    assert parsed.client == {"linger_ms": "9", "acks": "all"}


def test_writers_wait_for_a_log_that_is_away_as_long_as_they_are_told_to() -> None:
    assert parse_sink_options({**SERVERS, "topic": "t"}).patient == {"first_contact_timeout_ms": 60_000}
    shorter = parse_sink_options({**SERVERS, "topic": "t", "kafka.first.contact.timeout.ms": "500"})
    assert shorter.patient == {"first_contact_timeout_ms": "500"}


def test_what_only_java_could_honour_is_left_out() -> None:
    given = {**SERVERS, "kafka.retries": "3", "kafka.security.protocol": "PLAINTEXT", "kafka.send.buffer.bytes": "1"}
    parsed = parse_sink_options(given)
    assert (parsed.client, parsed.left_out) == ({}, ("retries", "security.protocol", "send.buffer.bytes"))
    with pytest.raises(ConfigError, match=r"security\.protocol"):
        parse_sink_options({**SERVERS, "kafka.security.protocol": "SASL_SSL"})


def test_sparks_options_of_the_query_are_not_ours() -> None:
    given = {"path": "kafka://h:1/t", "checkpointLocation": "/c", "queryName": "q"}
    assert parse_sink_options(given) == parse_sink_options({"path": "kafka://h:1/t"})


def test_secrets_are_not_shown() -> None:
    parsed = parse_sink_options({"path": "kafka://h:1/t", "kafka.client.id": "hidden"})
    assert "hidden" not in repr(parsed)


def test_exactly_once() -> None:
    given = {"path": "kafka://h:1/t", "deliveryGuarantee": "EXACTLY_ONCE", "txnAppId": "job", "txnVersion": "7"}
    parsed = parse_sink_options(given)
    assert parsed.exactly_once
    assert parsed.app == ("job", 7)
    assert parsed.marker_topic == "_penstock_markers"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "neither an address nor kafka.bootstrap.servers is given"),
        ({**SERVERS, "path": "kafka://h:1/t"}, "both an address .* are given"),
        ({"path": "kafka://h:1/a,b"}, "the address names 2 topics"),
        ({"path": "kafka://h:1/a", "topic": "b"}, "the address names topic a, option topic b"),
        ({**SERVERS, "subscribe": "t"}, "there is no option subscribe for writing"),
        ({**SERVERS, "topics": "t"}, "no option topics for writing. Did you mean topic "),
        ({**SERVERS, "kafka.value.serializer": "x"}, "kafka.value.serializer cannot be set: values are"),
        ({**SERVERS, "kafka.transactional.id": "x"}, "exactly-once makes one for each task"),
        ({**SERVERS, "kafka.group.id": "g"}, "is an option of a consumer"),
        ({**SERVERS, "kafka.lingr.ms": "1"}, "there is no option 'kafka.lingr.ms'. Did you mean"),
        ({**SERVERS, "kafka.acks": "1"}, "enable_idempotence needs kafka.acks=all"),
        ({**SERVERS, "deliveryGuarantee": "maybe"}, "expected at-least-once or exactly-once"),
        ({**SERVERS, "txnAppId": "a", "txnVersion": "1"}, "txnAppId has no effect with deliveryGuarantee=at-least"),
        ({**SERVERS, "deliveryGuarantee": "exactly-once", "txnAppId": "a"}, "belong together"),
        ({**SERVERS, "deliveryGuarantee": "exactly-once", "txnAppId": "a", "txnVersion": "-1"}, "expected a whole"),
        ({**SERVERS, "deliveryGuarantee": "exactly-once", "dedupHeaders": "true"}, "nothing is repeated"),
        (
            {**SERVERS, "deliveryGuarantee": "exactly-once", "kafka.acks": "1", "kafka.enable.idempotence": "false"},
            "exactly-once needs acks=all",
        ),
        ({**SERVERS, "dedupHeaders": "yes"}, "expected true or false"),
        ({"path": "nokafka://h:1/t"}, "there is no protocol 'nokafka'"),
    ],
)
def test_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        parse_sink_options(given)


def test_every_option_is_understood() -> None:
    for name in SINK_OPTIONS:
        with pytest.raises(ConfigError) as raised:
            parse_sink_options({name: "?"})
        assert "there is no option" not in str(raised.value)
