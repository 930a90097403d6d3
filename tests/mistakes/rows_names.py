"""Names that are none, or that nobody has: topics, partitions, groups, options, protocols."""

from __future__ import annotations

from functools import partial
from typing import Any

import penstock
from penstock import ConfigError, Partition, PenstockError
from tests.mistakes.row import Mistake, World, mistake

TABLE: list[Mistake] = []
row = partial(mistake, TABLE)


def send(world: World, topic: Any, **named: Any) -> None:
    with penstock.Producer(world.address, allow_auto_create_topics=False, unknown_topic_timeout_ms=500) as producer:
        producer.send(topic, b"value", **named).result(20)


def producer(world: World) -> penstock.Producer:
    return penstock.Producer(world.address)


@row(r"topic (can be called )?'a/b'")
def a_topic_with_a_slash(world: World) -> None:
    with producer(world) as sending:
        sending.send("a/b", b"value")


@row(r"'\\ud800' is no Unicode text")
def half_a_character_as_topic(world: World) -> None:
    with producer(world) as sending:
        sending.send("\ud800", b"value")


@row("a topic's name is empty")
def an_empty_topic(world: World) -> None:
    with producer(world) as sending:
        sending.send("", b"value")


@row("300 characters")
def a_topic_of_300_characters(world: World) -> None:
    with producer(world) as sending:
        sending.send("a" * 300, b"value")


@row("name that is no Unicode text")
def half_a_character_in_a_header(world: World) -> None:
    with producer(world) as sending:
        sending.send("orders", b"value", headers={"\ud800": b""})


@row("there is no partition 9 .topic orders.. The topic has partitions 0 to 1")
def sending_to_a_partition_that_there_is_not(world: World) -> None:
    with producer(world) as sending:
        sending.send("orders", b"value", partition=9).result(20)


@row("there is no partition -1")
def sending_to_a_negative_partition(world: World) -> None:
    with producer(world) as sending:
        sending.send("orders", b"value", partition=-1)


@row("0 to 1: assign one of them|topic has no such partition .topic orders, partition 9", PenstockError, within_s=10)
def assigning_a_partition_that_there_is_not(world: World) -> None:
    with penstock.Consumer(world.address) as consumer:
        consumer.assign([Partition("orders", 9)] if world.scheme == "kafka" else [nowhere(consumer)])
        consumer.poll(20)


def nowhere(consumer: penstock.Consumer) -> Partition:
    there = consumer.partitions_for("orders")[0]
    return Partition("orders", 9, there.node)


@row("the servers know no topic absent; it will be read once it is there", "WARNING", within_s=10)
def subscribing_to_a_topic_that_there_is_not(world: World) -> None:
    with penstock.Consumer(world.address) as consumer:
        consumer.subscribe("absent")
        consumer.poll(5)


@row("no topics to subscribe to. unsubscribe.. ends a subscription")
def subscribing_to_nothing(world: World) -> None:
    with penstock.Consumer(world.address) as consumer:
        consumer.subscribe([])


@row("there is no such topic .topic absent.. Admin.topics.. lists what there is")
def asking_for_the_partitions_of_nothing(world: World) -> None:
    with penstock.Consumer(world.address) as consumer:
        consumer.partitions_for("absent")


@row("there is nothing to read: no topic and no partition. Name topics in the address")
def polling_without_a_topic(world: World) -> None:
    with penstock.Consumer(world.address) as consumer:
        consumer.poll(1)


@row("this partition is not assigned to this consumer .topic other, partition 0.")
def seeking_where_it_does_not_read(world: World) -> None:
    with penstock.Consumer(f"{world.address}/orders") as consumer:
        consumer.seek(Partition("other", 0), 5)


@row("topics are subscribed already. Call unsubscribe.. before assign")
def assigning_beside_a_subscription(world: World) -> None:
    with penstock.Consumer(world.address) as consumer:
        consumer.subscribe("orders")
        consumer.assign([Partition("orders", 0)])


@row("there is no group with committed offsets. Give the consumer group=NAME")
def asking_for_commits_without_a_group(world: World) -> None:
    with penstock.Consumer(f"{world.address}/orders") as consumer:
        consumer.committed([Partition("orders", 0)])


@row("there is no option 'lingr_ms'. Did you mean 'linger_ms'", ConfigError)
def an_option_with_a_letter_missing(world: World) -> None:
    penstock.Producer(world.address, lingr_ms=5)


@row("'linger_ms' is an option of a producer. Give it to the producer", ConfigError)
def an_option_of_a_producer_for_a_consumer(world: World) -> None:
    penstock.Consumer(world.address, linger_ms=5)


@row("acks is 'most', expected one of", ConfigError)
def a_word_that_is_no_choice(world: World) -> None:
    penstock.Producer(world.address, acks="most")


@row("session_timeout_ms", ConfigError)
def heartbeats_rarer_than_a_session_is_long(world: World) -> None:
    penstock.Consumer(world.address, group="g1", session_timeout_ms=1_000, heartbeat_interval_ms=5_000)


@row("kafak", PenstockError)
def a_protocol_that_there_is_not(world: World) -> None:
    penstock.Producer(world.address.replace(world.scheme, "kafak"))
