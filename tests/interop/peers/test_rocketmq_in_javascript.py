"""ali-ons beside Java's client: two clients that share no code agree about what a broker keeps."""

import pytest

from tests.interop.peers.rocketmq_fixtures import NewRocketTopic
from tools.peers import ons, rocketmq, rocketmq_clients
from tools.peers.maven import Unavailable
from tools.peers.rocketmq_clients import Mail

pytestmark = [pytest.mark.interop, pytest.mark.long]

WITHIN_S = 60.0


@pytest.mark.cannot_at("Proxy", "the client names no broker, and the Proxy refuses that (15)")
@pytest.mark.cannot_at("a standby, behind", "the client names no broker, and both have the topic (15)")
def test_a_client_in_javascript_is_a_client_like_javas(
    featured_rocketmq: rocketmq.Cluster, rocketmq_topic: NewRocketTopic
) -> None:
    version, address, topic = (
        featured_rocketmq.version,
        featured_rocketmq.address,
        rocketmq_topic(featured_rocketmq, queues=1),
    )
    try:
        ons.modules()
    except Unavailable as reason:
        pytest.skip(f"no ali-ons {ons.VERSION}: {reason}")
    with ons.producer(address) as sender, rocketmq_clients.producer(address, version=version) as java:
        (answer,) = sender.send([Mail(topic, [b"one"], tags="A", keys="k", properties={"seq": "1"})])
        java.send([Mail(topic, [b"two"], tags="B")])
    assert (answer["status"], answer["queue"], answer["offset"]) == ("SEND_OK", 0, 0)
    with (
        ons.push(address, f"{topic}-ons", topic, tags="A||B") as reader,
        rocketmq_clients.push(address, f"{topic}-java", topic, version=version) as push,
    ):
        for each in (reader, push):
            each.wait_messages(2, WITHIN_S)
            seen = {line["body"]: (line["tags"], line["properties"].get("seq")) for line in each.messages}
            assert seen == {b"one": ("A", "1"), b"two": ("B", None)}
