"""A checkpoint of Spark's own connector becomes one of ours, and back, without losing or guessing anything."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigError, UsageError
from penstock.model import Partition
from penstock.spark import convert_checkpoint
from penstock.spark._checkpoint import connector_text, our_text, parse_batch, positions_of
from penstock.spark._offsets import BatchOffset
from tests.unit.spark.recorded_checkpoint import CRC, ENDS, LONG_AGO, lines, metadata, put, tree, write

FILES = '{"logOffset":3}'
RATE = '{"0":{"value":3,"runTimeMs":1000}}'


def ours(begin: str, end: str) -> str:
    return json.dumps({"v": 1, "from": json.loads(begin), "to": json.loads(end)})


def test_every_batch_gets_its_beginning_from_the_one_before(tmp_path: Path) -> None:
    done = convert_checkpoint(write(tmp_path))
    assert (done.converted, done.sources, done.others, done.uncommitted) == ((0, 1, 2, 3), ("0",), (), False)
    assert [lines(tmp_path, n) for n in range(4)] == [
        [ours(begin, end)] for begin, end in zip(('{"t":{"0":0,"1":0}}', *ENDS), ENDS, strict=False)
    ]


def test_only_the_lines_of_the_source_change_and_checksums_of_these_files_go(tmp_path: Path) -> None:
    before = tree(write(tmp_path))
    convert_checkpoint(tmp_path)
    after = tree(tmp_path)
    assert {name for name in before if before[name] != after[name]} == {f"offsets/{n}" for n in range(4)}
    assert before.keys() == after.keys()
    assert [after[f"offsets/{n}"].decode().split("\n")[:2] for n in range(4)] == [["v1", metadata(n)] for n in range(4)]
    assert not list((tmp_path / "offsets").glob(".*"))
    assert (tmp_path / "commits" / ".0.crc").read_bytes() == CRC


def test_there_and_back_gives_the_same_bytes(tmp_path: Path) -> None:
    before = tree(write(tmp_path))
    convert_checkpoint(tmp_path)
    done = convert_checkpoint(tmp_path, back=True, stopped=True)
    assert done.converted == (0, 1, 2, 3)
    assert tree(tmp_path) == before


def test_copies_put_back_by_hand_are_the_checkpoint_as_it_was(tmp_path: Path) -> None:
    before = tree(write(tmp_path))
    convert_checkpoint(tmp_path)
    for copy in (tmp_path / "originals" / "connector").iterdir():
        shutil.copy(copy, tmp_path / "offsets")
    assert tree(tmp_path) == before


def test_a_second_run_finds_nothing_to_do(tmp_path: Path) -> None:
    convert_checkpoint(write(tmp_path))
    once = tree(tmp_path)
    assert convert_checkpoint(tmp_path).converted == ()
    assert tree(tmp_path) == once


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    before = tree(write(tmp_path))
    assert convert_checkpoint(tmp_path, dry_run=True).converted == (0, 1, 2, 3)
    assert tree(tmp_path) == before
    assert not (tmp_path / "originals").exists()


def test_sources_with_names(tmp_path: Path) -> None:
    named = {n: [f"left:{end}", f"right:{end}", "files:-"] for n, end in enumerate(ENDS)}
    before = tree(
        write(tmp_path, named, version="v2", initials=dict.fromkeys(("left", "right"), '{"t":{"0":0,"1":0}}'))
    )
    done = convert_checkpoint(tmp_path)
    assert (done.sources, done.others) == (("left", "right"), ("files",))
    assert lines(tmp_path, 3) == [f"{key}:{ours(ENDS[2], ENDS[3])}" for key in ("left", "right")] + ["files:-"]
    convert_checkpoint(tmp_path, back=True, stopped=True)
    assert tree(tmp_path) == before


def test_other_sources_stay_as_they_are(tmp_path: Path) -> None:
    write(tmp_path, {n: [FILES, end, RATE, "-"] for n, end in enumerate(ENDS)}, initials={"1": '{"t":{"0":0,"1":0}}'})
    put(tmp_path / "sources" / "0" / "0", b'v1\n{"path":"file:///in/a.json","timestamp":1,"batchId":0}')
    done = convert_checkpoint(tmp_path)
    assert (done.sources, done.others) == (("1",), ("0", "2", "3"))
    assert lines(tmp_path, 1) == [FILES, ours(ENDS[0], ENDS[1]), RATE, "-"]


def test_a_source_used_twice_has_two_lines_and_one_file(tmp_path: Path) -> None:
    write(tmp_path, {n: [end, end] for n, end in enumerate(ENDS)})
    assert convert_checkpoint(tmp_path).sources == ("0", "1")
    assert lines(tmp_path, 0) == [ours('{"t":{"0":0,"1":0}}', ENDS[0])] * 2


def test_sources_behind_one_that_is_used_twice_are_not_given_each_others_beginning(tmp_path: Path) -> None:
    """Lines 0 and 1 are one source, whose file is 0; the source of line 2 has file 1, and began elsewhere."""
    initials = {"0": ENDS[0], "1": '{"t":{"0":0,"1":0}}'}
    write(tmp_path, {0: [ENDS[3], ENDS[3], '{"t":{"0":4,"1":6}}']}, committed=-1, initials=initials)
    before = tree(tmp_path)
    with pytest.raises(ConfigError, match="nothing says where it begins"):
        convert_checkpoint(tmp_path)
    assert tree(tmp_path) == before


def test_what_only_looks_like_the_connectors_is_left_unless_the_user_says_so(tmp_path: Path) -> None:
    before = tree(write(tmp_path, initials={}))
    with pytest.raises(ConfigError, match=r"look like those of Spark's Kafka connector.*--source 0"):
        convert_checkpoint(tmp_path)
    assert tree(tmp_path) == before
    assert convert_checkpoint(tmp_path, sources=["0"]).sources == ("0",)


@pytest.mark.parametrize("named", ["1", "7"])
def test_a_source_that_is_not_kafkas_cannot_be_named(tmp_path: Path, named: str) -> None:
    write(tmp_path, {n: [end, FILES] for n, end in enumerate(ENDS)})
    with pytest.raises(ConfigError, match=f"source {named}"):
        convert_checkpoint(tmp_path, sources=[named])


def test_a_query_without_kafka_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no source of this query"):
        convert_checkpoint(write(tmp_path, {0: [FILES]}))


@pytest.mark.parametrize("content", [b"v3\n{}\n{}", b"v1", b"", b"\xff\xfe", b"v2\n{}\nno name"])
def test_a_log_that_is_not_understood_is_not_touched(tmp_path: Path, content: bytes) -> None:
    put(write(tmp_path) / "offsets" / "4", content)
    before = tree(tmp_path)
    with pytest.raises(ConfigError, match="offsets/4"):
        convert_checkpoint(tmp_path)
    assert tree(tmp_path) == before


def test_a_damaged_line_does_not_make_a_source_somebody_elses(tmp_path: Path) -> None:
    write(tmp_path, {n: [end, end] for n, end in enumerate([*ENDS[:3], ENDS[3][:9]])})
    before = tree(tmp_path)
    with pytest.raises(ConfigError, match="offsets/3"):
        convert_checkpoint(tmp_path)
    assert tree(tmp_path) == before


def test_offsets_of_a_newer_penstock_are_not_touched(tmp_path: Path) -> None:
    write(tmp_path, {0: ['{"v": 2, "from": {}, "to": {}}']})
    with pytest.raises(ConfigError, match="version 2"):
        convert_checkpoint(tmp_path, back=True)


def test_a_batch_that_was_not_completed_is_told(tmp_path: Path) -> None:
    assert convert_checkpoint(write(tmp_path, committed=2)).uncommitted
    assert lines(tmp_path, 3) == [ours(ENDS[2], ENDS[3])]


def test_the_first_batch_begins_where_the_connector_noted_it(tmp_path: Path) -> None:
    write(tmp_path, {0: [ENDS[1]]}, committed=-1, initials={"0": ENDS[0]})
    convert_checkpoint(tmp_path)
    assert lines(tmp_path, 0) == [ours(ENDS[0], ENDS[1])]


@pytest.mark.parametrize(("oldest", "initials"), [(0, {}), (3, {"0": ENDS[0]})])
def test_a_batch_to_be_run_again_is_not_given_a_beginning_by_guess(
    tmp_path: Path, oldest: int, initials: dict[str, str]
) -> None:
    write(tmp_path, {oldest: [ENDS[3]]}, committed=-1, initials=initials)
    with pytest.raises(ConfigError, match=f"batch {oldest} was planned and not completed"):
        convert_checkpoint(tmp_path, sources=["0"])


def test_a_log_whose_beginning_spark_has_deleted(tmp_path: Path) -> None:
    write(tmp_path, {57: [ENDS[2]], 58: [ENDS[3]]})
    convert_checkpoint(tmp_path)
    assert [lines(tmp_path, n) for n in (57, 58)] == [[ours(ENDS[2], ENDS[2])], [ours(ENDS[2], ENDS[3])]]


def test_partitions_that_came_went_and_began_anew(tmp_path: Path) -> None:
    write(tmp_path, {0: ['{"t":{"0":9,"1":5}}'], 1: ['{"t":{"0":4,"2":7}}']}, initials={"0": '{"t":{"0":3,"1":0}}'})
    convert_checkpoint(tmp_path)
    assert lines(tmp_path, 1) == [ours('{"t":{"0":4,"2":0}}', '{"t":{"0":4,"2":7}}')]


def test_our_own_first_batch_that_was_not_completed_begins_there_for_the_connector(tmp_path: Path) -> None:
    write(tmp_path, {0: [ours(ENDS[0], ENDS[1])]}, committed=-1, initials={})
    convert_checkpoint(tmp_path, back=True)
    assert (tmp_path / "sources" / "0" / "0").read_bytes() == b"\x00v1\n" + ENDS[0].encode()
    assert lines(tmp_path, 0) == [ENDS[1]]


def test_partitions_of_another_log_cannot_go_to_the_connector(tmp_path: Path) -> None:
    write(tmp_path, {0: ['{"v": 1, "from": {"t": {"broker-a/0": 0}}, "to": {"t": {"broker-a/0": 5}}}']}, initials={})
    with pytest.raises(ConfigError, match="cannot be a Kafka partition"):
        convert_checkpoint(tmp_path, back=True)


def test_a_query_that_planned_nothing_is_told_where_it_would_have_begun(tmp_path: Path) -> None:
    write(tmp_path, {}, initials={"0": ENDS[0]})
    with pytest.raises(UsageError, match=r'startingOffsets.*\{"t":\{"0":8,"1":12\}\}'):
        convert_checkpoint(tmp_path)


@pytest.mark.parametrize("name", ["nothing", "."])
def test_a_folder_without_a_checkpoint(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"no folder|no checkpoint"):
        convert_checkpoint(tmp_path / name)


def test_a_log_that_was_just_written_is_taken_for_that_of_a_running_query(tmp_path: Path) -> None:
    before = tree(write(tmp_path))
    os.utime(tmp_path / "commits" / "3", (time.time(), time.time()))
    with pytest.raises(UsageError, match=r"seems to be running.*--stopped"):
        convert_checkpoint(tmp_path)
    assert tree(tmp_path) == before
    assert convert_checkpoint(tmp_path, stopped=True).converted


def test_files_keep_their_mode(tmp_path: Path) -> None:
    (write(tmp_path) / "offsets" / "0").chmod(0o640)
    convert_checkpoint(tmp_path)
    assert (tmp_path / "offsets" / "0").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("address", ["file:{}", "file://{}", "{}"])
def test_addresses_of_a_local_folder(tmp_path: Path, address: str) -> None:
    assert convert_checkpoint(address.format(write(tmp_path / "a b"))).converted


def test_the_recording_is_old() -> None:
    assert time.time() - (LONG_AGO - 10**9) > 1_000


positions = st.dictionaries(
    st.builds(Partition, st.sampled_from(["a", "b.c", "d_e-f"]), st.integers(0, 12), st.just("")),
    st.integers(0, 2**63 - 1),
)


@given(begin=positions, end=positions)
def test_no_position_changes_on_the_way(begin: dict[Partition, int], end: dict[Partition, int]) -> None:
    text = our_text(begin, end)
    assert positions_of(text) == end == positions_of(connector_text(end))
    assert BatchOffset.from_json(json.loads(text)).start == {p: min(begin.get(p, 0), end[p]) for p in end}


@given(rows=st.lists(st.text(st.characters(exclude_characters="\n", codec="utf-8")), max_size=3))
def test_a_file_is_put_together_as_it_was(rows: list[str]) -> None:
    content = "\n".join(["v1", "{}", *rows]).encode()
    assert parse_batch(0, content).content() == content
