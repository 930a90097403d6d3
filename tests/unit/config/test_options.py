"""Options: one set of names for addresses, arguments and files; spellings of others; helpful refusals."""

from __future__ import annotations

import re

import pytest

from penstock.config import (
    Acks,
    ConsumerConfig,
    GroupProtocol,
    IsolationLevel,
    OffsetReset,
    OptionValue,
    ProducerConfig,
    ProtocolConfig,
    consumer_settings,
    producer_settings,
    toml_options,
)
from penstock.config.fields import BOOTSTRAP, fields, normal
from penstock.errors import ConfigError
from penstock.model import Codec, Endpoint
from penstock.protocols.kafka.config import ABSENT, ROWS
from penstock.protocols.kafka.config import ADDED as KAFKA
from penstock.protocols.tubemq.config import ADDED as TUBEMQ

HERE = "kafka://h:1/t"


def test_what_is_said_closer_wins() -> None:
    file: dict[str, OptionValue] = {"group": "file", "client_id": "file", "fetch_min_bytes": 3}
    found = consumer_settings(
        "kafka://h/t?group=address&client_id=address",
        {"group": "argument", "rack": None, "client_rack": None},
        file=file,
        protocol=KAFKA,
    )
    assert (found.config.group, found.config.client_id, found.config.fetch_min_bytes) == ("argument", "address", 3)


def test_the_first_group_of_java_options_is_understood() -> None:
    options: dict[str, OptionValue] = {
        "bootstrap.servers": "a:1,b",
        "group.id": "g",
        "auto.offset.reset": "latest",
        "enable.auto.commit": "true",
        "isolation.level": "read_committed",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor, range",
        "max.poll.records": 7,
        "session.timeout.ms": "6000",
    }
    found = consumer_settings("kafka:///t", options, protocol=KAFKA)
    assert found.address.endpoints == (Endpoint("a", 1), Endpoint("b", 9092))
    assert found.config == ConsumerConfig(
        group="g",
        auto_offset_reset=OffsetReset.LATEST,
        enable_auto_commit=True,
        isolation_level=IsolationLevel.READ_COMMITTED,
        assignors=("cooperative-sticky", "range"),
        max_poll_records=7,
        session_timeout_ms=6_000,
    )


