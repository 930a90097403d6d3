"""Options of RocketMQ's clients: our names, Java's, property files; bounds that say themselves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from penstock.config import ConsumerConfig, OptionValue, ProducerConfig, consumer_settings, producer_settings
from penstock.config.fields import BOOTSTRAP, TOPICS, fields
from penstock.errors import ConfigError
from penstock.model import Endpoint
from penstock.protocols import address_of
from penstock.protocols.rocketmq.client.cluster import RocketOptions, options_of
from penstock.protocols.rocketmq.config import (
    ADDED,
    ROCKET_SPELLINGS,
    Allocation,
    BodyCodec,
    MessageModel,
    RocketConfig,
    check_group,
    check_topic,
    is_internal,
    property_options,
    rocket_config,
)

HERE = "rocketmq://h/demo"


def consumer(options: Mapping[str, OptionValue]) -> RocketConfig:
    return rocket_config(consumer_settings(HERE, options, protocol=ADDED).extra)


def test_java_s_names_are_understood() -> None:
    settings = consumer_settings(
        HERE,
        {
            "consumerGroup": "g", "messageModel": "BROADCASTING", "subExpression": "TagA || TagB",
            "pullBatchSize": "16", "allocateMessageQueueStrategy": "AVG_BY_CIRCLE",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "instanceName": "i", "accessKey": "a", "secretKey": "s", "heartbeatBrokerInterval": 5_000,
        },
        protocol=ADDED,
    )  # fmt: skip
    assert rocket_config(settings.extra) == RocketConfig(
        message_model=MessageModel.BROADCASTING, tags="TagA || TagB", pull_batch_size=16,
        allocation=Allocation.CIRCLE, instance_name="i", access_key="a", secret_key="s", heartbeat_broker_ms=5_000,
    )  # fmt: skip
    options = options_of(settings.config, settings.extra)
    assert (options.group, options.from_latest, options.reads_as) == ("g", True, "g")
    assert (options.tags, options.expression) == (("TagA", "TagB"), ("TagA || TagB", "TAG"))


def test_a_producers_names_of_java_are_understood() -> None:
    settings = producer_settings(
        HERE,
        {"producerGroup": "p", "compressMsgBodyOverHowmuch": 100, "compressType": "2", "sendLatencyFaultEnable": True,
         "sendMsgTimeout": 3_000, "maxMessageSize": 4 << 20, "defaultTopicQueueNums": 8},
        protocol=ADDED,
    )  # fmt: skip
    found = rocket_config(settings.extra)
    assert (found.producer_group, found.compress_over_bytes, found.compress_type) == ("p", 100, BodyCodec.ZSTD)
    assert (found.avoid_slow_brokers, found.topic_queues) == (True, 8)
    assert producer_settings("rocketmq://h", {}, protocol=ADDED).config.max_request_bytes == 4 << 20
    assert (settings.config.request_timeout_ms, settings.config.max_request_bytes) == (3_000, 4 << 20)


def test_name_servers_stand_between_semicolons_or_commas_and_have_a_port_of_their_own() -> None:
    wanted = (Endpoint("a", 9876), Endpoint("b", 9877))
    assert address_of("rocketmq://a;b:9877/demo").endpoints == wanted
    assert address_of("rocketmq://a,b:9877/demo").endpoints == wanted
    found = consumer_settings("rocketmq:///demo", {"namesrvAddr": "a:9876;b:9877"}, protocol=ADDED)
    assert (found.address.endpoints, found.address.topics) == (wanted, ("demo",))


def test_every_row_of_spellings_names_an_option_there_is() -> None:
    ours = {option.name for kind in (ConsumerConfig, ProducerConfig, RocketConfig) for option in fields(kind)}
    assert {row.ours for row in ROCKET_SPELLINGS} - ours == {BOOTSTRAP, TOPICS}
    names = [name.lower() for row in ROCKET_SPELLINGS for name in (row.ours, *row.also)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"suspend_ms": 99}, "100 to"),
        ({"heartbeat_broker_ms": 120_001}, "100 to 120000"),
        ({"access_key": "a"}, "no secret_key"),
        ({"secret_key": "s"}, "no access_key"),
        ({"tags": "A", "sql": "a > 1"}, "keep one"),
        ({"allocation": "machine_room"}, "no machine_rooms"),
        ({"reader_group": "a b"}, "reader_group is 'a b'"),
        ({"message_model": "none"}, "clustering, broadcasting"),
        ({"vipChannelEnabled": "true"}, "second port"),
        ({"consumeThreadMin": 1}, "one event loop"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: Mapping[str, OptionValue], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        consumer(options)


def test_the_secret_is_shown_nowhere() -> None:
    assert "hidden" not in repr(RocketConfig(access_key="a", secret_key="hidden"))


def test_what_is_chosen_by_sql_is_not_chosen_by_tags() -> None:
    options = RocketOptions(rocket=RocketConfig(sql="a > 1"))
    assert (options.expression, options.tags, options.chooses) == (("a > 1", "SQL92"), (), True)
    assert not RocketOptions().chooses


def test_a_properties_file_is_read_as_java_reads_it() -> None:
    text = "# where\n! also a comment\nrocketmq.namesrv.addr = a:9876;\\\n   b:9876\nconsumerGroup: g\ntags TagA\n"
    assert property_options(text, "consumer") == {
        "namesrv.addr": "a:9876;b:9876", "consumerGroup": "g", "tags": "TagA",
    }  # fmt: skip
    for wrong in ("justakey", "a=1\na=2"):
        with pytest.raises(ConfigError, match="line"):
            property_options(wrong, "consumer")


@pytest.mark.parametrize("name", ["", "a b", "ü", "x" * 128, "a.b"])
def test_names_that_no_topic_can_have(name: str) -> None:
    with pytest.raises(ConfigError, match="topic is"):
        check_topic(name)


def test_names() -> None:
    assert check_topic("%RETRY%g") == "%RETRY%g"
    assert check_group("g" * 255) == "g" * 255
    assert is_internal("%DLQ%g")
    assert is_internal("TBW102")
    assert not is_internal("flights")
