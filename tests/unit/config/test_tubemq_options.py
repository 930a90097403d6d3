"""Options of TubeMQ's clients: our names, Java's, Go's address strings, C++'s INI files; bounds that say themselves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from penstock.config import ConsumerConfig, OptionValue, ProducerConfig, consumer_settings, producer_settings
from penstock.config.fields import BOOTSTRAP, TOPICS, fields
from penstock.errors import ConfigError
from penstock.model import Endpoint
from penstock.protocols.tubemq.config import (
    ADDED,
    TUBE_SPELLINGS,
    ConsumePosition,
    TubeConfig,
    check_group,
    check_topic,
    ini_options,
    parse_filters,
    parse_go_address,
    parse_start_offsets,
    tube_config,
)

HERE = "tubemq://h:1/demo"


def consumer(options: Mapping[str, OptionValue]) -> TubeConfig:
    return tube_config(consumer_settings(HERE, options, protocol=ADDED).extra)


def test_java_s_names_are_understood() -> None:
    found = consumer({
        "rpcTimeoutMs": 5_000, "heartbeatPeriodMs": 2_000, "usrName": "u", "usrPassWord": "p",
        "enableUserAuthentic": True, "msgNotFoundWaitPeriodMs": 200, "consumePosition": 1,
        "maxSubInfoReportIntvlTimes": "4", "pullConfirmInLocal": "true", "partMetaInfoCheckPeriodMs": 6_000,
        "qryPriorityId": 301, "linkStatsMaxForbiddenRate": "0.5",
    })  # fmt: skip
    assert found == TubeConfig(
        rpc_timeout_ms=5_000, heartbeat_period_ms=2_000, user="u", password="p", authenticate=True,
        not_found_wait_ms=200, consume_position=ConsumePosition.ALWAYS_LATEST, report_interval_beats=4,
        confirm_locally=True, metadata_check_ms=6_000, query_priority=301, link_max_forbidden_rate=0.5,
    )  # fmt: skip
    assert found.signs


def test_every_row_of_spellings_names_an_option_there_is() -> None:
    ours = {option.name for kind in (ConsumerConfig, ProducerConfig, TubeConfig) for option in fields(kind)}
    assert {row.ours for row in TUBE_SPELLINGS} - ours == {BOOTSTRAP, TOPICS}
    names = [name.lower() for row in TUBE_SPELLINGS for name in (row.ours, *row.also)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("rpc_timeout_ms", 2_999, "3000 to 600000"),
        ("rpc_timeout_ms", 600_001, "3000 to 600000"),
        ("report_interval_beats", 2, "3 to"),
        ("metadata_check_ms", 4_999, "5000 to"),
        ("link_max_forbidden_rate", 1.5, "0 to 1"),
        ("consume_position", "middle", "first, latest, always_latest"),
        ("session_key", "x" * 1_025, "1,024"),
        ("node_id", "one", "whole number"),
        ("select_big", "maybe", "true or false"),
        ("reader_group", "1st", "no group's name"),
        ("msg_time_zone", "Mars/Olympus", "Asia/Shanghai"),
        ("msg_time_zone", "+25:00", "no zone"),
        ("consumer_id", "a:b", "no consumer's id"),
    ],
)
def test_values_out_of_bounds_say_what_is_allowed(name: str, value: OptionValue, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        consumer({name: value})
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"user": "u"}, "no password"),
        ({"password": "p"}, "no user"),
        ({"authenticate": True}, "no user"),
        ({"bound_consume": True}, "session_key"),
        ({"bound_consume": True, "client_balance": True}, "keep one"),
        ({"client_balance": True, "source_count": 2, "node_id": 2}, "source_count is 2"),
        ({"start_offsets": "1:demo:0=28"}, "bound_consume is not"),
        ({"start_offsets": "1:demo:0=28", "client_balance": True}, "bound_consume is not"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, OptionValue], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        consumer(options)


def test_an_option_of_tubemq_is_none_of_kafka_s() -> None:
    with pytest.raises(ConfigError, match="there is no option"):
        consumer_settings("kafka://h:1/t?msgNotFoundWait=5", {})


@pytest.mark.parametrize(("name", "said"), [("pushFetchThreadCnt", "poll"), ("trustStorePath", "tls_ca_file")])
def test_options_we_cannot_have_say_what_to_do_instead(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        consumer({name: "5"})


def test_topics_may_stand_among_the_options() -> None:
    found = consumer_settings("tubemq://h:1?topics=a1,b1&group=g", {}, protocol=ADDED)
    assert (found.address.topics, found.config.group) == (("a1", "b1"), "g")
    with pytest.raises(ConfigError, match="different topics"):
        consumer_settings("tubemq://h:1/c1?topics=a1", {}, protocol=ADDED)
    with pytest.raises(ConfigError):
        consumer_settings("tubemq://h:1?topics=a1,,b1", {}, protocol=ADDED)


def test_tls_is_an_option_of_every_client_and_its_files_need_it() -> None:
    found = producer_settings(HERE, {"tls": "true", "tls_ca_file": "ca.pem"}, protocol=ADDED)
    assert (found.config.tls, found.config.tls_ca_file) == (True, "ca.pem")
    with pytest.raises(ConfigError, match="tls is not"):
        producer_settings(HERE, {"CACertFile": "ca.pem"}, protocol=ADDED)
    with pytest.raises(ConfigError, match="tls_certificate_file"):
        producer_settings(HERE, {"tls": True, "tls_key_file": "k.pem"}, protocol=ADDED)


# ---- Go's address strings


def test_a_go_address_with_filters_behind_their_topics() -> None:
    found = parse_go_address(
        "127.0.0.1:8715,127.0.0.1:8716?topic=Topic1&filters=f1&filters=f2&topic=Topic2&filters=f3"
        "&group=Group&tlsEnable=false&msgNotFoundWait=10000&heartbeatMaxRetryTimes=6&logPath=%2Ftmp%2Fx&logLevel=warn"
    )
    assert (found.endpoints[1], found.topics) == (Endpoint("127.0.0.1", 8716), ("Topic1", "Topic2"))
    assert found.options == {
        "group": "Group", "tls": "false", "not_found_wait_ms": "10000", "heartbeat_retries": "6",
        "filters": "Topic1@f1,f2;Topic2@f3",
    }  # fmt: skip
    settings = consumer_settings(str(found), {}, protocol=ADDED)
    assert tube_config(settings.extra).not_found_wait_ms == 10_000


def test_a_go_address_with_lists() -> None:
    found = parse_go_address("127.0.0.1:8715?topics=t1,t2&filters=t1@a,b;t2@c&group=g&maxPartCheckPeriod=60000")
    assert (found.topics, found.options["filters"]) == (("t1", "t2"), "t1@a,b;t2@c")


GO_KEYS = {
    "readTimeout": "9000", "tlsEnable": "true", "CACertFile": "a", "tlsCertFile": "b", "tlsKeyFile": "c",
    "tlsServerName": "d", "group": "g1", "consumePosition": "-1", "boundConsume": "true", "sessionKey": "s",
    "sourceCount": "3", "selectBig": "false", "rollbackIfConfirmTimeout": "false", "maxSubInfoReportInterval": "7",
    "maxPartCheckPeriod": "1", "partCheckSlice": "1", "msgNotFoundWait": "1", "rebConfirmWait": "1",
    "maxConfirmWait": "1", "shutdownRebWait": "1", "heartbeatInterval": "1", "heartbeatMaxRetryTimes": "1",
    "heartbeatAfterFail": "1", "authEnable": "true", "authUserName": "u", "authPassword": "p", "logPath": "/x",
    "logLevel": "warn",
}  # fmt: skip


def test_every_key_of_the_go_client_is_known() -> None:
    query = "&".join(f"{name}={value}" for name, value in GO_KEYS.items())
    found = parse_go_address(f"h:1?topic=t1&{query}")
    settings = consumer_settings(str(found), {}, protocol=ADDED)
    assert (settings.config.tls_key_file, settings.config.group) == ("c", "g1")
    tube = tube_config(settings.extra)
    assert (tube.consume_position, tube.source_count, tube.select_big) == (ConsumePosition.FIRST, 3, False)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "h:1",
        "h:1?topic=t1&ttt",
        "h:1?topic=t1&ttt=5",
        "h:1?=5",
        "h:1?filters=f1",
        "h:1?topic=t1&filters=t2@f1",
        "h:1?topic=t1&filters=",
        "h:1?topic=1t",
        "h:port?topic=t1",
        "h:1?topic=t1&readTimeout=soon",
        "h:1?topic=t1&readTimeout=7999999",
        "h:1?topic=t1&maxPartCheckPeriod=long",
        "h:1?topic=t1&group=a1&group=b1",
        "h:1?topic=t%ff",
    ],
)
def test_a_malformed_go_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError):
        parse_go_address(address)


# ---- INI files of the C++ client

INI = """
; the file that comes with the C++ client
[TubeMQ]
//unit M
log_size=100
# more
log_level = 2
network_threads=4
dns_xfs_period_ms=30000
masterAddrInfo=127.0.0.1:8715
rpc_timeout_ms = 15000

