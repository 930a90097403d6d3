"""How verbs end in a real process: Ctrl-C, a reader that leaves, an error, a usage error."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.cli.output import exit_code
from penstock.client import Admin, Producer
from penstock.errors import ConfigError, ConnectionLost, PenstockError, ServerError, StoreError, UsageError
from penstock.testing import Broker
from tests.interrupts import python_hears_ctrl_c
from tests.unit.cli.running import fill, penstock, records, refused

PATIENCE_S = 60
AS_G = b"reading t as group g: from its committed offsets, or else from the first record\n"


@contextmanager
def running(*words: object) -> Iterator[subprocess.Popen[bytes]]:
    """``penstock`` in a process of its own, with pipes, gone after the block."""
    command = [sys.executable, "-m", "penstock.cli", *map(str, words)]
    pipe = subprocess.PIPE
    with python_hears_ctrl_c(), subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError(""), 2),
        (UsageError(""), 2),
        (StoreError(""), 1),
        (ConnectionLost(""), 1),
        (ServerError("", code=1, name="X"), 1),
        (PenstockError(""), 1),
    ],
)
def test_two_is_your_fault_and_one_is_not(error: PenstockError, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_consumer_told_to_stop_has_committed_what_was_written(log: Broker, how: signal.Signals) -> None:
    log.create_topic("t")
    fill(log, "t", [b"1", b"2", b"3"])
    with running("consume", f"{log.address}/t", "-g", "g", "--from", "earliest") as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == [b"1\n", b"2\n", b"3\n"]
        process.send_signal(how)
        rest, told = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, rest, told) == (128 + how, b"", AS_G + b"3 records\n")
    with Admin(log.address) as admin:
        assert [place.offset for place in admin.committed("g").values()] == [3]
        assert admin.describe_group("g").state == "Empty"  # it left: nobody waits for its session to end


@pytest.mark.parametrize(
    ("words", "way"),
    [
        (("--from", "latest"), "--from earliest reads what is there"),
        (("-g", "g"), "a group with another name reads everything"),
        (("-g", "g", "--from", "latest"), "a group with another name reads everything, with --from earliest"),
    ],
)
def test_a_consumer_that_waits_at_the_end_says_so(log: Broker, words: tuple[str, ...], way: str) -> None:
    log.create_topic("t")
    fill(log, "t", [b"1"])
    penstock("consume", f"{log.address}/t", "-g", "g", "--until-end")
    with running("consume", f"{log.address}/t", *words) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert process.stderr.readline().startswith(b"reading t ")
        said = process.stderr.readline().decode()
        assert said.startswith("at the end of t, waiting for what comes next. ")
        assert said.endswith(f"{way}\n")
        fill(log, "t", [b"2"])
        assert process.stdout.readline() == b"2\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=PATIENCE_S) == (b"", b"1 records\n")


def test_ctrl_c_leaves_a_parquet_file_with_everything_that_is_committed(log: Broker, tmp_path: Path) -> None:
    log.create_topic("t")
    with Producer(log.address) as producer:
        producer.send_batch("t", pa.table({"value": pa.repeat(b"x", 70_000)}))
    file = tmp_path / "o.parquet"
    words = ("consume", f"{log.address}/t", "-g", "g", "--from", "earliest", "--format", "parquet", "--out", file)
    with running(*words) as process, Admin(log.address) as admin:
        while not file.exists() or file.stat().st_size <= len(b"PAR1"):  # until there is a first row group
            admin.groups()
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE_S)
        rows = parquet.read_table(file).num_rows
        assert rows >= 65_536
        assert (process.returncode, told) == (130, AS_G + b"%d records\n" % rows)
        assert [place.offset for place in admin.committed("g").values()] == [rows]


def test_a_reader_that_leaves_is_no_error_and_the_rest_is_not_committed(log: Broker) -> None:
    log.create_topic("t")
    with Producer(log.address) as producer:
        for _ in range(2_000):
            producer.send("t", b"x" * 1_000)
    words = ("consume", f"{log.address}/t", "-g", "g", "--from", "earliest", "-o", "max_poll_records=10")
    with running(*words) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"x" * 1_000 + b"\n"
        process.stdout.close()
        told = process.stderr.read()
        assert process.wait(PATIENCE_S) == 0
    assert told.endswith(b" records\n")
    with Admin(log.address) as admin:
        assert all(place.offset < 2_000 for place in admin.committed("g").values())


def test_what_is_typed_is_sent_at_once_and_ctrl_c_is_an_end(log: Broker) -> None:
    log.create_topic("t")
    with running("produce", f"{log.address}/t") as process:
        assert process.stdin is not None
        process.stdin.write(b"typed\n")
        process.stdin.flush()
        while not records(log, "t"):
            pass
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, told) == (130, b"1 records acknowledged\n")


def test_an_error_is_one_line_with_what_to_do() -> None:
    with running("topics", "list", "kafka://127.0.0.1:1", "-o", "api_timeout_ms=50") as process:
        printed, told = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, printed) == (1, b"")
    assert told.count(b"\n") == 1
    assert told.startswith(b"penstock: cannot connect")
    assert b"Is anything listening on 127.0.0.1:1?" in told


@pytest.mark.parametrize(
    "words", [("topics", "list"), ("tpics",), ("topics", "list", "kafka://h", "--colour"), ("consume",), ("topics",)]
)
def test_a_wrong_command_line_ends_with_two(words: tuple[str, ...]) -> None:
    assert penstock(*words).code == 2


def test_an_address_in_two_minds_is_refused() -> None:
    assert "has no scheme" in refused("topics", "list", "127.0.0.1:9092")
    assert "there is no protocol 'pigeon'" in refused("topics", "list", "pigeon://h:1")
    assert "is given twice" in refused("topics", "list", "kafka://h", "-o", "a=1", "-o", "a=2")
    assert "not of the form name=value" in refused("topics", "list", "kafka://h", "-o", "a")


def test_the_version_is_told() -> None:
    from penstock._version import __version__

    ran = penstock("--version")
    assert (ran.code, ran.stdout.decode().strip()) == (0, f"penstock {__version__}")
