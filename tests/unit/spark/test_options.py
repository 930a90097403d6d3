"""Options: Spark's own names in any case, and a clear word for each thing that cannot be meant."""

import pickle

import pytest

from penstock.errors import ConfigError
from penstock.model import Offset, Partition
from penstock.spark._columns import DEFAULT
from penstock.spark._option_values import Moment
from penstock.spark._options import Retries, SourceOptions, Subscription, TaskSizes, TriggerLimits, parse_options
from penstock.spark._starts import AtTime, FromGroup, resolve
from tests.unit.spark.listed_log import ListedLog

KAFKA = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "a, b"}


def test_a_job_written_for_sparks_kafka_source_needs_no_other_options() -> None:
    options = parse_options(
        {
            **KAFKA,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "1000",
            "minPartitions": "8",
            "includeHeaders": "true",
            "failOnDataLoss": "false",
            "kafka.group.id": "g",
            "kafka.fetch.max.wait.ms": "10",
        }
    )
    assert options == SourceOptions(
        address="kafka://127.0.0.1:9092",
        subscription=Subscription(topics=("a", "b")),
        starting=Offset.EARLIEST,
        limits=TriggerLimits(max_offsets=1000),
        sizes=TaskSizes(at_least=8),
        columns=(*DEFAULT, "headers"),
        group="g",
        fail_on_data_loss=False,
        client={"fetch_max_wait_ms": "10"},
    )


def test_defaults() -> None:
    options = parse_options(KAFKA)
    assert options == SourceOptions(address="kafka://127.0.0.1:9092", subscription=Subscription(topics=("a", "b")))
    assert options.fail_on_data_loss
    assert options.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


def test_address_says_everything_and_an_option_overrules_it() -> None:
    options = parse_options(
        {"path": "kafka://h:1,i:2/x,y?group=g&commitOffsets=true&minPartitions=3&client.id=c", "MINPARTITIONS": "4"}
    )
    assert options == SourceOptions(
        address="kafka://h:1,i:2",
        subscription=Subscription(topics=("x", "y")),
        group="g",
        commit_offsets=True,
        sizes=TaskSizes(at_least=4),
        client={"client_id": "c"},
    )


def test_assigned_partitions() -> None:
    options = parse_options({"kafka.bootstrap.servers": "h:1", "assign": '{"a":[0,2],"b":[1]}'})
    assert options.subscription == Subscription(
        assigned=frozenset({Partition("a", 0), Partition("a", 2), Partition("b", 1)})
    )


