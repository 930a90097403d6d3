"""``penstock topics`` and ``penstock bench`` against a node: what they print, what they refuse."""

from __future__ import annotations

import pytest

from penstock.client import Admin
from penstock.model import Partition
from penstock.testing import Broker
from tests.unit.cli.running import fill, penstock, records, refused


def test_topics_are_listed_by_name_with_their_partitions(log: Broker) -> None:
    log.create_topic("b", partitions=3)
    log.create_topic("a")
    ran = penstock("topics", "list", log.address)
    assert (ran.code, ran.rows) == (0, [["a", "1", "not internal"], ["b", "3", "not internal"]])


def test_internal_topics_are_listed_on_request_only(log: Broker) -> None:
    log.create_topic("t")
    with Admin(log.address) as admin:
        admin.commit("g", {Partition("t", 0): 0})
    assert [row[0] for row in penstock("topics", "list", log.address).rows] == ["t"]
    assert [row[0] for row in penstock("topics", "list", log.address, "--internal").rows] == ["__consumer_offsets", "t"]


def test_json_has_one_object_a_topic(log: Broker) -> None:
    log.create_topic("t", partitions=2)
    ran = penstock("topics", "list", log.address, "--json")
    assert ran.objects == [{"topic": "t", "partitions": 2, "internal": False}]


def test_a_log_without_topics_has_an_empty_list(log: Broker) -> None:
    ran = penstock("topics", "list", log.address)
    assert (ran.code, ran.stdout, ran.stderr) == (0, b"", "")


def test_a_topic_is_described_by_leaders_and_offsets(log: Broker) -> None:
    log.create_topic("t", partitions=2)
    fill(log, "t", [b"1", b"2", b"3"], partition=1)
    ran = penstock("topics", "describe", log.address, "t")
    assert ran.rows == [["t", "0", "1", "0", "0"], ["t", "1", "1", "0", "3"]]


def test_describing_what_is_not_there_names_it(log: Broker) -> None:
    log.create_topic("t")
    told = refused("topics", "describe", log.address, "t", "absent", "also")
    assert "no topic named absent, also" in told
    assert "penstock topics list" in told


def test_topics_are_created_as_asked(log: Broker) -> None:
    ran = penstock("topics", "create", log.address, "a", "b", "-p", 4, "--config", "retention.ms=5000")
    assert (ran.code, ran.stderr) == (0, "created a, b\n")
    with Admin(log.address) as admin:
        assert {name: len(topic.partitions) for name, topic in admin.topics().items()} == {"a": 4, "b": 4}
        assert admin.topic_config("b")["retention.ms"] == "5000"


def test_creating_a_topic_twice_is_the_servers_no(log: Broker) -> None:
    log.create_topic("t")
    ran = penstock("topics", "create", log.address, "t")
    assert ran.code == 1
    assert "t" in ran.stderr
    assert "exists" in ran.stderr


def test_a_setting_without_a_value_is_refused(log: Broker) -> None:
    assert "'retention.ms' is not of the form name=value" in refused(
        "topics", "create", log.address, "t", "--config", "retention.ms"
    )


def test_a_deleted_topic_is_gone(log: Broker) -> None:
    log.create_topic("t")
    assert penstock("topics", "delete", log.address, "t").code == 0
    assert penstock("topics", "list", log.address).rows == []


def test_deleting_what_is_not_there_is_the_servers_no(log: Broker) -> None:
    ran = penstock("topics", "delete", log.address, "absent")
    assert ran.code == 1
    assert "absent" in ran.stderr


def test_a_grown_topic_has_the_partitions_asked_for(log: Broker) -> None:
    log.create_topic("t", partitions=2)
    ran = penstock("topics", "grow", log.address, "t", "--partitions", 5)
    assert (ran.code, ran.stderr) == (0, "t has 5 partitions\n")
    assert len(penstock("topics", "describe", log.address, "t").rows) == 5


def test_a_topic_does_not_shrink(log: Broker) -> None:
    log.create_topic("t", partitions=2)
    assert penstock("topics", "grow", log.address, "t", "-p", 1).code == 1
    assert len(penstock("topics", "describe", log.address, "t").rows) == 2


@pytest.mark.parametrize("verb", [("topics", "list"), ("topics", "describe"), ("groups", "list")])
def test_nobody_at_the_address_is_the_networks_fault(verb: tuple[str, str]) -> None:
    words = ("t",) if verb[1] == "describe" else ()
    ran = penstock(*verb, "kafka://127.0.0.1:1", *words, "-o", "api_timeout_ms=50")
    assert ran.code == 1
    assert "127.0.0.1:1" in ran.stderr
    assert "Is anything listening" in ran.stderr


