"""Values of the wrong type: refused in the call that gives them, with the type that came and the one that is wanted."""

from __future__ import annotations

import datetime
from functools import partial
from typing import Any

import penstock
from penstock import ConfigError, Partition
from tests.mistakes.row import Mistake, World, mistake

TABLE: list[Mistake] = []
row = partial(mistake, TABLE)
HERE = Partition("orders", 0)


def send(world: World, *values: Any, **named: Any) -> None:
    with penstock.Producer(world.address) as producer:
        producer.send(*values, **named).result(20)


def consumer(world: World) -> penstock.Consumer:
    return penstock.Consumer(world.address, group="mistakes")


@row(r"a topic must be a string, got bytes \(b'orders'\)\. Decode it first")
def a_topic_of_bytes(world: World) -> None:
    send(world, b"orders", b"value")


@row("a topic must be a string, got None")
def no_topic(world: World) -> None:
    send(world, None, b"value")


@row(r"a topic must be a string, got list \(\['orders'\]\)")
def a_list_as_topic(world: World) -> None:
    send(world, ["orders"], b"value")


@row(r"value must be bytes or None, got str\. Encode text first: text\.encode\(\)")
def text_as_value(world: World) -> None:
    send(world, "orders", "value")


@row("value must be bytes or None, got dict. Serialise it first")
def a_dict_as_value(world: World) -> None:
    send(world, "orders", {"amount": 5})


@row("key must be bytes or None, got int")
def a_number_as_key(world: World) -> None:
    send(world, "orders", b"value", 42)


@row("header 'source' must be bytes or None, got str")
def text_in_a_header(world: World) -> None:
    send(world, "orders", b"value", headers={"source": "shop"})


@row(r"the name of a header is bytes \(b'source'\)")
def bytes_as_the_name_of_a_header(world: World) -> None:
    send(world, "orders", b"value", headers=[(b"source", b"shop")])


@row("headers must be a dict or a list of pairs, got str")
def text_as_headers(world: World) -> None:
    send(world, "orders", b"value", headers="source")


@row(r"a header must be a pair, got \('source',\)")
def a_header_without_a_value(world: World) -> None:
    send(world, "orders", b"value", headers=[("source",)])


@row(r"partition must be a whole number, got str \('1'\)")
def text_as_partition(world: World) -> None:
    send(world, "orders", b"value", partition="1")


@row(r"partition must be a whole number, got bool \(True\)")
def a_bool_as_partition(world: World) -> None:
    send(world, "orders", b"value", partition=True)


@row(r"timestamp_ms must be a whole number, got datetime .*int\(when\.timestamp\(\) \* 1000\)")
def a_datetime_as_timestamp(world: World) -> None:
    send(world, "orders", b"value", timestamp_ms=datetime.datetime.now(datetime.UTC))


@row(r"topics must be a name or a list of names, got None")
def subscribing_to_none(world: World) -> None:
    with consumer(world) as reading:
        reading.subscribe(None)  # type: ignore[arg-type]


@row(r'a partition must be a Partition, got tuple \(\(\'orders\', 0\)\)\. Write Partition\("topic", 0\)')
def assigning_a_tuple(world: World) -> None:
    with consumer(world) as reading:
        reading.assign([("orders", 0)])  # type: ignore[list-item]


@row(r"partitions must be a list, got one Partition")
def assigning_without_a_list(world: World) -> None:
    with consumer(world) as reading:
        reading.assign(HERE)  # type: ignore[arg-type]


@row(r"topics must be a list, got one name\. Write \['orders'\]")
def deleting_one_name(world: World) -> None:
    with penstock.Admin(world.address) as admin:
        admin.delete_topics("orders")


@row(r"topics must be a list, got one name\. Write \['new'\]")
def creating_one_name(world: World) -> None:
    with penstock.Admin(world.address) as admin:
        admin.create_topics("new")


@row(r"an offset must be a whole number, got str \('7'\) .topic orders, partition 0")
def text_as_an_offset(world: World) -> None:
    with consumer(world) as reading:
        reading.assign({HERE: "7"})


@row("-1 is no offset .*seek_to_beginning.. and seek_to_end.. find the ends")
def a_negative_offset(world: World) -> None:
    with consumer(world) as reading:
        reading.assign({HERE: -1})


@row("timeout_s must be a number of seconds, got str .'1'.")
def text_as_a_timeout(world: World) -> None:
    with penstock.Consumer(f"{world.address}/orders") as reading:
        reading.poll("1")  # type: ignore[arg-type]


@row("max_records must be 1 or more, got 0")
def polling_for_nothing(world: World) -> None:
    with penstock.Consumer(f"{world.address}/orders") as reading:
        reading.poll(0.1, max_records=0)


@row("a time must be a whole number, got datetime")
def a_datetime_as_a_time(world: World) -> None:
    with penstock.RangeReader(world.address) as reader:
        reader.offsets_for_times({HERE: datetime.datetime.now(datetime.UTC)})  # type: ignore[dict-item]


@row(
    r'a configuration in a dict is not an address\. Write Consumer\("kafka://localhost:9092", \*\*options\)',
    ConfigError,
)
def a_configuration_as_other_clients_take_it(world: World) -> None:
    penstock.Consumer({"bootstrap.servers": "localhost:9092", "group.id": "g"})  # type: ignore[arg-type]


@row("the address must be a string, got bytes. An address looks like kafka://", ConfigError)
def an_address_of_bytes(world: World) -> None:
    penstock.Producer(world.address.encode())  # type: ignore[arg-type]


@row("linger_ms is 'soon', expected a whole number", ConfigError)
def text_as_milliseconds(world: World) -> None:
    penstock.Producer(world.address, linger_ms="soon")
