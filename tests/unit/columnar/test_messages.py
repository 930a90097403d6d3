"""Messages: columns for who wants columns, records for who iterates, offsets to commit in both cases."""

import copy
import pickle

import polars
import pyarrow as pa
import pytest

from penstock.errors import UsageError
from penstock.model import Partition, Record, TimestampType
from penstock.records import BatchBuilder, Messages, decode_v2
from penstock.records.arrow import COLUMNS
from penstock.records.batch import stamp

FIRST, SECOND = Partition("flights", 3), Partition("orders", 0, "broker-a")


def messages(place: Partition, base: int, count: int, columns: list[str] | None = None) -> Messages:
    builder = BatchBuilder()
    for number in range(count):
        builder.append(
            None if number % 2 else b"k%d" % number, b"v%d" % number, 1_700_000_000_000 + number, {"n": b"1"}
        )
    data = builder.build()
    stamp(data, base, 0)
    found = decode_v2(data, columns=columns)
    return Messages.of(place, found.batch, found.next_offset)


BOTH = Messages.concat([messages(FIRST, 10, 3), messages(SECOND, 0, 2), messages(FIRST, 13, 2)])


def test_iterating_gives_records_in_order() -> None:
    assert [(record.topic, record.partition, record.offset) for record in BOTH] == [
        ("flights", 3, 10), ("flights", 3, 11), ("flights", 3, 12), ("orders", 0, 0), ("orders", 0, 1),
        ("flights", 3, 13), ("flights", 3, 14),
    ]  # fmt: skip
    assert BOTH[1] == Record(
        "flights", 3, 11, 1_700_000_000_001, None, b"v1", (("n", b"1"),), TimestampType.CREATE
    )  # fmt: skip
    assert BOTH[-1] == list(BOTH)[-1]
    assert len(BOTH) == 7


def test_the_next_offsets_are_those_after_the_last_record_of_each_partition() -> None:
    assert BOTH.next_offsets == {FIRST: 15, SECOND: 2}
    assert BOTH.partitions == {FIRST, SECOND}


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0, 2, {FIRST: 12}),
        (0, 3, {FIRST: 13}),
        (2, 4, {FIRST: 13, SECOND: 1}),
        (3, 6, {SECOND: 2, FIRST: 14}),
        (4, 4, {}),
    ],
)
def test_a_slice_commits_only_what_it_has(first: int, last: int, expected: dict[Partition, int]) -> None:
    part = BOTH[first:last]
    assert part.next_offsets == expected
    assert list(part) == list(BOTH)[first:last]


def test_slices_in_steps_and_indexes_out_of_range_are_refused() -> None:
    with pytest.raises(UsageError, match="steps of 1"):
        BOTH[::2]
    for index in (7, -8):
        with pytest.raises(IndexError):
            BOTH[index]


def test_a_slice_without_offsets_cannot_be_committed_but_the_whole_can() -> None:
    found = messages(FIRST, 10, 3, ["value"])
    assert found.next_offsets == {FIRST: 13}
    assert [record.offset for record in found] == [-1, -1, -1]
    with pytest.raises(UsageError, match="without their offsets"):
        _ = found[:2].next_offsets


def test_the_table_has_sparks_columns_in_sparks_order() -> None:
    table = BOTH.to_arrow()
    assert table.schema.names == [*COLUMNS, "node"]
    assert table.column("topic").to_pylist() == ["flights"] * 3 + ["orders"] * 2 + ["flights"] * 2
    assert table.column("partition").to_pylist() == [3, 3, 3, 0, 0, 3, 3]
    assert table.schema.field("partition").type == pa.int32()
    table.validate(full=True)
    assert BOTH.to_arrow(["value", "topic"]).schema.names == ["value", "topic"]
    with pytest.raises(UsageError, match="no column 'tag'"):
        BOTH.to_arrow(["tag"])
    with pytest.raises(UsageError, match="'key' was not decoded"):
        messages(FIRST, 0, 1, ["value"]).to_arrow(["key"])


def test_parts_with_different_columns_have_those_in_common() -> None:
    mixed = Messages.concat([messages(FIRST, 0, 1), messages(FIRST, 1, 1, ["value", "offset"])])
    assert mixed.to_arrow().schema.names == ["value", "topic", "partition", "offset"]


def test_columns_are_properties() -> None:
    assert BOTH.key.to_pylist()[:3] == [b"k0", None, b"k2"]
    assert BOTH.value.to_pylist()[:2] == [b"v0", b"v1"]
    assert BOTH.offset.to_pylist()[:2] == [10, 11]
    assert BOTH.timestamp.type == pa.timestamp("us", "UTC")


