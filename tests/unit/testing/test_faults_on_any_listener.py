"""The same faults on every protocol's listener: a write that is delayed, hung up on, answered in vain, or refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pytest

from penstock import protocols
from penstock.client import Producer, RangeReader
from penstock.errors import ServerError, UsageError
from penstock.model import LogRange, Offset, OffsetSpec
from penstock.testing import Broker, Faults
from tests.toy.registration import PROTOCOL

Moment = Literal["before", "after"]
QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 5}


@dataclass(frozen=True)
class Words:
    """What a protocol calls a write, and an error that ends it."""

    write: str
    final: str


WORDS = {
    "kafka": Words("Produce", "TOPIC_AUTHORIZATION_FAILED"),
    "rocketmq": Words("SEND_MESSAGE_V2", "NO_PERMISSION"),
    "toy": Words("write", "NO_ROOM"),
    "tubemq": Words("send message", "FORBIDDEN"),
}


@dataclass(frozen=True)
class Listener:
    address: str
    faults: Faults
    words: Words

    def send(self, *values: bytes) -> None:
        """One by one."""
        with Producer(self.address, **QUICK) as producer:
            for value in values:
                producer.send("flow", value).result(30)

    def stored(self) -> list[bytes | None]:
        self.faults.clear()
        with RangeReader(self.address) as reader:
            (found,) = reader.topics(["flow"])["flow"].partitions
            place = found.partition
            end = reader.offsets({place: OffsetSpec(name=Offset.LATEST)})[place].offset
            wanted = LogRange.of(place, 0, end)
            return [message.value for batch in reader.read(wanted) for message in batch]


@pytest.fixture(params=sorted(WORDS))
def listener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    monkeypatch.setattr(protocols, "_registered", {})
    protocols.register(PROTOCOL)
    scheme: str = request.param
    with Broker(listen=[f"{name}://127.0.0.1:0" for name in WORDS]) as broker:
        broker.create_topic("flow")
        yield Listener(broker.url(scheme), broker.faults_of(scheme), WORDS[scheme])


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_write_that_is_late_is_waited_for(listener: Listener, moment: Moment) -> None:
    listener.send(b"1")
    listener.faults.delay(listener.words.write, 0.2, moment=moment)
    began = time.monotonic()
    listener.send(b"2")
    assert time.monotonic() - began >= 0.2
    assert listener.stored() == [b"1", b"2"]


def test_a_write_that_is_hung_up_on_is_sent_again(listener: Listener) -> None:
    listener.faults.drop(listener.words.write, times=2)
    listener.send(b"1")
    assert listener.faults.seen(listener.words.write) == 3
    assert listener.stored() == [b"1"]


def test_a_write_whose_answer_is_lost_is_there_at_least_once(listener: Listener) -> None:
    listener.faults.drop(listener.words.write, moment="after")
    listener.send(b"1", b"2")
    assert listener.faults.seen(listener.words.write) >= 3
    stored = listener.stored()
    assert stored in ([b"1", b"2"], [b"1", b"1", b"2"])  # who cannot tell that it is the same stores it again


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_write_that_is_refused_says_so_and_has_its_effect_only_if_told(listener: Listener, moment: Moment) -> None:
    listener.faults.error(listener.words.write, listener.words.final, moment=moment)
    with pytest.raises(ServerError) as caught:
        listener.send(b"1")
    assert caught.value.name == listener.words.final
    listener.send(b"2")
    assert listener.stored() == ([b"2"] if moment == "before" else [b"1", b"2"])


def test_faults_of_one_listener_are_none_of_anothers(listener: Listener) -> None:
    listener.faults.drop("", times=None)
    for scheme in WORDS.keys() - {listener.address.partition(":")[0]}:
        with pytest.raises(UsageError):
            listener.faults.seen(WORDS[scheme].write)
    listener.faults.clear()
    listener.send(b"1")
    assert listener.faults.seen("") > 0