[consumer]
group=g1
rpc_timeout_ms=20000
[producer]
linger_ms=7
"""


def test_an_ini_file_is_read_by_role() -> None:
    assert ini_options(INI, "consumer") == {
        "masterAddrInfo": "127.0.0.1:8715", "rpc_timeout_ms": "20000", "group": "g1",
    }  # fmt: skip
    assert ini_options(INI, "producer") == {
        "masterAddrInfo": "127.0.0.1:8715", "rpc_timeout_ms": "15000", "linger_ms": "7",
    }  # fmt: skip
    found = consumer_settings("tubemq:///demo", {}, file=ini_options(INI, "consumer"), protocol=ADDED)
    assert found.address.endpoints == (Endpoint("127.0.0.1", 8715),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a=1", "before any section"),
        ("[TubeMQ]\nrubbish", "line 2"),
        ("[TubeMQ]\n=1", "line 2"),
        ("[TubeMQ\na=1", "line 1"),
        ("[TubeMQ]\ngroup=a\ngroup=b", "twice"),
    ],
)
def test_an_ini_file_that_is_none_says_where(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ini_options(text, "consumer")


def test_sections_of_other_programs_are_passed_over_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    text = "[log4cplus]\nrubbish\ngroup=a\ngroup=b\n[TubeMQ]\nmasterAddrInfo=h:1\n[comsumer]\ngroup=c\n"
    with caplog.at_level("WARNING", "penstock.client"):
        assert ini_options(text, "consumer", "client.conf") == {"masterAddrInfo": "h:1"}
    first, second = [record.getMessage() for record in caplog.records]
    assert "[log4cplus] in line 1 of client.conf is passed over" in first
    assert "[comsumer] in line 7 of client.conf is passed over" in second
    assert "[consumer]" in second  # which sections there are


# ---- names, filters, offsets


@pytest.mark.parametrize("name", ["a", "1a", "a-b", "a" * 65, "", "a b", "ä1"])
def test_names_that_are_no_topics(name: str) -> None:
    with pytest.raises(ConfigError):
        check_topic(name)


@pytest.mark.parametrize("name", ["a", "-a", "a b", "g" * 1_025])
def test_names_that_are_no_groups(name: str) -> None:
    with pytest.raises(ConfigError):
        check_group(name)


@pytest.mark.parametrize(
    "text", ["t1@", "t1@a,,b", "t1@a;t1@b", "t1@a b", "t1@" + "x" * 257, ";", "t1@" + ",".join(["x"] * 501), "a@b@c"]
)
def test_filters_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_filters(text)


def test_filters_without_a_topic_are_for_every_topic() -> None:
    assert parse_filters("a,b;t1@c") == {"": ("a", "b"), "t1": ("c",)}


@pytest.mark.parametrize("text", ["1:t1:0", "1:t1:0=-1", "x:t1:0=1", "1:t1=1", "1:t1:0=1,1:t1:0=2"])
def test_start_offsets_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_start_offsets(text)
