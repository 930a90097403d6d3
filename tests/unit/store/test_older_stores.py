"""A store that an older version wrote opens, and has what was written."""

import tarfile
from pathlib import Path

import pytest

from penstock.records.batch import Producing
from penstock.records.scalar_writer import FewRows, encode_few
from penstock.store import open_store
from penstock.store.log_state import Aborted
from tests.unit.store.homes import NOW, batch, read_records

STORES = Path(__file__).parents[2] / "data" / "store"


@pytest.mark.parametrize("version", ["2e2685e6"])
def test_a_store_that_an_older_version_left_has_all_of_it(tmp_path: Path, version: str) -> None:
    with tarfile.open(STORES / f"{version}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    for _ in range(2):  # once as its process left it, killed, and once after a clean stop
        with open_store(f"file:{tmp_path}", now_ms=NOW) as store:
            assert store.recovered == []
            assert [(topic.name, topic.partitions) for topic in store.topics()] == [
                ("compacted", 1),
                ("plain", 2),
                ("written", 1),
            ]
            even = [b"plain %d" % (number // 2 * 2) for number in range(20)]
            assert read_records(store.log("plain", 0))[:22] == list(
                enumerate([*even, b"after a restart", b"not synced"])
            )
            odd = [b"plain %d" % (number // 2 * 2 + 1) for number in range(20)]
            assert read_records(store.log("plain", 1), 5) == list(enumerate(odd))[5:]
            assert store.log("plain", 1).start_offset == 5
            assert {value for _, value in read_records(store.log("compacted", 0))} >= {b"17", b"18", b"19"}
            log = store.log("written", 0)
            assert (log.end_offset, log.stable_offset) == (8, 7)
            assert log.aborted(0, 8) == [Aborted(6, 5, 6, 7)]
            again = encode_few(FewRows([None], [b"once 2"], [NOW]), producing=Producing(5, 0, 2))
            assert log.append(bytes(again), now_ms=NOW).duplicate
            store.log("plain", 0).append(batch([b"new"]), now_ms=NOW)