@pytest.mark.parametrize(
    "given",
    [
        "org.apache.kafka.clients.consumer.RangeAssignor,org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        "[class org.apache.kafka.clients.consumer.RangeAssignor, class org.apache.kafka.clients.consumer."
        "CooperativeStickyAssignor]",
        "[RangeAssignor, CooperativeStickyAssignor]",
        ["RangeAssignor", "cooperative-sticky"],
        "[range, cooperative-sticky]",
    ],
)
def test_javas_assignors_are_understood_however_it_writes_them(given: OptionValue) -> None:
    found = consumer_settings("kafka://h/t", {"partition.assignment.strategy": given}, protocol=KAFKA)
    assert found.config.assignors == ("range", "cooperative-sticky") == ConsumerConfig().assignors


def test_librdkafka_spellings_and_units_are_understood() -> None:
    consumer = {"metadata.broker.list": "a:1", "auto.offset.reset": "smallest", "queued.max.messages.kbytes": "65536"}
    found = consumer_settings(
        "kafka:///t", {**consumer, "fetch.message.max.bytes": 5_000, "fetch.wait.max.ms": 9}, protocol=KAFKA
    )
    assert found.config.fetch_buffer_bytes == 64 * 1024 * 1024
    assert (found.config.max_partition_fetch_bytes, found.config.fetch_max_wait_ms) == (5_000, 9)
    producer: dict[str, OptionValue] = {
        "queue.buffering.max.ms": "20",
        "compression.codec": "zstd",
        "request.required.acks": "1",
        "enable.idempotence": "false",
        "queue.buffering.max.kbytes": 2_048,
        "message.timeout.ms": 90_000,
    }
    assert producer_settings(HERE, producer, protocol=KAFKA).config == ProducerConfig(
        linger_ms=20,
        compression=Codec.ZSTD,
        acks=Acks.LEADER,
        enable_idempotence=False,
        buffer_memory_bytes=2 * 1024 * 1024,
        delivery_timeout_ms=90_000,
    )


@pytest.mark.parametrize("given", ["all", "-1", -1, "ALL", Acks.ALL.value])
def test_acks_are_known_by_name_and_number(given: OptionValue) -> None:
    assert producer_settings(HERE, {"acks": given}, protocol=KAFKA).config.acks is Acks.ALL


def test_every_row_of_the_table_names_an_option_there_is() -> None:
    ours = {field.name for role in (ConsumerConfig, ProducerConfig) for field in fields(role)} | {BOOTSTRAP}
    assert [row.ours for row in ROWS if row.ours not in ours] == []
    assert ours - {row.ours for row in ROWS} == set()
    spelled = [{row.ours, normal(row.java), normal(row.librdkafka), *map(normal, row.also)} - {""} for row in ROWS]
    everything = [name for names in spelled for name in names]
    assert len(everything) == len(set(everything))
    assert set(everything) & set(ABSENT) == set()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"auto_offset_rest": "latest"}, "Did you mean 'auto_offset_reset'"),
        ({"session.timout.ms": 1}, "Did you mean 'session_timeout_ms'"),
        ({"linger.ms": 5}, "option of a producer"),
        ({"value.deserializer": "x"}, "Give the class a function"),
        ({"wholly-strange": 1}, "The nearest are [a-z_]+, [a-z_]+, [a-z_]+$"),
        ({"group": "a", "group.id": "a"}, "given twice"),
        ({"fetch_min_bytes": "many"}, "whole number"),
        ({"fetch_min_bytes": 1.5}, "whole number"),
        ({"fetch_min_bytes": True}, "whole number"),
        ({"fetch_min_bytes": -1}, "must be 0 to 2147483647"),
        ({"queued.max.messages.kbytes": "x"}, "whole number"),
        ({"enable_auto_commit": "perhaps", "group": "g"}, "true or false"),
        ({"auto_offset_reset": "middle"}, "earliest, latest, none"),
        ({"assignors": "fair"}, "expected some of range"),
        ({"assignors": ""}, "at least one"),
        ({"client_id": 5}, "expected text"),
        ({"group": ""}, "not empty"),
        ({"enable_auto_commit": True}, "there is no group"),
        ({"group_instance_id": "one"}, "there is no group"),
        ({"group": "g", "heartbeat_interval_ms": 50_000}, "session ends"),
        ({"group": "g", "group.protocol": "share"}, "classic, consumer"),
        (
            {"group": "g", "group.protocol": "consumer", "session.timeout.ms": 6_000},
            "group.consumer.session.timeout.ms",
        ),
        ({"group": "g", "group_protocol": "consumer", "heartbeat_interval_ms": 50}, "The broker decides"),
        ({"group": "g", "group_protocol": "consumer", "assignors": "sticky"}, "group_remote_assignor asks"),
        ({"group": "g", "group.remote.assignor": "range"}, "group_protocol=consumer"),
        ({"fetch_max_wait_ms": 40_000}, "given up after"),
        ({"fetch_min_bytes": 9_000_000}, "lets through"),
        ({"retry_backoff_ms": 5_000}, "more than retry_backoff_max_ms"),
        ({"bootstrap.servers": "other:1"}, "different hosts"),
    ],
)
def test_what_cannot_be_is_refused_in_plain_words(options: dict[str, OptionValue], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        consumer_settings(HERE, options, protocol=KAFKA)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("sasl.username", "There is no SASL so far"),
        ("sasl_plain_password", "There is no SASL so far"),
        ("ssl.truststore.location", "as tls_ca_file"),
        ("ssl.cipher.suites", "tls=true"),
        ("ssl_context", "tls=true"),
        ("enable.ssl.certificate.verification", "always checked"),
        ("error_cb", "Calls raise"),
        ("enable.partition.eof", "status()"),
        ("enable.auto.offset.store", "commit(batch)"),
        ("consumer_timeout_ms", "poll(timeout_s)"),
        ("queued.min.messages", "fetch_buffer_bytes"),
        ("batch.num.messages", "batch_size_bytes"),
        ("compression.level", "compression"),
        ("connections.max.idle.ms", "made again"),
        ("receive.buffer.bytes", "nothing to choose"),
        ("socket.keepalive.enable", "nothing to choose"),
        ("api_version", "which versions"),
        ("api.version.request", "which versions"),
        ("metric.reporters", "metrics()"),
        ("metrics.num.samples", "metrics()"),
        ("debug", "DEBUG"),
        ("queue.buffering.max.messages", "buffer_memory_bytes"),
        ("dr_msg_cb", "add_done_callback"),
        ("loop", "belongs to the loop"),
    ],
)
def test_a_foreign_option_gets_its_own_answer(name: str, complaint: str) -> None:
    for read in (consumer_settings, producer_settings):
        with pytest.raises(ConfigError, match=re.escape(complaint)) as raised:
            read(HERE, {name: "1"}, protocol=KAFKA)
        assert "Did you mean" not in str(raised.value)


