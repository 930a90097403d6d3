"""``penstock groups`` beside Kafka's own tool: the same numbers, each sees what the other did and reads its files."""

from __future__ import annotations

import csv
import io
import itertools
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.client import Admin, Consumer, Producer
from penstock.interfaces import NewTopic
from penstock.model import Partition
from penstock.testing import Broker
from tests.eventually import comes_to
from tests.interop.peers.fixtures import KafkaBroker
from tests.unit.cli.running import penstock
from tools.peers import kafka

pytestmark = pytest.mark.interop

Row = Mapping[str, str]
START_MS = 1_700_000_000_000
_names = itertools.count(1)


@dataclass(frozen=True)
class Server:
    """Where a broker is, and which of Kafka's tools asks it."""

    bootstrap: str
    version: str

    @property
    def address(self) -> str:
        return f"kafka://{self.bootstrap}"

    def theirs(self, *words: str) -> str:
        # By itself it waits no longer than five seconds, says so, and ends as if nothing was wrong.
        line = ["--bootstrap-server", self.bootstrap, "--timeout", "50000", *words]
        told = kafka.tool("groups", line, version=self.version).stdout
        assert "failed due to" not in told
        return told

    def table(self, *words: str) -> list[Row]:
        """What their tool prints as a table, by its headings; they have a blank in one of them."""
        lines = self.theirs(*words).replace("COORDINATOR (ID)", "COORDINATOR").splitlines()
        heads = next((line.split() for line in lines if line.startswith("GROUP ")), [])
        rows = [re.sub(r"(\S) +(\(\d+\))", r"\1\2", line).split() for line in lines if line.strip()]
        return [dict(zip(heads, row, strict=False)) for row in rows if len(row) >= len(heads) - 1 and row != heads]

    def ours(self, verb: str, *words: str) -> list[dict[str, object]]:
        ran = penstock("groups", verb, self.address, *words, "--json")
        assert ran.code == 0, ran.stderr
        return ran.objects


@pytest.fixture(params=[
    kafka.NEWEST,
    pytest.param(kafka.PREVIOUS, marks=pytest.mark.long),
    pytest.param("3.9.2", marks=pytest.mark.long),
    pytest.param("ours", marks=pytest.mark.long),
])  # fmt: skip
def server(request: pytest.FixtureRequest, kafka_broker: KafkaBroker) -> Iterator[Server]:
    if request.param == "ours":
        with Broker() as node:
            yield Server(node.bootstrap, kafka.NEWEST)
    else:
        yield Server(kafka_broker(request.param).bootstrap, request.param)


@pytest.fixture
def topic(server: Server) -> str:
    """Of three partitions: twenty records, ten, none; a second apart."""
    name = f"watched-{next(_names)}"
    with Admin(server.address) as admin:
        admin.create_topics([NewTopic(name, 3)])
    with Producer(server.address) as producer:
        for partition, count in ((0, 20), (1, 10)):
            for number in range(count):
                producer.send(name, b"x", partition=partition, timestamp_ms=START_MS + 1_000 * number)
    return name


@pytest.fixture
def group(server: Server, topic: str) -> str:
    """Behind in one partition, at the end of one, nowhere in the last."""
    name = f"watching-{topic}"
    with Admin(server.address) as admin:
        admin.commit(name, {Partition(topic, 0): 7, Partition(topic, 1): 10})
    return name


@contextmanager
def member(server: Server, topic: str, group: str) -> Iterator[None]:
    """One that has all partitions, and commits nothing."""
    with Consumer(f"{server.address}/{topic}", group=group, group_instance_id="first", client_id="watcher") as one:
        while len(one.assignment()) < 3:
            one.poll(0.1)
        yield


def plain(rows: Sequence[Mapping[str, object]], names: Mapping[str, str]) -> list[Row]:
    """Our rows in their words, sorted: what is unknown is a dash."""
    told = [{theirs: _text(row[ours]) for ours, theirs in names.items()} for row in rows]
    return sorted(told, key=lambda row: sorted(row.items()))


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def picked(rows: Sequence[Row], names: Mapping[str, str]) -> list[Row]:
    told = [{name: row.get(name, "-") for name in names.values()} for row in rows]
    return sorted(told, key=lambda row: sorted(row.items()))


OFFSETS = {
    "group": "GROUP", "topic": "TOPIC", "partition": "PARTITION", "committed": "CURRENT-OFFSET",
    "end": "LOG-END-OFFSET", "lag": "LAG", "member": "CONSUMER-ID", "host": "HOST", "client": "CLIENT-ID",
}  # fmt: skip
MEMBERS = {
    "group": "GROUP", "member": "CONSUMER-ID", "instance": "GROUP-INSTANCE-ID", "host": "HOST", "client": "CLIENT-ID",
    "partitions": "#PARTITIONS",
}  # fmt: skip
STATES = {"group": "GROUP", "assignor": "ASSIGNMENT-STRATEGY", "state": "STATE", "members": "#MEMBERS"}


