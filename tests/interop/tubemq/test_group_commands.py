"""``penstock groups`` against a real cluster: what it says and does is what the broker's own web page tells."""

from __future__ import annotations

import pytest

from tests.interop.peers.tubemq_fixtures import NewTopic
from tests.unit.cli.running import penstock, refused
from tools.peers import tubemq

pytestmark = [pytest.mark.interop, pytest.mark.long]

_SECOND = 28


def test_a_group_is_described_put_elsewhere_and_forgotten(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    first, second = tubemq_topic(partitions=1), tubemq_topic(partitions=1)
    address = f"{tubemq_peer.url}?admin_address={tubemq_peer.master.host}:{tubemq_peer.master.web_port}"
    address += f"&admin_token={tubemq.TOKEN}"
    group = f"watching-{first}"
    for topic in (first, second):
        assert penstock("produce", f"{tubemq_peer.url}/{topic}", given=b"one\ntwo\nthree\n").code == 0
    read = penstock("consume", f"{tubemq_peer.url}/{first},{second}", "-g", group, "--until-end")
    assert (read.code, len(read.stdout.splitlines())) == (0, 6)
    tubemq_peer.wait_committed(group, first, 1)

    rows = penstock("groups", "describe", address, group, "--json").objects
    assert {(row["topic"], row["committed"], row["lag"]) for row in rows} == {
        (topic, 3 * _SECOND, 0) for topic in (first, second)
    }
    (state,) = penstock("groups", "describe", address, group, "--state", "--json").objects
    assert (state["state"], state["members"]) == ("Empty", 0)
    assert [group, "Empty", "consumer", "-"] in penstock("groups", "list", address, "--state", "empty").rows

    reset = ("groups", "reset-offsets", address, group)
    exported = penstock(*reset, "--all-topics", "--to-current", "--export").stdout.decode()
    assert sorted(exported.splitlines()) == sorted(f"{topic},0@1,{3 * _SECOND}" for topic in (first, second))
    assert penstock(*reset, "--topic", f"{first}:0", "--shift-by", -2 * _SECOND, "--execute").code == 0
    assert set(tubemq_peer.committed(group, first).values()) == {_SECOND}
    assert tubemq_peer.committed(group, second) != tubemq_peer.committed(group, first)
    again = penstock("consume", f"{tubemq_peer.url}/{first}", "-g", group, "--until-end")
    assert again.stdout == b"two\nthree\n"
    assert "no offsets by time" in refused(*reset, "--all-topics", "--by-duration", "PT1H")

    assert penstock("groups", "delete-offsets", address, group, "--topic", first).code == 0
    left = penstock("groups", "describe", address, group, "--json", "--no-seconds").objects
    assert [row["topic"] for row in left] == [second]
    assert "cannot remove members" in refused("groups", "remove-members", address, group, "--all-members")
    assert penstock("groups", "delete", address, group).code == 0
    # Its name the broker goes on listing; where it stood is gone.
    assert penstock("groups", "describe", address, group, "--json").objects == []
