"""The compiled kernel is loaded beside traffic: until it is there the plain one works on, with the same rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from penstock import kernels
from penstock.client.runtime.imports import run_in_background
from penstock.kernels import choose
from penstock.kernels.choose import _State
from penstock.records import decode_v2, encode_v2

EACH, BATCHES = 100, 20
ROWS = pa.table({"key": [b"%d" % n for n in range(EACH)], "value": [b"x" * n for n in range(EACH)]}).to_batches()[0]
RUN = b"".join(encode_v2(ROWS, base_offset=EACH * n, timestamp_ms=1_000) for n in range(BATCHES))
WORTH = 2 * EACH * BATCHES + 14 * BATCHES + len(RUN) // 128


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has read nothing yet, on a machine that has compiled."""
    monkeypatch.delenv("PENSTOCK_KERNEL", raising=False)
    monkeypatch.setattr(choose, "_WARM_UP_BYTES", 3 * WORTH)
    monkeypatch.setattr(choose, "is_warm", lambda home: True)
    for name, value in {"chosen": "numba", "forced": False, "loaded": {}, "under_way": set(), "walked": 0}.items():
        monkeypatch.setattr(_State, name, value)
    monkeypatch.setattr(_State, "beside", None)


def compiled() -> bool:
    return kernels.kernel(0).COMPILED


def test_rows_are_the_same_before_meanwhile_and_afterwards(fresh: None) -> None:
    waiting: list[Callable[[], object]] = []

    def later(work: Callable[[], object]) -> bool:
        waiting.append(work)
        return True

    kernels.load_beside(later)
    found = [decode_v2(RUN).batch for _ in range(3)]
    assert (waiting, compiled()) == ([], False)
    found += [decode_v2(RUN).batch for _ in range(4)]
    (work,) = waiting  # nobody else begins with it meanwhile
    assert not compiled()
    work()
    assert compiled()
    found.append(decode_v2(RUN).batch)
    assert all(batch.equals(found[0]) for batch in found)
    assert found[0].num_rows == EACH * BATCHES


def test_readers_that_decode_while_it_comes_get_all_rows(fresh: None) -> None:
    kernels.load_beside(run_in_background)
    switched = threading.Event()

    def read() -> list[int]:
        counts = []
        while not switched.is_set():
            counts.append(decode_v2(RUN).batch.num_rows)
            if compiled():
                switched.set()
        return [*counts, decode_v2(RUN).batch.num_rows]

    with ThreadPoolExecutor(3) as pool:
        counts = {count for running in [pool.submit(read) for _ in range(3)] for count in running.result(120)}
    assert counts == {EACH * BATCHES}


def test_a_million_short_records_are_read_before_it_pays(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert 1_000_000 / (EACH * BATCHES) * WORTH < choose._WARM_UP_BYTES < 5_000_000 / (EACH * BATCHES) * WORTH