def test_others_take_it_through_the_capsule_interface() -> None:
    assert pa.table(BOTH).equals(BOTH.to_arrow())
    frame = polars.DataFrame(BOTH)
    assert frame["offset"].to_list() == [10, 11, 12, 0, 1, 13, 14]


def test_nothing_is_empty_and_has_a_schema() -> None:
    nothing = Messages()
    assert not nothing
    assert list(nothing) == []
    assert nothing.to_arrow().schema.names == list(COLUMNS)
    assert repr(nothing) == "<Messages: 0 from nowhere>"
    assert repr(BOTH) == "<Messages: 7 from flights-3, orders-0@broker-a>"


def test_many_records_iterate_past_the_block_size() -> None:
    many = messages(FIRST, 0, 3000)
    assert [record.offset for record in many] == list(range(3000))


LARGE = Messages.concat([messages(FIRST, 0, 20_000), messages(SECOND, 0, 20_000)])


@pytest.mark.parametrize(
    "some", [BOTH, BOTH[1:4], BOTH[:0], Messages(), messages(FIRST, 10, 3, ["value"]), LARGE[19_990:20_020]]
)
def test_messages_come_out_of_a_pickle_as_they_went_in(some: Messages) -> None:
    for again in (pickle.loads(pickle.dumps(some)), pickle.loads(pickle.dumps(some, protocol=2)), copy.deepcopy(some)):
        assert list(again) == list(some)
        assert [(part.partition, part.next_offset, part.context) for part in again.parts] == [
            (part.partition, part.next_offset, part.context) for part in some.parts
        ]
        assert again.to_arrow() == some.to_arrow()
        assert [pickle.loads(pickle.dumps(part)) for part in again.parts] == list(some.parts)


def test_a_pickle_is_about_as_large_as_its_rows() -> None:
    size = len(pickle.dumps(LARGE))
    assert size <= 1.02 * sum(part.batch.nbytes for part in LARGE.parts)
    assert len(pickle.dumps(LARGE[5_000:5_010])) < 4_000
    assert len(pickle.dumps(LARGE[5_000:5_010].parts[0])) < 4_000
    assert len(pickle.dumps(Messages())) < 200
    a_record_each = Messages.concat(LARGE[number : number + 1] for number in range(1_000))
    assert len(pickle.dumps(a_record_each)) < 2.5 * sum(part.batch.nbytes for part in a_record_each.parts)


def test_the_offsets_are_those_of_the_records_themselves() -> None:
    assert BOTH.offsets == {FIRST: [10, 11, 12, 13, 14], SECOND: [0, 1]}
    assert BOTH[1:2].offsets == {FIRST: [11]}
    assert Messages.of_records(FIRST, [BOTH[2]], 13).offsets == {FIRST: [12]}
    with pytest.raises(UsageError, match="without their offsets"):
        _ = messages(FIRST, 10, 3, ["value"]).offsets


def test_rows_of_several_brokers_are_told_apart() -> None:
    brokers = [Partition("flights", 0, name) for name in ("1", "2")]
    both = Messages.concat([messages(each, 0, 2) for each in brokers])
    table = both.to_arrow()
    assert table.schema.names == [*COLUMNS, "node"]
    assert table.column("node").to_pylist() == ["1", "1", "2", "2"]
    table.validate(full=True)
    assert len({(row["topic"], row["node"], row["partition"], row["offset"]) for row in table.to_pylist()}) == 4
    assert [Partition.of(record) for record in both] == [each for each in brokers for _ in range(2)]
    assert both.to_arrow(["value"]).schema.names == ["value"]
    again = pickle.loads(pickle.dumps(both))
    assert (again.column("node"), [record.node for record in again]) == (both.column("node"), ["1", "1", "2", "2"])
    made = [record.node for record in both.deserialized(value=bytes.decode)]
    assert made == ["1", "1", "2", "2"]


def test_where_partitions_belong_to_no_broker_node_is_null_and_there_if_asked_for() -> None:
    plain = messages(FIRST, 0, 3)
    assert plain.to_arrow().schema.names == [*COLUMNS]
    assert plain.to_arrow(["node", "offset"]).column("node").to_pylist() == [None] * 3
    assert [record.node for record in plain] == [None] * 3
    assert {Partition.of(record) for record in plain} == {FIRST}


@pytest.mark.parametrize("named_nodes", [True, False])
def test_a_table_without_rows_has_the_columns_of_one_with_rows(named_nodes: bool) -> None:
    place = SECOND if named_nodes else FIRST
    some, none = messages(place, 0, 2), Messages(named_nodes=named_nodes)
    for nothing in (none, some[:0], Messages.concat([none, none]), none.deserialized(value=bytes.decode)):
        assert nothing.to_arrow().schema == some.to_arrow().schema
        assert pickle.loads(pickle.dumps(nothing)).to_arrow().schema == some.to_arrow().schema
