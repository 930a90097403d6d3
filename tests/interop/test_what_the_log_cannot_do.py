"""librdkafka over a node whose log cannot do everything: it says itself what the broker does not support."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from msgspec.structs import replace

from penstock.interfaces.enode import Abilities
from penstock.interfaces.node import BackendContext, OpenedEnode
from penstock.protocols import _registered, protocol, register
from penstock.snode.local_enode import LocalEnode, open_local
from penstock.testing import Broker

pytestmark = pytest.mark.interop


@contextmanager
def lacking(ability: str) -> Iterator[str]:
    """A node over a log that has everything but that; its address."""

    class Lacking(LocalEnode):
        @property
        def abilities(self) -> Abilities:
            return Abilities(**{ability: False})

    def opened(url: str, around: BackendContext) -> OpenedEnode:
        return Lacking(open_local("memory:", around)._store, around.runtime, url=url)

    register(replace(protocol("kafka"), scheme="lacking", enode=opened))
    try:
        with Broker("lacking://here") as broker:
            broker.create_topic("t")
            yield broker.bootstrap
    finally:
        del _registered["lacking"]


def produced(bootstrap: str, **given: object) -> KafkaError | None:
    """What becomes of one record, or of its producer."""
    told: list[KafkaError | None] = []
    options = {"bootstrap.servers": bootstrap, "message.timeout.ms": 5_000, **given}
    producer = confluent_kafka.Producer(options)
    producer.produce("t", b"value", on_delivery=lambda error, message: told.append(error))
    try:
        producer.flush(10)
    except (KafkaException, SystemError) as raised:  # a fatal error leaves the first callback that runs then
        fatal = raised if isinstance(raised, KafkaException) else raised.__cause__
        assert isinstance(fatal, KafkaException)
        return fatal.args[0]
    return told[0]


def test_topics_that_cannot_be_made_are_an_unsupported_feature() -> None:
    with lacking("topics") as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        made = admin.create_topics([NewTopic("new", 1)])["new"]
        with pytest.raises(KafkaException) as refused:
            made.result(10)
        assert refused.value.args[0].code() == KafkaError._UNSUPPORTED_FEATURE
        assert produced(bootstrap) is None


def test_a_transactional_producer_is_told_that_there_are_no_transactions() -> None:
    with lacking("transactions") as bootstrap:
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "tx"})
        with pytest.raises(KafkaException) as refused:
            producer.init_transactions(10)
        assert refused.value.args[0].fatal()
        assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert produced(bootstrap, **{"enable.idempotence": True}) is None


def test_an_idempotent_producer_is_told_that_it_is_not_taken_and_a_plain_one_goes_on() -> None:
    with lacking("numbered") as bootstrap:
        fault = produced(bootstrap, **{"enable.idempotence": True})
        assert fault is not None
        assert fault.code() == KafkaError._UNSUPPORTED_FEATURE
        assert "Idempotent producer not supported" in fault.str()
        assert produced(bootstrap) is None


def test_an_idempotent_producer_goes_on_where_nobody_looks_at_its_numbers() -> None:
    with lacking("sequences") as bootstrap:
        assert produced(bootstrap, **{"enable.idempotence": True}) is None
