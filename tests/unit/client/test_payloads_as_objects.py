"""Keys and values as objects: made where somebody iterates or sends one by one; columns stay bytes."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import (
    AsyncConsumer,
    AsyncProducer,
    ConfigError,
    Consumer,
    DeserializationError,
    Messages,
    Partition,
    Producer,
    UsageError,
    from_json,
    from_utf8,
    to_json,
    to_utf8,
)
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import run

ADDRESS = "fake://h:1"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
EVENTS = [{"delay": number, "name": f"é{number}"} for number in range(3)]
COUNTS = pytest.mark.parametrize("count", [3, 3_000], ids=["objects", "columns"])


@given(JSON)
def test_json_comes_back(value: object) -> None:
    payload = to_json(value) if not _has_half_pairs(value) else b"null"
    assert _has_half_pairs(value) or from_json(payload) == value


def _has_half_pairs(value: object) -> bool:
    try:
        str(value).encode()
    except UnicodeEncodeError:
        return True
    return False


@given(st.text(st.characters(codec="utf-8")))
def test_text_comes_back(value: str) -> None:
    assert from_utf8(to_utf8(value)) == value


def filled(count: int) -> None:
    with Producer(ADDRESS, key_serializer=to_utf8, value_serializer=to_json) as producer:
        for number in range(count):
            producer.send("t", {"delay": number}, f"k{number}")
        producer.send("t", None, None)


@COUNTS
def test_what_is_sent_as_objects_is_read_as_objects(log: FakeLog, count: int) -> None:
    filled(count)
    with Consumer(f"{ADDRESS}/t", key_deserializer=from_utf8, value_deserializer=from_json) as consumer:
        found = consumer.poll(5)
        assert [(message.key, message.value) for message in found] == [
            *((f"k{number}", {"delay": number}) for number in range(count)),
            (None, None),
        ]
        assert found[1].value == found[1:2][0].value == {"delay": 1}
        assert Messages.concat([found[:1], found[1:]])[1].key == "k1"
        assert pickle.loads(pickle.dumps(found[:2]))[1].value == {"delay": 1}


@COUNTS
def test_columns_stay_bytes_unless_objects_are_asked_for(log: FakeLog, count: int) -> None:
    filled(count)
    with Consumer(f"{ADDRESS}/t", key_deserializer=from_utf8, value_deserializer=from_json) as consumer:
        found = consumer.poll(5)
    assert found.value[0].as_py() == b'{"delay":0}'
    assert found.to_arrow().schema.field("value").type == pa.table(found).schema.field("value").type == pa.binary()
    table = found.to_arrow(["offset", "value", "key"], deserialized=True)
    assert table.schema.names == ["offset", "value", "key"]
    assert table.schema.field("key").type == pa.string()
    assert table.schema.field("value").type == pa.struct({"delay": pa.int64()})
    assert table.to_pylist()[1] == {"offset": 1, "value": {"delay": 1}, "key": "k1"}
    assert table.to_pylist()[-1]["value"] is None
    with Producer(ADDRESS) as producer:
        producer.send_batch("copies" if "copies" in log.topics else "t4", found)


def test_any_batch_is_made_of_objects_by_name(log: FakeLog) -> None:
    filled(2)
    with Consumer(f"{ADDRESS}/t") as consumer:
        raw = consumer.poll(5)
    made = raw.deserialized(value=len)
    assert [(message.key, message.value) for message in made] == [(b"k0", 11), (b"k1", 11), (None, None)]
    assert made.deserialized()[0] == raw[0]
    empty = Messages().deserialized(key=from_utf8, value=from_json)
    assert [*empty] == []
    assert empty.to_arrow(deserialized=True).num_rows == 0


@COUNTS
def test_a_record_that_cannot_be_read_is_named_and_skipped(log: FakeLog, count: int) -> None:
    log.write("t", [b"1"] * count + [b"{", b"2"])
    with Consumer(f"{ADDRESS}/t", value_deserializer=from_json) as consumer:
        found = consumer.poll(5)
        seen: list[object] = []
        with pytest.raises(DeserializationError, match=r"by from_json: JSONDecodeError.*it is b'\{'") as caught:
            seen.extend(message.value for message in found)
        error = caught.value
        assert (error.topic, error.partition, error.offset) == ("t", 0, count)
        assert isinstance(error.__cause__, ValueError)
        assert "seek()" in str(error)
        with pytest.raises(DeserializationError):
            found.to_arrow(deserialized=True)
        assert len(found.to_arrow()) == count + 2, "columns are there all the same"
        assert error.offset is not None
        consumer.seek(Partition("t", 0), error.offset + 1)
        assert [message.value for message in consumer.poll(5)] == [2]


def test_text_that_is_none_is_named_as_a_column_too(log: FakeLog) -> None:
    log.write("t", [b"a", b"\xff"])
    with Consumer(f"{ADDRESS}/t", value_deserializer=from_utf8) as consumer:
        found = consumer.poll(5)
    with pytest.raises(DeserializationError, match="from_utf8") as caught:
        found.to_arrow(deserialized=True)
    assert caught.value.offset == 1
    mixed = found.deserialized(value=lambda payload: 1 if payload == b"a" else "text")
    with pytest.raises(UsageError, match="no column of Arrow"):
        mixed.to_arrow(deserialized=True)


@pytest.mark.parametrize(
    ("send", "message"),
    [
        (lambda producer: producer.send("t", {1, 2}), r"a value could not be serialized by to_json: TypeError.*set"),
        (lambda producer: producer.send("t", float("nan")), "a value could not be serialized.*ValueError"),
        (lambda producer: producer.send("t", 1, b"bytes"), "a key could not be serialized by to_utf8"),
    ],
)
def test_what_cannot_be_serialized_is_refused_where_it_is_sent(
    log: FakeLog, send: Callable[[Any], object], message: str
) -> None:
    with Producer(ADDRESS, key_serializer=to_utf8, value_serializer=to_json) as producer:
        with pytest.raises(UsageError, match=message) as caught:
            send(producer)
        assert caught.value.topic == "t"
        assert producer.send("t", [1]).result(5).offset == 0
    with (
        Producer(ADDRESS, value_serializer=str) as producer,
        pytest.raises(UsageError, match="value must be bytes or None, got str"),
    ):  # type: ignore[arg-type]
        producer.send("t", "no bytes")


def test_the_asynchronous_classes_do_the_same(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, key_serializer=to_utf8, value_serializer=to_json) as producer:
            await producer.send("t", [1], "k")
        async with AsyncConsumer(f"{ADDRESS}/t", key_deserializer=from_utf8, value_deserializer=from_json) as consumer:
            assert [(message.key, message.value) for message in await consumer.poll(5)] == [("k", [1])]

    run(main())


@pytest.mark.parametrize("kind", [Consumer, AsyncConsumer])
def test_a_deserializer_is_a_function(log: FakeLog, kind: type[Consumer]) -> None:
    with pytest.raises(ConfigError, match=r"value_deserializer must be a function, got 'json'.*penstock\.from_json"):
        kind(ADDRESS, value_deserializer="json")
    with pytest.raises(ConfigError, match=r"Consumer\(address, key_deserializer="):
        kind("kafka://h:1?key.deserializer=x")


@pytest.mark.parametrize("kind", [Producer, AsyncProducer])
def test_a_serializer_is_a_function(log: FakeLog, kind: type[Producer]) -> None:
    with pytest.raises(ConfigError, match=r"key_serializer must be a function, got 'utf8'.*penstock\.to_utf8"):
        kind(ADDRESS, key_serializer="utf8")
