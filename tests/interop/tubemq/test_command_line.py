"""``penstock`` against a real cluster, whose masters list and change topics on web pages at another port."""

from __future__ import annotations

import pytest

from tests.interop.peers.tubemq_fixtures import NewCluster, NewTopic
from tests.unit.cli.running import penstock
from tools.peers import tubemq

pytestmark = pytest.mark.interop


def administered(cluster: tubemq.Cluster) -> str:
    return f"{cluster.url}?admin_address={cluster.master.host}:{cluster.master.web_port}&admin_token={tubemq.TOKEN}"


def test_topics_are_made_listed_grown_and_deleted(tubemq_peer: tubemq.Cluster) -> None:
    address = administered(tubemq_peer)
    assert penstock("topics", "create", address, "handmade", "-p", "2").code == 0
    assert ["handmade", "2", "not internal"] in penstock("topics", "list", address).rows
    assert penstock("topics", "grow", address, "handmade", "-p", "3").code == 0
    described = penstock("topics", "describe", address, "handmade", "--json").objects
    assert [(row["node"], row["leader"], row["start"], row["end"]) for row in described] == [("1", "1", 0, 0)] * 3
    assert penstock("topics", "delete", address, "handmade").code == 0
    assert "handmade" not in {row[0] for row in penstock("topics", "list", address).rows}


def test_all_topics_are_listed_where_one_needs_permission(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    closed, open_to_all = tubemq_topic(partitions=2), tubemq_topic(partitions=3)
    tubemq_peer.admin("admin_set_topic_authorize_control", topicName=closed, isEnable="true")
    listed = penstock("topics", "list", administered(tubemq_peer)).rows
    assert [closed, "2", "not internal"] in listed
    assert [open_to_all, "3", "not internal"] in listed


def test_lines_go_in_and_out_and_the_group_has_no_lag(tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic) -> None:
    topic = tubemq_topic(partitions=4)  # of one store: what is not in a partition still moves its offsets
    lines = b"".join(b"%d\n" % i for i in range(50))
    assert penstock("produce", f"{tubemq_peer.url}/{topic}", given=lines).code == 0
    once = penstock("consume", f"{tubemq_peer.url}/{topic}", "--until-end")
    grouped = penstock(
        "consume", f"{tubemq_peer.url}/{topic}", "-g", "terminal", "--until-end", "-o", "heartbeat_interval_ms=500"
    )
    for read in (once, grouped):
        assert read.code == 0
        assert sorted(read.stdout.splitlines()) == sorted(lines.splitlines())
    tubemq_peer.wait_committed("terminal", topic, 4)
    rows = penstock("groups", "describe", administered(tubemq_peer), "terminal", "--json").objects
    assert len(rows) == 4
    assert {(row["committed"], row["lag"], row["lag_seconds"]) for row in rows} == {(50 * 28, 0, 0.0)}


def test_doctor_says_what_only_the_web_page_would_tell(tubemq_own: NewCluster) -> None:
    own = tubemq_own()  # without other tests' topics, of which some are closed
    own.create_topics("flow")
    bare = penstock("doctor", f"{own.url}/flow")
    assert bare.code == 0
    assert "admin_address" in bare.stdout.decode()
    assert penstock("doctor", administered(own)).code == 0
