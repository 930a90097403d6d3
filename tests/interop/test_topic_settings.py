"""`Admin.describe_topic_config` and `alter_topic_config` at a real Kafka, beside what librdkafka's admin sees there."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource

from penstock import Admin, NewTopic
from penstock.errors import ServerError
from tests.eventually import comes_to
from tests.interop.peers.fixtures import KafkaBroker

pytestmark = pytest.mark.interop


def foreign(broker: KafkaBroker, topic: str) -> dict[str, tuple[str | None, str]]:
    """Each setting's value and source as librdkafka reads them."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})  # which ends what it waits for when it goes
    found = admin.describe_configs([resource])[resource].result(30)
    return {name: (each.value or "", ConfigSource(each.source).name) for name, each in found.items()}


def ours(admin: Admin, topic: str) -> dict[str, tuple[str | None, str]]:
    found = admin.describe_topic_config(topic)
    return {name: (each.value or "", each.source) for name, each in found.items()}


def test_settings_are_shown_and_changed_as_other_admins_see_them(any_kafka: KafkaBroker) -> None:
    topic = f"settings-{uuid.uuid4().hex[:8]}"
    with Admin(f"kafka://{any_kafka.bootstrap}") as admin:
        admin.create_topics([NewTopic(topic, 1, 1, {"max.message.bytes": "2000000"})])
        before = ours(admin, topic)
        assert before == foreign(any_kafka, topic)
        assert before["max.message.bytes"] == ("2000000", "DYNAMIC_TOPIC_CONFIG")
        assert admin.describe_topic_config(topic)["max.message.bytes"].default == "1048588"
        change = {"retention.ms": "5000", "max.message.bytes": None}
        admin.alter_topic_config(topic, change, dry_run=True)
        assert ours(admin, topic) == before
        for wrong in ({"retention.ms": "soon"}, {"no.such.setting": "1"}):
            for dry in (True, False):
                with pytest.raises(ServerError) as caught:
                    admin.alter_topic_config(topic, wrong, dry_run=dry)
                assert caught.value.name == "INVALID_CONFIG"
        admin.alter_topic_config(topic, change)
        # Brokers learn of it from the controller a moment later.
        comes_to(lambda: ours(admin, topic)["retention.ms"], ("5000", "DYNAMIC_TOPIC_CONFIG"))
        after = ours(admin, topic)
        assert after == foreign(any_kafka, topic)
        assert after["retention.ms"] == ("5000", "DYNAMIC_TOPIC_CONFIG")
        assert after["max.message.bytes"] == ("1048588", "DEFAULT_CONFIG")
        admin.delete_topics([topic])
