"""What other processes do: hold the lock, get killed in the middle of an append, run into a full disk."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.store import StoreLocked, open_store
from tests.unit.store.homes import Home, batch, read_records

ROOT = Path(__file__).parents[3]
HOME = Path(penstock.__file__).parents[1]


def spawn(program: str, *arguments: object) -> subprocess.Popen[str]:
    """Run a program that may import penstock and the tests; its output is read by the test."""
    environment = {**os.environ, "PYTHONPATH": f"{HOME}{os.pathsep}{ROOT}"}
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], env=environment, text=True, stdout=subprocess.PIPE
    )


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


HOLD = """
import sys
from penstock.store import open_store
with open_store(sys.argv[1]):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_told_who_has_the_store(tmp_path: Path) -> None:
    url = f"file:{tmp_path}"
    environment = {**os.environ, "PYTHONPATH": str(HOME)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, url], env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert line_of(holder) == "open\n"
        with pytest.raises(StoreLocked) as caught:
            open_store(url)
        assert caught.value.pid == holder.pid
        assert str(holder.pid) in str(caught.value)
        holder.communicate()
    open_store(url).close()


def test_opening_twice_in_one_process_is_refused_too(home: Home) -> None:
    store = home.open()
    with pytest.raises(StoreLocked):
        home.open()
    store.close()
    home.open()


def test_a_start_that_failed_lets_go_of_the_lock(home: Home) -> None:
    home.open().close()
    good = home.directory.load("store.json") or b""
    home.directory.replace("store.json", b"{", durable=False)
    with pytest.raises(Exception, match=r"store\.json"):
        home.open()
    home.directory.replace("store.json", good, durable=False)
    home.open()


APPEND = """
import sys
from penstock.store import open_store
from tests.unit.store.homes import NOW, batch
store = open_store(sys.argv[1], flush=sys.argv[2])
if store.topic("t") is None:
    store.create_topic("t", 1, {"segment.bytes": "20000"})
log = store.log("t", 0)
while True:
    values = [b"%d" % (log.end_offset + number) for number in range(3)]
    appended = log.append(batch(values), now_ms=NOW)
    if log.sync_needed:
        log.flush()
    print(appended.last_offset, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("flush", ["os", "always"])
def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path, flush: str) -> None:
    acknowledged = -1
    for round_ in range(3):
        with spawn(APPEND, f"file:{tmp_path}", flush) as process:
            for _ in range(150 + 40 * round_):
                acknowledged = int(line_of(process))
            process.send_signal(signal.SIGKILL)
            assert process.stdout is not None
            for line in process.stdout:
                if line.endswith("\n"):
                    acknowledged = int(line)
        with open_store(f"file:{tmp_path}") as store:
            log = store.log("t", 0)
            assert log.end_offset > acknowledged
            # In order, no hole, and each record where its number says.
            assert read_records(log, max_bytes=50_000) == [(n, b"%d" % n) for n in range(log.end_offset)]


FILL = """
import resource, sys
from penstock.errors import WriteFailed
from penstock.store import open_store
from tests.unit.store.homes import NOW, batch, read_records
store = open_store(sys.argv[1])
store.create_topic("t", 1)
log = store.log("t", 0)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    for number in range(1000):
        log.append(batch([b"%d" % number * 50]), now_ms=NOW)
except WriteFailed as error:
    print(error.topic, error.partition, flush=True)
assert read_records(log)[-1][0] == number - 1
try:
    log.append(batch([bytes(400)]), now_ms=NOW)
except WriteFailed as error:
    print("again", flush=True)
log.append(batch([b"short"]), now_ms=NOW)
assert read_records(log)[-1] == (number, b"short")
print(number, log.size, flush=True)
"""


def test_a_full_disk_leaves_whole_batches_only(tmp_path: Path) -> None:
    with spawn(FILL, f"file:{tmp_path}") as process:
        assert line_of(process) == "t 0\n"
        assert line_of(process) == "again\n"
        number, size = map(int, line_of(process).split())
    assert process.returncode == 0
    assert 9_000 < size <= 10_000
    assert (tmp_path / "t-0" / "00000000000000000000.log").stat().st_size == size
    with open_store(f"file:{tmp_path}") as store:
        assert store.recovered == []
        assert store.log("t", 0).end_offset == number + 1


LIGHT = """
import sys
from penstock.store import open_store
with open_store("memory:") as store:
    store.create_topic("t", 1)
    store.log("t", 0).append(bytes.fromhex(sys.argv[1]), now_ms=0)
    assert store.log("t", 0).read(0, 1000).next_offset == 1
print(*[name for name in ("numpy", "pyarrow", "numba") if name in sys.modules])
"""


def test_storing_and_serving_batches_needs_no_numpy_and_no_arrow() -> None:
    with spawn(LIGHT, batch([b"x"]).hex()) as process:
        assert line_of(process) == "\n"
    assert process.returncode == 0
