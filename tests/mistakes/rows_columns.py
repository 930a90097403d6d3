"""Tables that cannot be sent: the column is named, the type it has, and the one that was wanted."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa

import penstock
from tests.mistakes.row import Mistake, World, mistake

TABLE: list[Mistake] = []
row = partial(mistake, TABLE)


def send(world: World, rows: Any, topic: Any = "orders") -> None:
    with penstock.Producer(world.address) as producer:
        producer.send_batch(topic, rows).result(20)


@row("rows must be Messages or an Arrow table or stream, got list. pyarrow.table.. makes a table")
def rows_in_a_list(world: World) -> None:
    send(world, [b"value"])


@row("rows must be Messages or an Arrow table or stream, got dict")
def columns_in_a_dict(world: World) -> None:
    send(world, {"value": [b"a"]})


@row("the table has key. Columns to send are key, value, headers, .* only value is needed")
def no_column_value(world: World) -> None:
    send(world, pa.table({"key": [b"a"]}))


@row("the table has value, colour. Columns to send are")
def a_column_of_another_name(world: World) -> None:
    send(world, pa.table({"value": [b"a"], "colour": ["red"]}))


@row("column value must hold binary or string, got double")
def numbers_as_values(world: World) -> None:
    send(world, pa.table({"value": [1.5]}))


@row("column key must hold binary or string, got int64")
def numbers_as_keys(world: World) -> None:
    send(world, pa.table({"value": [b"a"], "key": [1]}))


@row("column timestamp must hold timestamps, or integers of milliseconds, got string")
def times_as_text(world: World) -> None:
    send(world, pa.table({"value": [b"a"], "timestamp": ["today"]}))


@row("column partition must hold integers, got string")
def partitions_as_text(world: World) -> None:
    send(world, pa.table({"value": [b"a"], "partition": ["0"]}))


@row("column headers must hold a list of key and value, got string")
def headers_as_text(world: World) -> None:
    send(world, pa.table({"value": [b"a"], "headers": ["source=shop"]}))


@row("there is no partition 77 .topic orders.. The topic has partitions 0 to 1")
def a_row_for_a_partition_that_there_is_not(world: World) -> None:
    send(world, pa.table({"value": [b"a"], "partition": [77]}))


@row("no topic is named, and the rows have no column topic")
def a_table_for_no_topic(world: World) -> None:
    send(world, pa.table({"value": [b"a"]}), None)