def test_both_tell_the_same_numbers_and_see_what_the_other_moved(server: Server, topic: str, group: str) -> None:
    with member(server, topic, group):
        assert plain(server.ours("describe", group), OFFSETS) == picked(
            server.table("--describe", "--group", group), OFFSETS
        )
        ran = penstock("groups", "reset-offsets", server.address, group, "--all-topics", "--to-earliest", "--execute")
        assert (ran.code, ran.stdout) == (2, b"")
    with Admin(server.address) as admin:
        admin.remove_members(group, ["first"])
    server.ours("reset-offsets", group, "--topic", f"{topic}:0,2", "--to-latest", "--execute")
    theirs = {row["PARTITION"]: row["CURRENT-OFFSET"] for row in server.table("--describe", "--group", group)}
    assert theirs == {"0": "20", "1": "10", "2": "0"}
    server.theirs("--reset-offsets", "--group", group, "--topic", f"{topic}:0", "--to-offset", "5", "--execute")
    ours = {row["partition"]: (row["committed"], row["lag"]) for row in server.ours("describe", group)}
    assert ours == {0: (5, 15), 1: (10, 0), 2: (0, 0)}


@pytest.mark.long
def test_members_and_states_are_the_same(server: Server, topic: str, group: str) -> None:
    with member(server, topic, group):
        (member_row,) = server.ours("describe", group, "--members", "--verbose")
        (theirs,) = server.table("--describe", "--group", group, "--members", "--verbose")
        assert plain([member_row], MEMBERS) == picked([theirs], MEMBERS)
        assert str(member_row["assignment"]).replace(f"{topic}:", "") == "0,1,2"
        assert "0,1,2" in " ".join(theirs.values())
        (state,) = server.ours("describe", group, "--state", "--verbose")
        (told,) = server.table("--describe", "--group", group, "--state")
        assert plain([state], STATES) == picked([told], STATES)
        assert f"{state['coordinator']}({state['node']})" == told["COORDINATOR"]


@pytest.mark.long
def test_lists_are_the_same_whatever_they_are_filtered_by(server: Server, topic: str, group: str) -> None:
    idle = f"{group}-idle"
    with Admin(server.address) as admin:
        admin.commit(idle, {Partition(topic, 0): 1})

    def ours(*words: str) -> set[tuple[str, str, str]]:
        rows = server.ours("list", *words)
        return {(str(row["group"]), str(row["state"]), str(row["type"])) for row in rows}

    def theirs(*words: str) -> set[tuple[str, str, str]]:
        rows = server.table("--list", *words)
        return {(row["GROUP"], row["STATE"], row["TYPE"].lower()) for row in rows}

    with member(server, topic, group):
        assert {(group, "Stable", "classic"), (idle, "Empty", "classic")} <= ours()
        assert ours() == theirs("--state", "--type")
        assert ours("--state", "empty") == theirs("--type", "--state", "Empty")
        assert ours("--type", "classic", "--state", "stable") == theirs("--type", "Classic", "--state", "Stable")
        assert ours("--type", "consumer") == theirs("--type", "Consumer", "--state")


@pytest.mark.long
@pytest.mark.parametrize(
    "to",
    [
        ["--to-earliest"],
        ["--to-latest"],
        ["--to-current"],
        ["--to-offset", "15"],
        ["--to-offset", "0"],
        ["--to-offset", "99"],
        ["--shift-by", "3"],
        ["--shift-by", "-8"],
        ["--to-datetime", "2023-11-14T22:13:26.000"],
        ["--to-datetime", "2023-11-14T22:13:25.001Z"],
        ["--to-datetime", "2023-11-15T03:43:29.500+05:30"],
        ["--to-datetime", "2033-01-01T00:00:00.000"],
        ["--by-duration", "PT0S"],
        ["--by-duration", "P8000DT1H2M3S"],
    ],
    ids=" ".join,
)
def test_a_reset_means_the_same_to_both(server: Server, topic: str, group: str, to: list[str]) -> None:
    # Where nothing is committed nothing can be shifted: both refuse, so that is not asked.
    scopes = [["--all-topics"], ["--topic", f"{topic}:1,0"], *([["--topic", topic]] if to[0] != "--shift-by" else [])]
    for scope in scopes:
        words = [*scope, *to, "--export"]
        ours = penstock("groups", "reset-offsets", server.address, group, *words)
        assert ours.code == 0, ours.stderr
        theirs = server.theirs("--reset-offsets", "--dry-run", "--group", group, *words)
        assert lines(ours.stdout.decode()) == lines(theirs)
        assert lines(theirs)


