"""SIGKILL under transactions: each is there as a whole, with its offset, or not at all; nothing is there twice."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from penstock.client import Admin, Producer, RangeReader
from penstock.errors import FencedError, PenstockError
from penstock.interfaces import NewTopic
from penstock.model import LogRange, Partition
from penstock.testing import NodeProcess

PARTITIONS = 3
TRANSACTIONS = 60
SOURCE = Partition("source", 0)


@pytest.mark.parametrize("seed", range(8))
def test_transactions_are_whole_or_not_there(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    flush = dice.choice(("os", "always"))
    with NodeProcess(tmp_path / "store", flush=flush) as node:
        with Admin(node.address) as admin:
            admin.create_topics([NewTopic("t", PARTITIONS), NewTopic("source", 1)])
        fates = _write_while_killing(node, dice)
        found = _read_all(node)
        with Admin(node.address) as admin:
            committed = admin.committed("g").get(SOURCE)
            ends = admin.end_offsets([Partition("t", number) for number in range(PARTITIONS)])

    assert set(fates) == set(range(TRANSACTIONS))
    wanted = {number: size for number, size in fates.items() if size}
    assert found == wanted, f"flush={flush}"
    assert (committed.offset if committed else 0) == max(wanted, default=-1) + 1
    assert sum(ends.values()) > sum(wanted.values())  # markers at least


def _write_while_killing(node: NodeProcess, dice: random.Random) -> dict[int, int]:
    """How many records each transaction has that committed; 0 for those that did not."""
    progress = threading.Semaphore(0)
    kills = sorted(dice.sample(range(1, 4 * TRANSACTIONS - 1), 4))

    def killer() -> None:
        done = 0
        for at in kills:
            for _ in range(at - done):
                progress.acquire()
            done = at
            node.kill()
            node.start()

    thread = threading.Thread(target=killer)
    thread.start()
    fates: dict[int, int] = {}
    producer = _producer(node)
    try:
        for number in range(TRANSACTIONS):
            try:
                fates[number] = _transaction(producer, number, dice, progress)
            except FencedError:
                # What a new producer finds open it aborts: this transaction's outcome is known all the same.
                producer.close()
                producer = _producer(node)
                fates[number] = 0
    finally:
        for _ in range(4 * TRANSACTIONS):
            progress.release()
        thread.join()
        producer.close()
    return fates


def _producer(node: NodeProcess) -> Producer:
    producer = Producer(node.address, transactional_id="tx", linger_ms=1)
    producer.init_transactions()
    return producer


def _transaction(producer: Producer, number: int, dice: random.Random, progress: threading.Semaphore) -> int:
    size = dice.randrange(1, 40)
    commits = dice.random() < 0.7
    producer.begin_transaction()
    progress.release()
    try:
        for each in range(size):
            producer.send("t", b"%d" % number, key=b"%d" % each)
        progress.release()
        if dice.random() < 0.5:
            producer.flush()
        producer.send_offsets_to_transaction({SOURCE: number + 1}, "g")
        progress.release()
        if commits:
            _ask(producer.commit_transaction)
    except FencedError:
        raise
    except PenstockError:
        commits = False
    if not commits:
        _ask(producer.abort_transaction)
    progress.release()
    return size if commits else 0


def _ask(end: object) -> None:
    """An end whose answer is lost is asked for again, until it is known."""
    assert callable(end)
    while True:
        try:
            end()
        except PenstockError as error:
            if not error.retriable:
                raise
        else:
            return


def _read_all(node: NodeProcess) -> dict[int, int]:
    """Records by transaction, as readers of committed records see them."""
    found: dict[int, int] = {}
    with RangeReader(node.address, isolation_level="read_committed") as reader:
        for partition, end in reader.end_offsets([Partition("t", number) for number in range(PARTITIONS)]).items():
            for batch in reader.read(LogRange("t", partition.id, 0, end)):
                for each in batch:
                    number = int(each.value or b"-1")
                    found[number] = found.get(number, 0) + 1
    return found