@pytest.mark.parametrize("name", ["security.protocol", "security_protocol", "security-protocol"])
def test_the_security_protocol_says_whether_there_is_tls(name: str) -> None:
    for value, tls in (("PLAINTEXT", False), ("plaintext", False), ("SSL", True), ("ssl", True)):
        assert consumer_settings(HERE, {name: value}, protocol=KAFKA).config.tls is tls
    for value in ("SASL_SSL", "sasl_plaintext"):
        with pytest.raises(ConfigError, match="There is no SASL so far"):
            consumer_settings(HERE, {name: value}, protocol=KAFKA)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"acks": 1}, "needs acks=all"),
        ({"max_in_flight": 6}, "at most 5"),
        ({"delivery_timeout_ms": 1_000}, "one attempt may take"),
        ({"compression": "brotli"}, "none, gzip, snappy, lz4, zstd"),
        ({"group": "g"}, "option of a consumer"),
    ],
)
def test_a_producer_is_refused_what_cannot_be(options: dict[str, OptionValue], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        producer_settings(HERE, options, protocol=KAFKA)


def test_newer_groups_are_chosen_as_java_and_librdkafka_call_it() -> None:
    given = {"group.id": "g", "group.protocol": "CONSUMER", "group.remote.assignor": "range"}
    found = consumer_settings(HERE, given, protocol=KAFKA).config
    assert (found.group_protocol, found.group_remote_assignor) == (GroupProtocol.CONSUMER, "range")
    assert consumer_settings(HERE, {}, protocol=KAFKA).config.group_protocol is GroupProtocol.CLASSIC
    assert consumer_settings(HERE, {"group_protocol": "consumer"}, protocol=KAFKA).config.group is None


def test_an_address_without_a_host_says_so() -> None:
    with pytest.raises(ConfigError, match="names no host"):
        consumer_settings("kafka:///t", {}, protocol=KAFKA)


def test_options_of_a_protocol_travel_apart() -> None:
    found = consumer_settings("rocketmq://h:1/t?tags=a", {}, protocol=ProtocolConfig(options=frozenset({"tags"})))
    assert found.extra == {"tags": "a"}
    with pytest.raises(ConfigError, match="no option 'tags'"):
        consumer_settings("kafka://h/t?tags=a", {}, protocol=KAFKA)


def test_a_toml_file_says_what_arguments_say() -> None:
    text = """
        [client]
        client.id = "here"
        [consumer]
        group = "g"
        auto.offset.reset = "latest"
        assignors = ["sticky", "range"]
        [producer]
        linger_ms = 9
    """
    found = consumer_settings(HERE, {}, file=toml_options(text, "consumer"), protocol=KAFKA).config
    assert (found.client_id, found.group, found.assignors) == ("here", "g", ("sticky", "range"))
    assert found.auto_offset_reset is OffsetReset.LATEST
    assert producer_settings(HERE, {}, file=toml_options(text, "producer"), protocol=KAFKA).config.linger_ms == 9


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("group =", "not TOML"), ("group = 'g'", "Tables are"), ("[consumer]\nx = 1979-05-27", "which no option takes")],
)
def test_a_wrong_toml_file_is_told_so(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        toml_options(text, "consumer")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"max.in.flight.requests.per.connection": "9"}, "max.in.flight.requests.per.connection is 9"),
        ({"enable.idempotence": "true", "acks": "1"}, "but enable.idempotence needs acks=all"),
        ({"enable-idempotence": "true", "acks": "1"}, "but enable-idempotence needs acks=all"),
        ({"linger.ms": "-1"}, "linger.ms is -1"),
        ({"delivery.timeout.ms": "5"}, "delivery.timeout.ms is 5, less than .*linger_ms=5"),
    ],
)
def test_options_are_called_what_their_user_called_them(options: dict[str, OptionValue], complaint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(complaint).replace(r"\.\*", ".*")):
        producer_settings(HERE, options, protocol=KAFKA)


def test_what_another_protocols_clients_call_an_option_is_none_here() -> None:
    with pytest.raises(ConfigError, match="no option 'masterAddrInfo'"):
        consumer_settings("kafka:///t?masterAddrInfo=h:1", {}, protocol=KAFKA)
    with pytest.raises(ConfigError, match=r"no option 'group\.id'"):
        consumer_settings("tubemq://h:1/t?group.id=g", {}, protocol=TUBEMQ)