def test_columns_keep_their_order_and_may_add_headers() -> None:
    assert parse_options({**KAFKA, "columns": "OFFSET, value"}).columns == ("offset", "value")
    assert parse_options({**KAFKA, "columns": "value", "includeHeaders": "true"}).columns == ("value", "headers")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"startingOffset": "earliest"}, "no option startingOffset. Did you mean startingOffsets"),
        ({"maxoffsetpertrigger": "5"}, "Did you mean maxOffsetsPerTrigger"),
        ({"zzzzzz": "5"}, "The nearest are valueSchema, "),
        ({"subscribePattern": "a.*"}, "topics are named twice: subscribe and subscribePattern"),
        ({"kafka.fetch.max.wait.sm": "5"}, "fetch_max_wait_ms"),
        ({"kafka.auto.offset.reset": "earliest"}, "startingOffsets says where to start"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is '0'"),
        ({"minPartitions": "many"}, "minPartitions is 'many'"),
        ({"includeHeaders": "yes"}, "expected true or false"),
        ({"columns": "vlaue"}, "Did you mean value"),
        ({"columns": "value,value"}, "value twice"),
        ({"columns": " , "}, "no column"),
        ({"commitOffsets": "true"}, "commitOffsets needs a group"),
        ({"group": "a", "kafka.group.id": "b"}, "group and kafka.group.id differ"),
        ({"startingOffsets": "earlist"}, "startingOffsets = earlist is not understood"),
        ({"startingOffsets": '{"a":5}'}, "no object of partitions"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "-3 is not an offset of a-0"),
        ({"startingOffsets": '{"a":{"zero":3}}'}, "'zero' is not a partition"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "endingOffsets cannot be earliest"),
        ({"assign": '{"a":[0]}'}, "topics are named twice: subscribe and assign"),
        ({"path": "kafka://h/t"}, "both an address"),
    ],
)
def test_what_cannot_be_meant_is_told(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options({**KAFKA, **given})
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "neither an address nor kafka.bootstrap.servers"),
        ({"path": "kafka://h:1"}, "no topic is named"),
        ({"path": "kafka://h:1/a", "subscribe": "b"}, "topics are named twice"),
        ({"path": "/some/file"}, "has no scheme"),
    ],
)
def test_address_and_topics_are_needed_once(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options(given)
    assert told in str(caught.value)


def test_secrets_are_not_shown_and_options_travel() -> None:
    options = parse_options({**KAFKA, "kafka.client.id": "hush"})
    assert "hush" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


EARLIEST = {Partition("a", 0): 3, Partition("a", 1): 0}
LATEST = {Partition("a", 0): 9, Partition("a", 1): 7}
LOG = ListedLog({})


def test_resolved_starts() -> None:
    given = parse_options({**KAFKA, "startingOffsets": '{"a":{"0":-2,"1":-1}}'}).starting
    assert given is not None
    assert resolve("startingOffsets", given, earliest=EARLIEST, latest=LATEST, log=LOG) == {
        Partition("a", 0): 3,
        Partition("a", 1): 7,
    }
    assert resolve("startingOffsets", Offset.LATEST, earliest=EARLIEST, latest=LATEST, log=LOG) == LATEST


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({Partition("a", 0): 5}, "has nothing for a-1"),
        ({Partition("a", 0): 5, Partition("a", 1): 5, Partition("b", 0): 5}, "names what is not read: b-0"),
    ],
)
def test_starts_must_name_exactly_what_is_read(wanted: dict[Partition, int], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        resolve("startingOffsets", wanted, earliest=EARLIEST, latest=LATEST, log=LOG)


def test_every_other_option_of_sparks_kafka_source_is_understood() -> None:
    options = parse_options(
        {
            "kafka.bootstrap.servers": "h:1",
            "subscribePattern": "orders-.*",
            "startingOffsetsByTimestamp": '{"a":{"0":1000,"1":"-2h"}}',
            "startingOffsetsByTimestampStrategy": "latest",
            "endingTimestamp": "2026-11-21T16:30:00+01:00",
            "minOffsetsPerTrigger": "10",
            "maxTriggerDelay": "10s",
            "maxRecordsPerPartition": "500",
            "kafkaConsumer.pollTimeoutMs": "700",
            "fetchOffset.numRetries": "0",
            "fetchOffset.retryIntervalMs": "25",
            "groupIdPrefix": "mine",
            "commitOffsets": "true",
        }
    )
    times = {Partition("a", 0): Moment(1000), Partition("a", 1): Moment(-7_200_000, relative=True)}
    assert options == SourceOptions(
        address="kafka://h:1",
        subscription=Subscription(pattern="orders-.*"),
        starting=AtTime("startingOffsetsByTimestamp", times, Offset.LATEST),
        ending=AtTime("endingTimestamp", Moment(1_795_275_000_000), Offset.LATEST),
        limits=TriggerLimits(min_offsets=10, max_delay_ms=10_000),
        sizes=TaskSizes(max_records=500),
        group=options.group,
        commit_offsets=True,
        poll_timeout_ms=700,
        retries=Retries(0, 25),
    )
    assert options.group is not None
    assert options.group.startswith("mine-")


def test_our_own_options() -> None:
    given = {
        "startingOffsets": "Committed:Latest",
        "group": "g",
        "maxBytesPerTrigger": "64m",
        "targetBatchDuration": "10 seconds",
        "maxPartitions": "3",
        "failOnDataLoss": "WARN",
    }
    options = parse_options({**KAFKA, **given})
    assert options.starting == FromGroup(Offset.LATEST)
    assert options.limits == TriggerLimits(max_bytes=64 << 20, target_ms=10_000)
    assert options.sizes == TaskSizes(at_most=3)
    assert not options.fail_on_data_loss


def test_options_of_java_alone_are_left_out_and_named() -> None:
    given = {"kafka.receive.buffer.bytes": "1", "kafka.session.timeout.ms": "5", "kafka.security.protocol": "PLAINTEXT"}
    options = parse_options({**KAFKA, **given, "kafka.fetch.max.bytes": "4096"})
    assert options.client == {"fetch_max_bytes": "4096"}
    assert options.left_out == ("receive.buffer.bytes", "security.protocol", "session.timeout.ms")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is 'maybe', expected true, false, fail or warn"),
        ({"startingOffsets": "committed"}, "startingOffsets=committed needs a group"),
        ({"startingOffsets": "committed:never", "group": "g"}, "is not understood"),
        ({"startingOffsets": "-2h"}, "A time is given by startingTimestamp"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp = 'yesterday' is not a time"),
        ({"startingTimestamp": "1700000000000000"}, "after the year 9999"),
        ({"startingOffsetsByTimestamp": '{"a":{"0":true}}'}, "is not a time"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "expected error or latest"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "minOffsetsPerTrigger is 9"),
        ({"maxTriggerDelay": "5m"}, "no effect without minOffsetsPerTrigger"),
        ({"minPartitions": "9", "maxPartitions": "5"}, "minPartitions is 9, more than maxPartitions"),
        ({"maxBytesPerTrigger": "64x"}, "expected a number of bytes"),
        ({"targetBatchDuration": "soon"}, "is not a duration"),
        ({"fetchOffset.numRetries": "-1"}, "expected a whole number of at least 0"),
        ({"kafka.ssl.keystore.location": "x", "kafka.ssl.keystore.password": "hush"}, "x is a JKS store"),
        ({"kafka.sasl.jaas.config": "hush"}, "there is no SASL so far"),
        ({"rocketmq.namesrv": "h"}, "there is no option rocketmq.namesrv"),
    ],
)
def test_what_cannot_be_meant_is_told_too(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options({**KAFKA, **given})
    assert told in str(caught.value)
    assert "hush" not in str(caught.value)


def test_pattern_that_is_none_is_told() -> None:
    with pytest.raises(ConfigError, match="subscribePattern = a\\(b is not a regular expression"):
        parse_options({"path": "kafka://h:1", "subscribePattern": "a(b"})


@pytest.mark.parametrize("path", ["kafka://h:1/a?password=hush&broken", "kafka://h:x/a?password=hush"])
def test_secrets_in_a_mistaken_address_are_not_told(path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options({"path": path})
    assert "hush" not in str(caught.value)


def test_a_prefix_may_be_the_scheme() -> None:
    assert parse_options({"path": "kafka://h:1/a", "Kafka.client.id": "c"}).client == {"client_id": "c"}


def test_the_most_precise_start_and_end_win_and_the_others_are_told() -> None:
    times, offsets = '{"orders": {"0": 5}}', "earliest"
    given = {"startingOffsets": offsets, "startingOffsetsByTimestamp": times, "startingTimestamp": "7"}
    found = parse_options({"path": "kafka://h:9092/orders", **given, "endingOffsets": "latest", "endingTimestamp": "9"})
    assert isinstance(found.starting, AtTime)
    assert found.starting.option == "startingTimestamp"
    assert found.overruled == {
        "startingOffsetsByTimestamp": "startingTimestamp",
        "startingOffsets": "startingTimestamp",
        "endingOffsets": "endingTimestamp",
    }
    found = parse_options(
        {"path": "kafka://h:9092/orders", "startingOffsets": offsets, "startingOffsetsByTimestamp": times}
    )
    assert found.overruled == {"startingOffsets": "startingOffsetsByTimestamp"}
    assert parse_options({"path": "kafka://h:9092/orders", "startingOffsets": offsets}).overruled == {}


def test_rows_have_their_broker_where_partitions_belong_to_brokers() -> None:
    sparks = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert parse_options({"path": "kafka://h:1/t"}).columns == sparks
    for scheme in ("tubemq", "rocketmq"):
        address = {"path": f"{scheme}://h:1/t"}
        assert parse_options(address).columns == (*sparks, "node")
        assert parse_options({**address, "includeHeaders": "true"}).columns == (*sparks, "node", "headers")
        assert parse_options({**address, "columns": "value"}).columns == ("value",)
    assert parse_options({"path": "kafka://h:1/t", "columns": "value,node"}).columns == ("value", "node")
    assert parse_options({"path": "kafka://h:1/t", "columns": "header:node"}).extras["node"].header == "node"
    with pytest.raises(ConfigError, match="header node has the name of another column"):
        parse_options({"path": "tubemq://h:1/t", "columns": "header:node"})
