"""Whatever bytes a log file has, the store opens with a cut or says what is damaged; what it serves is whole."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import CorruptBatch, StoreError
from penstock.records.batch import batches, verify_crc
from penstock.store import Store, StoreConfig
from penstock.store.filesystem import MemoryDirectory
from penstock.store.partition_folder import with_checksum
from tests.unit.store.homes import NOW, Home, batch, read_records

FIRST = f"{0:020}.log"
GOOD = [struct.pack(">q", n) + batch([b"%d" % n], times=[NOW + n])[8:12] + struct.pack(">i", 1) for n in range(4)]
WHOLE = b"".join(head + batch([b"%d" % n], times=[NOW + n])[16:] for n, head in enumerate(GOOD))

edits = st.one_of(
    st.builds(lambda at, new: ("put", at, new), st.integers(0, len(WHOLE)), st.binary(min_size=1, max_size=20)),
    st.builds(lambda at, new: ("insert", at, new), st.integers(0, len(WHOLE)), st.binary(min_size=1, max_size=20)),
    st.builds(lambda at, count: ("drop", at, bytes(count)), st.integers(0, len(WHOLE)), st.integers(1, 100)),
)


def edited(data: bytes, changes: list[tuple[str, int, bytes]]) -> bytes:
    for kind, at, new in changes:
        after = at if kind == "insert" else at + len(new)
        data = data[:at] + (b"" if kind == "drop" else new) + data[after:]
    return data


def check(log_file: bytes, other_files: dict[str, bytes], *, repair: bool) -> None:
    """Opening gives a log that can be read to its end, every batch of it good, or a StoreError."""
    directory = MemoryDirectory()
    with Store(directory, StoreConfig(), now_ms=NOW) as store:
        store.create_topic("t", 1)
        store.log("t", 0).append(batch([b"x"]), now_ms=NOW)
    home = Home(directory, None)
    directory.remove("clean-shutdown.json")
    directory.folder("t-0").remove("recovery-point")
    home.damage("t-0", FIRST, log_file)
    for name, data in other_files.items():
        home.damage("t-0", name, data)
    try:
        store = home.open(repair=repair)
    except StoreError:
        assert not repair
        return
    log = store.log("t", 0)
    data = log.read(log.start_offset, 1 << 20).data
    for header in batches(data):
        verify_crc(data, header)
    records = read_records(log)
    assert [offset for offset, _ in records] == sorted({offset for offset, _ in records})
    log.offset_for_time(NOW)
    log.max_timestamp()
    assert log.append(batch([b"next"]), now_ms=NOW).base_offset == log.end_offset - 1
    assert read_records(log) == [*records, (log.end_offset - 1, b"next")]
    if log_file.startswith(WHOLE) and "log-start-offset" not in other_files:
        assert [value for _, value in records[:4]] == [b"0", b"1", b"2", b"3"]
    home.close()


@given(st.lists(edits, max_size=4), st.booleans())
def test_a_damaged_last_segment(changes: list[tuple[str, int, bytes]], repair: bool) -> None:
    check(edited(WHOLE, changes), {}, repair=repair)


@given(st.binary(max_size=200), st.booleans())
def test_a_last_segment_of_anything(data: bytes, repair: bool) -> None:
    check(data, {}, repair=repair)


@given(
    st.binary(max_size=100),
    st.dictionaries(
        st.sampled_from(
            [
                f"{0:020}.index",
                f"{0:020}.timeindex",
                f"{0:020}.producers",
                "leader-epoch-checkpoint",
                "recovery-point",
                "log-start-offset",
                f"{7:020}.index",
            ]
        ),
        st.binary(max_size=60)
        | st.binary(max_size=20).map(with_checksum)
        | st.integers(0, 9).map(lambda n: with_checksum(b"%d" % n)),
    ),
    st.booleans(),
)
def test_small_files_of_anything(tail: bytes, files: dict[str, bytes], repair: bool) -> None:
    check(WHOLE + tail, files, repair=repair)


@given(st.lists(edits, min_size=1, max_size=3), st.booleans())
def test_a_damaged_earlier_segment(changes: list[tuple[str, int, bytes]], repair: bool) -> None:
    later = struct.pack(">q", 4) + WHOLE[8 : len(WHOLE) // 4]
    check(edited(WHOLE, changes), {f"{4:020}.log": later}, repair=repair)


@given(
    st.one_of(st.binary(max_size=200), st.lists(edits, min_size=1, max_size=3).map(lambda some: edited(WHOLE, some)))
)
def test_an_append_of_anything_is_stored_whole_or_refused(data: bytes) -> None:
    with Store(MemoryDirectory(), StoreConfig(), now_ms=NOW) as store:
        store.create_topic("t", 1)
        log = store.log("t", 0)
        try:
            appended = log.append(data, now_ms=NOW)
        except CorruptBatch:
            assert (log.end_offset, log.size) == (0, 0)
        else:
            assert log.end_offset == appended.last_offset + 1
            assert bytes(log.read(0, 1).data)[16:] == data[16:]
