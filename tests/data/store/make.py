"""Writes a store with the code it is run with: `PYTHONPATH=SOURCE/src:. python tests/data/store/make.py FOLDER`."""

from __future__ import annotations

import sys

from penstock.records.scalar_writer import FewRows
from penstock.records.scalar_writer import encode_few
from penstock.records.batch import Producing
from penstock.records.batch import end_marker
from penstock.store import Store, open_store

NOW = 1_700_000_000_000


def batch(pairs: list[tuple[bytes | None, bytes | None]], producing: Producing | None = None) -> bytes:
    rows = FewRows([key for key, _ in pairs], [value for _, value in pairs], [NOW + n for n in range(len(pairs))])
    return bytes(encode_few(rows, producing=producing or Producing()))


def fill(store: Store) -> None:
    store.create_topic("plain", 2, {"segment.bytes": "400"})
    for number in range(20):
        store.log("plain", number % 2).append(batch([(None, b"plain %d" % number)] * 2), now_ms=NOW + number)
    store.log("plain", 1).delete_records(5)
    store.create_topic("compacted", 1, {"cleanup.policy": "compact", "segment.bytes": "300"})
    for number in range(20):
        store.log("compacted", 0).append(batch([(b"key %d" % (number % 3), b"%d" % number)]), now_ms=NOW)
    store.flush()
    for compaction in store.prepare_compaction(NOW):
        compaction.run()
        compaction.finish()
    store.create_topic("written", 1)
    log = store.log("written", 0)
    for first in range(3):
        log.append(batch([(None, b"once %d" % first)], Producing(5, 0, first)), now_ms=NOW)
    for commit in (True, False):
        log.append(batch([(None, b"in a transaction")], Producing(6, 0, int(not commit), True)), now_ms=NOW)
        log.append(end_marker(6, 0, commit=commit, coordinator_epoch=0, now_ms=NOW), now_ms=NOW)
    log.append(batch([(None, b"open")], Producing(7, 0, 0, True)), now_ms=NOW)
    store.create_topic("gone", 1)
    store.log("gone", 0).append(batch([(None, b"gone")]), now_ms=NOW)
    store.delete_topic("gone")


def main(folder: str) -> None:
    store = open_store(f"file:{folder}", now_ms=NOW)
    fill(store)
    store.close()
    store = open_store(f"file:{folder}", now_ms=NOW)
    store.log("plain", 0).append(batch([(None, b"after a restart")]), now_ms=NOW)
    store.log("plain", 0).flush()
    store.log("plain", 0).append(batch([(None, b"not synced")]), now_ms=NOW)
    store.abandon()


if __name__ == "__main__":
    main(sys.argv[1])