def test_bench_reads_all_partitions_and_commits_nothing(log: Broker) -> None:
    log.create_topic("t", partitions=2)
    fill(log, "t", [b"x" * 10] * 50, partition=0)
    fill(log, "t", [b"y" * 10] * 70, partition=1)
    (row,) = penstock("bench", f"{log.address}/t", "--json").objects
    assert (row["topic"], row["records"]) == ("t", 120)
    assert penstock("groups", "list", log.address).rows == []
    assert len(records(log, "t")) == 120


def test_bench_stops_at_its_limit(log: Broker) -> None:
    log.create_topic("t", partitions=2)
    fill(log, "t", [b"x"] * 50, partition=0)
    fill(log, "t", [b"y"] * 70, partition=1)
    (row,) = penstock("bench", f"{log.address}/t", "--limit", 20, "--json").objects
    assert row["records"] == 50  # one batch


def test_bench_names_a_topic_that_is_not_there(log: Broker) -> None:
    assert "no topic named absent" in refused("bench", f"{log.address}/absent")
    assert "names no topic" in refused("bench", log.address)


def test_every_listing_can_say_what_its_columns_are(log: Broker) -> None:
    log.create_topic("t")
    assert penstock("topics", "list", log.address, "--header").rows[0] == ["topic", "partitions", "internal"]
    assert penstock("topics", "describe", log.address, "t", "--header").rows[0][:2] == ["topic", "partition"]
    assert penstock("bench", f"{log.address}/t", "--header").rows[0][0] == "topic"


def test_settings_are_shown_with_their_defaults_and_sources(log: Broker) -> None:
    penstock("topics", "create", log.address, "t", "--config", "retention.ms=5000")
    rows = {row[1]: row[2:] for row in penstock("topics", "describe", log.address, "t", "--configs").rows}
    assert rows["retention.ms"] == ["5000", "604800000", "DYNAMIC_TOPIC_CONFIG"]
    assert rows["cleanup.policy"] == ["delete", "delete", "DEFAULT_CONFIG"]


def test_settings_are_changed_one_by_one_and_set_back(log: Broker) -> None:
    def settings() -> dict[str, str]:
        with Admin(log.address) as admin:
            return dict(admin.topic_config("t"))

    penstock("topics", "create", log.address, "t", "--config", "retention.ms=5000", "--config", "segment.bytes=2000000")
    before = settings()
    alter = ("topics", "alter", log.address, "t", "--config", "retention.ms=6000", "--delete-config", "segment.bytes")
    tried = penstock(*alter, "--dry-run")
    assert (tried.code, tried.stderr, settings()) == (0, "t can be changed, nothing was\n", before)
    done = penstock(*alter)
    assert (done.code, done.stderr) == (0, "changed t\n")
    assert settings() == before | {"retention.ms": "6000", "segment.bytes": "1073741824"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "there is nothing to change"),
        (["--config", "a=1", "--delete-config", "a"], "a is set and deleted"),
        (["--config", "a"], "'a' is not of the form name=value"),
    ],
)
def test_what_cannot_be_a_change_is_refused(log: Broker, words: list[str], said: str) -> None:
    log.create_topic("t")
    assert said in refused("topics", "alter", log.address, "t", *words)


@pytest.mark.parametrize("words", [["--config", "retention.ms=soon"], ["--config", "no.such=1"]])
@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_what_the_server_refuses_is_said(log: Broker, words: list[str], dry: list[str]) -> None:
    log.create_topic("t")
    ran = penstock("topics", "alter", log.address, "t", *words, *dry)
    assert (ran.code, "INVALID_CONFIG" in ran.stderr) == (1, True), ran.stderr


@pytest.mark.parametrize("scheme", ["rocketmq", "tubemq"])
def test_other_protocols_say_what_they_cannot(scheme: str) -> None:
    with Broker(listen=["kafka://127.0.0.1:0", f"{scheme}://127.0.0.1:0"]) as log:
        log.create_topic("t")
        words = ["topics", "alter", log.url(scheme), "t", "--config", "a=1", "--dry-run"]
        said = refused(*words)
    assert ("queues and permissions" if scheme == "rocketmq" else "without making it") in said
