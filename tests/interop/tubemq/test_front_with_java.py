"""Our node under TubeMQ's Java clients: what they take for a master and a broker is one process of ours."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from penstock.testing import Broker
from tools.peers import tubemq_clients
from tools.peers.tubemq_clients import Driver, Line, Mail

pytestmark = pytest.mark.interop

COLOURS = ("blue", "red", None)


def mails(topic: str, count: int, *, first: int = 0) -> list[Mail]:
    """Every third one blue, red, without a filter item; each with an attribute of its own."""
    numbers = range(first, first + count)
    return [
        Mail(topic, b"%d" % i, COLOURS[i % 3], attributes={"seq": str(i), "$own$": "a$b", "word": "café"})
        for i in numbers
    ]


def by_body(lines: list[Line]) -> dict[bytes, tuple[str | None, str]]:
    """Body → (filter item, the attributes that are not TubeMQ's own)."""
    found = {}
    for line in lines:
        own = [pair for pair in line["attributes"].split(",") if not pair.startswith("$msg")]
        found[line["body"]] = (line["filter"], ",".join(own))
    return found


def wanted(sent: list[Mail]) -> dict[bytes, tuple[str | None, str]]:
    return {mail.body: (mail.filter, f"seq={mail.attributes['seq']},$own$=a$b,word=café") for mail in sent}


def send(masters: str, sent: list[Mail]) -> list[Line]:
    with tubemq_clients.producer(masters) as producer:
        answers = producer.send(sent)
    assert {answer["code"] for answer in answers} == {200}
    return answers


@pytest.mark.parametrize("consumer", [tubemq_clients.pull, tubemq_clients.balance])
def test_java_reads_back_what_java_sent(
    tube_node: Broker, masters: str, consumer: Callable[..., AbstractContextManager[Driver]]
) -> None:
    tube_node.create_topic("flow", partitions=3)
    sent = mails("flow", 30)
    answers = send(masters, sent)
    with consumer(masters, "readers", "flow") as java:
        assert by_body(java.wait_messages(30)) == wanted(sent)
        assert sorted(java.holding) == ["1:flow:0", "1:flow:10000", "1:flow:20000"]
    assert len(java.messages) == 30
    of: dict[str, list[tuple[int, bytes]]] = {answer["partition"]: [] for answer in answers}
    for answer, mail in zip(answers, sent, strict=True):
        of[answer["partition"]].append((answer["offset"], mail.body))
    for partition, pairs in of.items():
        assert [offset for offset, _ in pairs] == [28 * i for i in range(len(pairs))]
        assert [line["body"] for line in java.messages if line["partition"] == partition] == [body for _, body in pairs]


def test_a_group_goes_on_where_it_was(tube_node: Broker, masters: str) -> None:
    tube_node.create_topic("flow")
    send(masters, mails("flow", 9))
    with tubemq_clients.pull(masters, "readers", "flow") as first:
        first.wait_messages(9)
    tube_node.restart()
    send(masters, mails("flow", 5, first=9))
    with tubemq_clients.pull(masters, "readers", "flow") as second:
        assert [line["body"] for line in second.wait_messages(5)] == [b"%d" % i for i in range(9, 14)]


def test_what_is_not_confirmed_comes_again(tube_node: Broker, masters: str) -> None:
    tube_node.create_topic("flow")
    send(masters, mails("flow", 6))
    with tubemq_clients.pull(masters, "readers", "flow", confirm="rollback") as unsure:
        assert unsure.wait_messages(12)[0]["body"] == b"0"
        assert unsure.bodies[6] == b"0"
    with tubemq_clients.pull(masters, "readers", "flow") as sure:
        assert [line["body"] for line in sure.wait_messages(6)] == [b"%d" % i for i in range(6)]


def test_java_gets_only_what_its_filter_asks_for(tube_node: Broker, masters: str) -> None:
    tube_node.create_topic("flow", partitions=2)
    sent = mails("flow", 60)
    send(masters, sent)
    reds = wanted([mail for mail in sent if mail.filter == "red"])
    with tubemq_clients.pull(masters, "readers", "flow@red") as java:
        assert by_body(java.wait_messages(20)) == reds
    both = wanted([mail for mail in sent if mail.filter])
    with tubemq_clients.balance(masters, "others", "flow@red;blue") as java:
        assert by_body(java.wait_messages(40)) == both


def test_partitions_move_as_java_members_come_and_go(tube_node: Broker, masters: str) -> None:
    tube_node.create_topic("flow", partitions=4)
    with tubemq_clients.pull(masters, "readers", "flow") as first:
        first.wait_holding(4)
        with tubemq_clients.pull(masters, "readers", "flow") as second:
            second.wait_holding(2)
            first.wait_holding(2)
            assert not set(first.holding) & set(second.holding)
            sent = mails("flow", 40)
            send(masters, sent)
            first.wait_messages(20)
            second.wait_messages(20)
            assert sorted(first.bodies + second.bodies) == sorted(mail.body for mail in sent)
        first.wait_holding(4)


def test_java_starts_from_given_offsets(tube_node: Broker, masters: str) -> None:
    tube_node.create_topic("flow", partitions=2)
    of: dict[str, list[tuple[int, bytes]]] = {}
    sent = mails("flow", 20)
    for answer, mail in zip(send(masters, sent), sent, strict=True):
        of.setdefault(answer["partition"], []).append((answer["offset"], mail.body))
    starts = {"1:flow:0": 28 * 4, "1:flow:10000": 28 * 7}
    later = sorted(body for key, pairs in of.items() for offset, body in pairs if offset >= starts[key])
    offsets = ",".join(f"{key}={offset}" for key, offset in starts.items())
    with tubemq_clients.pull(masters, "bound", "flow", session="key", count=1, offsets=offsets) as java:
        java.wait_messages(len(later))
    assert sorted(java.bodies) == later
    with tubemq_clients.balance(masters, "balanced", "flow", offsets=offsets) as java:
        java.wait_messages(len(later))
    assert sorted(java.bodies) == later


def test_a_new_group_that_asks_for_the_latest_gets_nothing_older(tube_node: Broker, masters: str) -> None:
    tube_node.create_topic("flow")
    send(masters, mails("flow", 3))
    with tubemq_clients.pull(masters, "readers", "flow", position="latest") as java:
        java.wait_holding(1)
        send(masters, mails("flow", 2, first=3))
        assert [line["body"] for line in java.wait_messages(2)] == [b"3", b"4"]


def test_two_client_balanced_nodes_share_by_their_numbers(tube_node: Broker, masters: str) -> None:
    tube_node.create_topic("flow", partitions=4)
    sent = mails("flow", 24)
    send(masters, sent)
    with (
        tubemq_clients.balance(masters, "readers", "flow", count=2, node=0) as even,
        tubemq_clients.balance(masters, "readers", "flow", count=2, node=1) as odd,
    ):
        assert even.wait_holding(2) == ["1:flow:10000", "1:flow:30000"]
        assert odd.wait_holding(2) == ["1:flow:0", "1:flow:20000"]
        even.wait_messages(12)
        odd.wait_messages(12)
    assert sorted(even.bodies + odd.bodies) == sorted(mail.body for mail in sent)


def test_a_topic_that_is_not_there_is_told(masters: str) -> None:
    with tubemq_clients.balance(masters, "readers", "nowhere") as java:
        java.wait(lambda driver: driver.events("error"))
    assert java.events("error")[0]["code"] == 431


def test_large_and_empty_looking_messages_pass(tube_node: Broker, masters: str) -> None:
    tube_node.create_topic("flow")
    sizes = [1, 3, 8_150, 8_192, 20_000, 1_000_000]
    sent = [Mail("flow", bytes([i]) * size) for i, size in enumerate(sizes)]
    send(masters, sent)
    with tubemq_clients.pull(masters, "readers", "flow") as java:
        java.wait_messages(len(sizes))
    assert java.bodies == [mail.body for mail in sent]


def test_the_command_line_tools_of_the_server_work(tube_node: Broker, masters: str) -> None:
    tube_node.create_topic("flow", partitions=2)
    line = ["--master-servers", masters, "--topicName", "flow", "--messages", "50", "--message-data-size", "40"]
    told = tubemq_clients.tool("CliProducer", line)
    assert "50 : 50" in told.stdout
    with tubemq_clients.pull(masters, "readers", "flow") as java:
        java.wait_messages(50)
