"""Options: Spark's own names in any case, and a clear word for each thing that cannot be meant."""

import pickle

import pytest

from penstock.errors import ConfigError
from penstock.model import Offset, Partition
from penstock.spark._columns import DEFAULT
from penstock.spark._options import SourceOptions, parse_options
from penstock.spark._starts import resolve

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
        topics=("a", "b"),
        starting=Offset.EARLIEST,
        max_offsets_per_trigger=1000,
        min_partitions=8,
        columns=(*DEFAULT, "headers"),
        group="g",
        fail_on_data_loss=False,
        client={"fetch_max_wait_ms": "10"},
    )


def test_defaults() -> None:
    options = parse_options(KAFKA)
    assert options == SourceOptions(address="kafka://127.0.0.1:9092", topics=("a", "b"))
    assert options.fail_on_data_loss
    assert options.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


def test_address_says_everything_and_an_option_overrules_it() -> None:
    options = parse_options(
        {"path": "kafka://h:1,i:2/x,y?group=g&commitOffsets=true&minPartitions=3&client.id=c", "MINPARTITIONS": "4"}
    )
    assert options == SourceOptions(
        address="kafka://h:1,i:2",
        topics=("x", "y"),
        group="g",
        commit_offsets=True,
        min_partitions=4,
        client={"client_id": "c"},
    )


def test_assigned_partitions() -> None:
    options = parse_options({"kafka.bootstrap.servers": "h:1", "assign": '{"a":[0,2],"b":[1]}'})
    assert options.assigned == {Partition("a", 0), Partition("a", 2), Partition("b", 1)}
    assert options.topics == ()


def test_columns_keep_their_order_and_may_add_headers() -> None:
    assert parse_options({**KAFKA, "columns": "OFFSET, value"}).columns == ("offset", "value")
    assert parse_options({**KAFKA, "columns": "value", "includeHeaders": "true"}).columns == ("value", "headers")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"startingOffset": "earliest"}, "no option startingOffset. Did you mean startingOffsets"),
        ({"maxoffsetpertrigger": "5"}, "Did you mean maxOffsetsPerTrigger"),
        ({"zzzzzz": "5"}, "Known are path, subscribe"),
        ({"subscribePattern": "a.*"}, "subscribePattern of Spark's Kafka source is not supported"),
        ({"kafka.fetch.max.wait.sm": "5"}, "fetch_max_wait_ms"),
        ({"kafka.auto.offset.reset": "earliest"}, "startingOffsets says where to start"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is '0'"),
        ({"minPartitions": "many"}, "minPartitions is 'many'"),
        ({"includeHeaders": "yes"}, "wanted is true or false"),
        ({"columns": "vlaue"}, "Did you mean value"),
        ({"columns": "value,value"}, "value twice"),
        ({"columns": " , "}, "no column"),
        ({"commitOffsets": "true"}, "commitOffsets needs a group"),
        ({"group": "a", "kafka.group.id": "b"}, "group and kafka.group.id differ"),
        ({"startingOffsets": "earlist"}, "startingOffsets = earlist is not understood"),
        ({"startingOffsets": '{"a":5}'}, "no object of partitions"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "-3 is no offset of a-0"),
        ({"startingOffsets": '{"a":{"zero":3}}'}, "'zero' is no partition"),
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


def test_resolved_starts() -> None:
    given = parse_options({**KAFKA, "startingOffsets": '{"a":{"0":-2,"1":-1}}'}).starting
    assert given is not None
    assert resolve("startingOffsets", given, earliest=EARLIEST, latest=LATEST) == {
        Partition("a", 0): 3,
        Partition("a", 1): 7,
    }
    assert resolve("startingOffsets", Offset.LATEST, earliest=EARLIEST, latest=LATEST) == LATEST


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({Partition("a", 0): 5}, "has no offset for a-1"),
        ({Partition("a", 0): 5, Partition("a", 1): 5, Partition("b", 0): 5}, "names what is not read: b-0"),
    ],
)
def test_starts_must_name_exactly_what_is_read(wanted: dict[Partition, int], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        resolve("startingOffsets", wanted, earliest=EARLIEST, latest=LATEST)
