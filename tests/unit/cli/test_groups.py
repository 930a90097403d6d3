"""``penstock groups`` against a node: what it prints, what it refuses, what it changes."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from penstock.client import Admin, Consumer, Producer
from penstock.interfaces import GroupDescriptions
from penstock.model import Partition
from penstock.protocols.kafka.client.admin import KafkaAdmin
from penstock.protocols.kafka.errors import error_for
from penstock.testing import Broker
from tests.unit.cli.running import fill, penstock, refused

T0, T1 = Partition("t", 0), Partition("t", 1)
START_MS = 1_700_000_000_000


def standing(log: Broker, offsets: Mapping[Partition, int], group: str = "g") -> None:
    """Topic ``t`` of two partitions with ten records each, a second apart, and a group that has committed this."""
    log.create_topic("t", partitions=2)
    with Producer(log.address) as producer:
        for number in range(20):
            producer.send("t", b"", partition=number % 2, timestamp_ms=START_MS + number // 2 * 1_000)
    commit(log, offsets, group)


def commit(log: Broker, offsets: Mapping[Partition, int], group: str = "g") -> None:
    with Admin(log.address) as admin:
        admin.commit(group, offsets)


def stands(log: Broker, group: str = "g") -> dict[int, int]:
    with Admin(log.address) as admin:
        return {at.id: committed.offset for at, committed in sorted(admin.committed(group).items())}


def test_lag_is_told_in_offsets_and_in_seconds(log: Broker) -> None:
    log.create_topic("t", partitions=2)
    an_hour_ago = int(time.time() * 1_000) - 3_600_000
    with Producer(log.address) as producer:
        for number in range(5):
            producer.send("t", b"", partition=0, timestamp_ms=an_hour_ago + number)
    with Admin(log.address) as admin:
        admin.commit("g", {Partition("t", 0): 2, Partition("t", 1): 0})
    found = penstock("groups", "describe", log.address, "g", "--json").objects
    seconds = found[0].pop("lag_seconds")
    assert isinstance(seconds, float)
    assert 3_599 <= seconds < 3_700
    common = {"group": "g", "topic": "t", "member": None, "host": None, "client": None}
    assert found == [
        {**common, "partition": 0, "committed": 2, "end": 5, "lag": 3},
        {**common, "partition": 1, "committed": 0, "end": 0, "lag": 0, "lag_seconds": 0.0},
    ]


def test_a_member_is_named_beside_its_partitions(log: Broker) -> None:
    log.create_topic("t")
    fill(log, "t", [b"1"])
    with Consumer(f"{log.address}/t", group="g") as consumer:
        assert len(consumer.poll(10)) == 1
        ran = penstock("groups", "describe", log.address, "g")
        assert ran.stderr == f"group g: Stable, 1 members, coordinator {log.bootstrap}\n"
        # Where nothing is committed the end is known, and how far behind it is is not.
        assert [row[:7] for row in ran.rows] == [["g", "t", "0", "-", "1", "-", "-"]]
        assert ran.rows[0][7].startswith("penstock")
        assert ran.rows[0][8:] == ["/127.0.0.1", "penstock"]
        listed = penstock("groups", "list", log.address)
        assert listed.rows == [["g", "Stable", "consumer", "classic"]]


def test_a_group_that_is_not_there_is_not_described_as_empty(log: Broker) -> None:
    assert "no group named absent" in refused("groups", "describe", log.address, "absent")


def test_a_deleted_group_has_committed_nothing(log: Broker) -> None:
    log.create_topic("t")
    with Admin(log.address) as admin:
        admin.commit("g", {Partition("t", 0): 0})
        assert penstock("groups", "delete", log.address, "g").code == 0
        assert admin.committed("g") == {}
    assert penstock("groups", "list", log.address).rows == []


def test_a_group_that_cannot_be_described_does_not_hide_the_others(
    log: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing(log, {T0: 1})
    commit(log, {T0: 2}, "secret")
    describe = KafkaAdmin.describe_groups

    async def refuses_one(self: KafkaAdmin, groups: Collection[str]) -> GroupDescriptions:
        told = await describe(self, groups)
        del told["secret"]
        told.put("secret", error_for(30, "describing group 'secret' failed"))
        return told

    monkeypatch.setattr(KafkaAdmin, "describe_groups", refuses_one)
    ran = penstock("groups", "describe", log.address, "--all-groups", "--state", "--json")
    assert (ran.code, [each["group"] for each in ran.objects]) == (1, ["g"])
    assert "group secret is not described: describing group 'secret' failed" in ran.stderr
    assert "GROUP_AUTHORIZATION_FAILED" in ran.stderr


def test_deleting_an_absent_group_is_the_servers_no(log: Broker) -> None:
    assert penstock("groups", "delete", log.address, "absent").code == 1


def test_names_that_would_break_a_line_are_escaped(log: Broker) -> None:
    log.create_topic("t")
    with Admin(log.address) as admin:
        admin.commit("a\tb\nc", {Partition("t", 0): 0})
    assert penstock("groups", "list", log.address).rows == [["a\\tb\\nc", "Empty", "", "classic"]]


def test_every_listing_can_say_what_its_columns_are(log: Broker) -> None:
    standing(log, {T0: 1})
    assert penstock("groups", "list", log.address, "--header").rows[0] == ["group", "state", "protocol", "type"]
    ran = penstock("groups", "describe", log.address, "g", "--header", "--no-seconds")
    assert ran.rows[0] == ["group", "topic", "partition", "committed", "end", "lag", "member", "host", "client"]
    assert ran.rows[1] == ["g", "t", "0", "1", "10", "9", "-", "-", "-"]


def test_groups_are_listed_by_state_and_type(log: Broker) -> None:
    standing(log, {T0: 1})
    with Consumer(f"{log.address}/t", group="busy") as consumer:
        consumer.poll(10)

        def listed(*words: str) -> list[str]:
            return [row[0] for row in penstock("groups", "list", log.address, *words).rows]

        assert listed() == ["busy", "g"]
        assert listed("--state", "empty") == ["g"]
        assert listed("--state", "Stable", "--state", "Empty") == ["busy", "g"]
        assert listed("--type", "classic", "--state", "stable") == ["busy"]
        assert listed("--type", "consumer") == []
    assert "no state 'tired'. There are Stable, Empty" in refused("groups", "list", log.address, "--state", "tired")


def test_csv_has_the_columns_names_and_unknown_is_empty(log: Broker) -> None:
    standing(log, {T0: 4})
    ran = penstock("groups", "describe", log.address, "g", "--csv", "--no-seconds", "--verbose")
    (row,) = csv.DictReader(io.StringIO(ran.stdout.decode()))
    assert (row["group"], row["committed"], row["lag"], row["member"], row["epoch"]) == ("g", "4", "6", "", "")
    assert "contradict" in refused("groups", "describe", log.address, "g", "--csv", "--json")


def test_members_are_told_with_what_they_have(log: Broker) -> None:
    standing(log, {T0: 4})
    with Consumer(f"{log.address}/t", group="g", group_instance_id="one", client_id="me") as consumer:
        consumer.poll(10)
        (row,) = penstock("groups", "describe", log.address, "g", "--members", "--verbose", "--json").objects
        assert (row["instance"], row["client"], row["partitions"], row["assignment"]) == ("one", "me", 2, "t:0,1")
        assert (row["epoch"], row["target"]) == (None, None)  # a classic group has none


def test_a_line_a_group_says_how_all_are(log: Broker) -> None:
    standing(log, {T0: 4})
    commit(log, {T1: 1}, "h")
    rows = penstock("groups", "describe", log.address, "--all-groups", "--state", "--json").objects
    assert [(row["group"], row["state"], row["type"], row["members"]) for row in rows] == [
        ("g", "Empty", "classic", 0),
        ("h", "Empty", "classic", 0),
    ]
    assert {row["coordinator"] for row in rows} == {log.bootstrap}


def test_groups_that_are_there_are_described_beside_one_that_is_not(log: Broker) -> None:
    standing(log, {T0: 4})
    ran = penstock("groups", "describe", log.address, "g", "absent")
    assert (ran.code, [row[0] for row in ran.rows]) == (2, ["g"])
    assert "no group named absent" in ran.stderr


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (["--to-earliest"], {0: 0, 1: 0}),
        (["--to-latest"], {0: 10, 1: 10}),
        (["--to-current"], {0: 4, 1: 7}),
        (["--to-offset", "6"], {0: 6, 1: 6}),
        (["--to-offset", "99"], {0: 10, 1: 10}),
        (["--shift-by", "2"], {0: 6, 1: 9}),
        (["--shift-by", "-5"], {0: 0, 1: 2}),
        (["--to-datetime", "2023-11-14T22:13:23.000"], {0: 3, 1: 3}),
        (["--to-datetime", "2023-11-15T00:13:22.001+02:00"], {0: 3, 1: 3}),
        (["--to-datetime", "2030-01-01T00:00:00"], {0: 10, 1: 10}),
        (["--by-duration", "PT1H"], {0: 10, 1: 10}),
        (["--by-duration", "P9999D"], {0: 0, 1: 0}),
    ],
)
def test_a_group_goes_where_it_is_put(log: Broker, to: list[str], expected: dict[int, int]) -> None:
    standing(log, {T0: 4, T1: 7})
    said = penstock("groups", "reset-offsets", log.address, "g", "--all-topics", *to, "--json")
    assert {row["partition"]: row["after"] for row in said.objects} == expected
    assert "nothing was changed" in said.stderr
    assert stands(log) == {0: 4, 1: 7}
    done = penstock("groups", "reset-offsets", log.address, "g", "--all-topics", *to, "--execute", "--json")
    assert (done.code, done.stderr, done.objects) == (0, "", said.objects)
    assert stands(log) == expected


def test_what_is_not_where_it_was_asked_to_be_says_why(log: Broker) -> None:
    standing(log, {T0: 4, T1: 7})
    ran = penstock("groups", "reset-offsets", log.address, "g", "--all-topics", "--shift-by", "5")
    assert [row[4:] for row in ran.rows] == [["9", "-"], ["10", "12 is behind the end"]]


def test_only_the_partitions_that_were_named_are_moved(log: Broker) -> None:
    standing(log, {T0: 4, T1: 7})
    reset = ("groups", "reset-offsets", log.address)
    assert penstock(*reset, "g", "--topic", "t:1", "--to-earliest", "--execute").code == 0
    assert stands(log) == {0: 4, 1: 0}
    assert penstock(*reset, "new", "--topic", "t", "--to-offset", "3", "--execute").code == 0
    assert stands(log, "new") == {0: 3, 1: 3}
    assert "no partition t-7" in refused(*reset, "g", "--topic", "t:0,7", "--to-latest")
    assert "no topic named u" in refused(*reset, "g", "--topic", "u", "--to-latest")
    assert "is not a topic with partitions" in refused(*reset, "g", "--topic", "t:x", "--to-latest")
    assert "no group named absent" in refused(*reset, "absent", "--all-topics", "--to-latest")
    assert "nothing is committed in t-0" in refused(*reset, "other", "--topic", "t:0", "--shift-by", "1")


def test_a_group_with_members_is_not_moved_and_keeps_no_other_from_it(log: Broker) -> None:
    standing(log, {T0: 4, T1: 7})
    commit(log, {T0: 2}, "h")
    with Consumer(f"{log.address}/t", group="g", client_id="billing") as consumer:
        consumer.poll(10)
        reset = ("groups", "reset-offsets", log.address)
        told = refused(*reset, "g", "--all-topics", "--to-earliest", "--execute")
        assert "group g is Stable with 1 members (billing)" in told
        assert "Stop them first" in told
        ran = penstock(*reset, "--all-groups", "--all-topics", "--to-earliest", "--execute")
        assert (ran.code, [row[0] for row in ran.rows]) == (2, ["h"])
    assert (stands(log), stands(log, "h")) == ({0: 4, 1: 7}, {0: 0})


def test_an_exported_file_puts_it_all_back(log: Broker, tmp_path: Path) -> None:
    standing(log, {T0: 4, T1: 7})
    commit(log, {T0: 2}, "h")
    reset = ("groups", "reset-offsets", log.address)
    one = penstock(*reset, "g", "--all-topics", "--to-current", "--export")
    assert one.stdout == b"t,0,4\nt,1,7\n"
    both = penstock(*reset, "g", "h", "--all-topics", "--to-current", "--export")
    assert both.stdout == b"g,t,0,4\ng,t,1,7\nh,t,0,2\n"
    penstock(*reset, "g", "h", "--all-topics", "--to-latest", "--execute")
    assert (stands(log), stands(log, "h")) == ({0: 10, 1: 10}, {0: 10})
    file = tmp_path / "offsets.csv"
    file.write_bytes(both.stdout)
    ran = penstock(*reset, "g", "h", "--from-file", file, "--execute")
    assert (ran.code, ran.stderr) == (0, "")
    assert (stands(log), stands(log, "h")) == ({0: 4, 1: 7}, {0: 2})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("t,0\n", "line 1 has 2 fields"),
        ("t,0,1\nt,0,2\n", "line 2 has t-0 once more"),
        ("t,x,1\n", "no partition: 'x'"),
        ("t,0,-1\n", "no offset: '-1'"),
        ("t,0,soon\n", "no offset: 'soon'"),
        ('"t,0,1\n', "no line of CSV"),
        ("h,t,0,1\n", "has nothing of group g"),
        ("u,0,1\n", "no topic named u"),
        ("t,9,1\n", "there is no partition t-9"),
    ],
)
def test_a_file_that_makes_no_sense_moves_nothing(log: Broker, tmp_path: Path, text: str, told: str) -> None:
    standing(log, {T0: 4})
    file = tmp_path / "offsets.csv"
    file.write_text(text)
    assert told in refused("groups", "reset-offsets", log.address, "g", "--from-file", file, "--execute")
    assert stands(log) == {0: 4}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["g", "--all-topics"], "there is none"),
        (["g", "--all-topics", "--to-earliest", "--to-latest"], "these are several: --to-earliest --to-latest"),
        (["g", "--to-earliest"], "give either --topic or --all-topics"),
        (["g", "--topic", "t", "--all-topics", "--to-earliest"], "give either --topic or --all-topics"),
        (["g", "--from-file", "x", "--topic", "t"], "--from-file already names the partitions"),
        (["--all-topics", "--to-earliest"], "give either names of groups or --all-groups"),
        (["g", "--all-groups", "--all-topics", "--to-earliest"], "give either names of groups or --all-groups"),
        (["g", "--all-topics", "--to-datetime", "yesterday"], "'yesterday' is not a time"),
        (["g", "--all-topics", "--to-datetime", "1969-01-01T00:00:00"], "before 1970"),
        (["g", "--all-topics", "--by-duration", "1h"], "'1h' is not a duration"),
        (["g", "--all-topics", "--by-duration", "PT"], "'PT' is not a duration"),
        (["g", "--all-topics", "--to-latest", "--export", "--json"], "contradict"),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused(log: Broker, words: list[str], told: str) -> None:
    standing(log, {T0: 4})
    assert told in refused("groups", "reset-offsets", log.address, *words)


def test_offsets_are_deleted_where_nobody_reads(log: Broker) -> None:
    standing(log, {T0: 4, T1: 7})
    log.create_topic("u")
    commit(log, {Partition("u", 0): 0})
    delete = ("groups", "delete-offsets", log.address, "g")
    with Consumer(f"{log.address}/u", group="g") as consumer:
        consumer.poll(0.1)
        while not consumer.assignment():
            consumer.poll(0.1)
        ran = penstock(*delete, "--topic", "t:1", "--topic", "u", "--json")
        assert (ran.code, [row["deleted"] for row in ran.objects]) == (1, [True, False])
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in str(ran.objects[1]["error"])
    with Admin(log.address) as admin:
        assert set(admin.committed("g")) == {T0, Partition("u", 0)}
    assert "no partitions are given" in refused(*delete)


def test_members_are_thrown_out_by_name_or_all(log: Broker) -> None:
    log.create_topic("t", partitions=2)
    remove = ("groups", "remove-members", log.address, "g")

    def there() -> set[str]:
        ran = penstock("groups", "describe", log.address, "g", "--members", "--json")
        return {str(row["client"]) for row in ran.objects}

    named = Consumer(f"{log.address}/t", group="g", group_instance_id="one", client_id="named")
    with named, Consumer(f"{log.address}/t", group="g", client_id="other", heartbeat_interval_ms=50) as other:
        named.poll(0.1)
        while len(named.assignment() | other.assignment()) < 2 or not other.assignment():
            named.poll(0.1)
            other.poll(0.1)
        assert there() == {"named", "other"}
        assert "no member 'two'" in penstock(*remove, "--instance", "two").stderr
        assert there() == {"named", "other"}
        assert penstock(*remove, "-i", "one").stderr == "removed one from group g\n"
        assert "named" not in there()
        assert penstock(*remove, "--all-members", "--reason", "moving house").code == 0
        assert "--all-members" in refused(*remove)


def test_a_deleted_group_keeps_none_from_being_deleted(log: Broker) -> None:
    standing(log, {T0: 4})
    ran = penstock("groups", "delete", log.address, "absent", "g", "nowhere")
    assert ran.code == 1
    assert ran.stderr.count("GROUP_ID_NOT_FOUND") == 2
    assert "deleted group g" in ran.stderr
    assert penstock("groups", "list", log.address).rows == []