def lines(text: str) -> list[list[str]]:
    return sorted(row for row in csv.reader(io.StringIO(text)) if len(row) > 1)


@pytest.mark.long
def test_each_reads_the_files_of_the_other(server: Server, topic: str, group: str, tmp_path: Path) -> None:
    other = f"{group}-other"
    with Admin(server.address) as admin:
        admin.commit(other, {Partition(topic, 0): 1, Partition(topic, 1): 2})

    def stand() -> dict[tuple[str, int], int]:
        with Admin(server.address) as admin:
            return {(name, at.id): kept.offset for name in (group, other) for at, kept in admin.committed(name).items()}

    before = stand()
    file = tmp_path / "offsets.csv"
    for names in ([group], [group, other]):
        flags = [word for name in names for word in ("--group", name)]
        exported = penstock(
            "groups", "reset-offsets", server.address, *names, "--all-topics", "--to-current", "--export"
        )
        file.write_bytes(exported.stdout)
        server.ours("reset-offsets", *names, "--all-topics", "--to-earliest", "--execute")
        assert {at: offset for at, offset in stand().items() if at[0] in names} != before
        server.theirs("--reset-offsets", *flags, "--from-file", str(file), "--execute")
        assert stand() == before

        file.write_text(
            server.theirs("--reset-offsets", *flags, "--all-topics", "--to-current", "--export", "--dry-run")
        )
        server.theirs("--reset-offsets", *flags, "--all-topics", "--to-earliest", "--execute")
        server.ours("reset-offsets", *names, "--from-file", str(file), "--execute")
        assert stand() == before


@pytest.mark.long
def test_what_one_deletes_is_gone_for_the_other(server: Server, topic: str, group: str) -> None:
    with member(server, topic, group):
        refused = penstock("groups", "delete-offsets", server.address, group, "--topic", f"{topic}:0", "--json")
        assert (refused.code, refused.objects[0]["deleted"]) == (1, False)
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in str(refused.objects[0]["error"])
        assert penstock("groups", "delete", server.address, group).code == 1
    assert penstock("groups", "remove-members", server.address, group, "--all-members").code == 0
    server.ours("delete-offsets", group, "--topic", f"{topic}:0")
    assert [row["PARTITION"] for row in server.table("--describe", "--group", group)] == ["1"]
    server.theirs("--delete-offsets", "--group", group, "--topic", topic)
    with Admin(server.address) as admin:
        assert admin.committed(group) == {}
        admin.commit(group, {Partition(topic, 0): 1})
    assert penstock("groups", "delete", server.address, group).code == 0
    assert group not in server.theirs("--list").split()


@pytest.mark.long
def test_a_group_of_the_newer_protocol_is_told_alike(kafka_broker: KafkaBroker, topic_of_newest: str) -> None:
    broker = kafka_broker(kafka.NEWEST)
    server, group = Server(broker.bootstrap, kafka.NEWEST), f"newer-{topic_of_newest}"
    with newer_member(server, topic_of_newest, group):
        comes_to(lambda: penstock("groups", "describe", server.address, group).code, 0, within_s=30)
        comes_to(lambda: server.ours("describe", group, "--state")[0]["state"], "Stable")
        comes_to(lambda: len(server.ours("describe", group)), 3)
        names = {name: heading for name, heading in OFFSETS.items() if name not in ("committed", "lag")}
        assert plain(server.ours("describe", group), names) == picked(
            server.table("--describe", "--group", group), names
        )
        (ours,) = server.ours("describe", group, "--members", "--verbose")
        (theirs,) = server.table("--describe", "--group", group, "--members", "--verbose")
        assert str(ours["epoch"]) == theirs["CURRENT-EPOCH"]
        assert ours["assignment"] == ours["target"] == theirs["CURRENT-ASSIGNMENT"]
        assert ours["upgraded"] is True
        assert [row["group"] for row in server.ours("list", "--type", "consumer") if row["group"] == group] == [group]
        assert penstock("groups", "remove-members", server.address, group, "--instance", "newcomer").code == 0


@pytest.fixture
def topic_of_newest(kafka_broker: KafkaBroker) -> str:
    name = f"watched-{next(_names)}"
    with Admin(f"kafka://{kafka_broker(kafka.NEWEST).bootstrap}") as admin:
        admin.create_topics([NewTopic(name, 3)])
    return name


@contextmanager
def newer_member(server: Server, topic: str, group: str) -> Iterator[None]:
    """Java's console consumer, which speaks KIP-848."""
    settings = [
        word
        for each in ("group.protocol=consumer", "group.instance.id=newcomer")
        for word in ("--consumer-property", each)
    ]
    line = ["--bootstrap-server", server.bootstrap, "--topic", topic, "--group", group, *settings]
    command = kafka.tool_command("console-consumer", line, version=server.version)
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
        try:
            yield
        finally:
            process.terminate()
