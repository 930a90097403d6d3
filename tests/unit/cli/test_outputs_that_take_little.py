"""Outputs that take less than they are given: what is committed is what came out whole, and nothing is dropped."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.cli.consume import Reading, open_sink
from penstock.cli.output import Output, StopRequests
from penstock.client import Admin, Consumer, Producer
from penstock.errors import UsageError
from penstock.interfaces import NewTopic
from penstock.testing import Broker
from tests.interrupts import python_hears_ctrl_c
from tests.unit.cli.running import fill, penstock

PATIENCE_S = 60
ROWS = 60_000
WIDTH = 9
"""Bytes of a line with its line feed."""


@pytest.fixture
def full(log: Broker) -> Broker:
    log.create_topic("t")
    with Producer(log.address) as producer:
        producer.send_batch("t", pa.table({"value": [b"%08d" % number for number in range(ROWS)]}))
    return log


def committed(log: Broker) -> int:
    with Admin(log.address) as admin:
        return sum(place.offset for place in admin.committed("g").values())


@contextmanager
def consuming(log: Broker, output: int, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A consumer whose standard output is a raw descriptor, as in containers."""
    command = [sys.executable, "-m", "penstock.cli", "consume", f"{log.address}/t", "-g", "g", *words]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with (
        python_hears_ctrl_c(),
        subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, env=environment) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def until_full(reader: int, writer: int) -> None:
    """Until the other side of a pipe waits for room."""
    size, was = fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ), -1
    while was < size - 2 * os.sysconf("SC_PAGE_SIZE"):
        was = int.from_bytes(fcntl.ioctl(reader, 0x541B, bytes(4)), sys.byteorder)  # FIONREAD
        os.sched_yield()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_while_the_pipe_is_full_commits_the_lines_that_came_out(full: Broker, how: signal.Signals) -> None:
    reader, writer = os.pipe()
    with consuming(full, writer) as process, os.fdopen(reader, "rb") as lines:
        until_full(reader, writer)
        os.close(writer)
        process.send_signal(how)
        came = lines.read()
        assert process.wait(PATIENCE_S) == 128 + how
    assert 0 < len(came) < ROWS * WIDTH
    assert len(came) % WIDTH == 0  # no half line
    assert committed(full) == len(came) // WIDTH


def test_a_pipe_that_does_not_block_gets_everything(full: Broker) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with consuming(full, writer, "--until-end") as process, os.fdopen(reader, "rb") as lines:
        os.close(writer)
        came = lines.read()
        assert process.wait(PATIENCE_S) == 0
    assert came == b"".join(b"%08d\n" % number for number in range(ROWS))
    assert committed(full) == ROWS


def test_a_disk_that_gets_full_is_an_error_and_whole_lines_are_committed(full: Broker, tmp_path: Path) -> None:
    most = 100_003
    with (
        (tmp_path / "lines").open("wb") as file,
        consuming(full, file.fileno(), "--until-end") as process,
    ):
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, most))  # long before it writes
        _, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert told.endswith(b"penstock: [Errno 27] File too large\n")
    assert (tmp_path / "lines").stat().st_size == most
    assert committed(full) == most // WIDTH


def test_an_automatic_commit_takes_nothing_that_was_not_written(full: Broker) -> None:
    ran = penstock("consume", f"{full.address}/t", "-g", "g", "--max", 5, "-o", "enable.auto.commit=true")
    assert ran.stdout.count(b"\n") == 5
    assert committed(full) == 5


def test_a_parquet_file_that_is_whole_is_committed_though_reading_failed(full: Broker, tmp_path: Path) -> None:
    file = tmp_path / "o.parquet"
    with Consumer(f"{full.address}/t", group="g", auto_offset_reset="earliest") as consumer, StopRequests() as stop:
        reading = Reading(consumer, commits=True)
        with (  # noqa: PT012
            pytest.raises(UsageError, match="out of luck"),
            reading.committed_at_end(),
            open_sink("parquet", file, "") as sink,
        ):
            reading.run(sink, stop, limit=10)
            raise UsageError("out of luck")
    assert parquet.read_table(file).num_rows == 10
    assert committed(full) == 10


def test_a_parquet_file_without_its_footer_is_not_committed(full: Broker) -> None:
    words = ("--format", "parquet", "--out", "/dev/full", "--max", 10)
    ran = penstock("consume", f"{full.address}/t", "-g", "g", *words)
    assert ran.code == 1
    assert "No space left" in ran.stderr
    assert committed(full) == 0


def test_output_waits_for_a_pipe_that_does_not_block() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    data = os.urandom(1 << 20)
    came: list[bytes] = []
    with os.fdopen(reader, "rb") as source:
        thread = threading.Thread(target=lambda: came.append(source.read()))
        thread.start()
        with os.fdopen(writer, "wb", buffering=0) as raw:
            output = Output(raw)
            assert output.write(data)
        thread.join()
    assert came == [data]
    assert output.taken == len(data)


def test_a_long_list_is_whole_in_a_pipe_that_does_not_block(log: Broker) -> None:
    names = [f"{'topic' * 39}-{number:03d}" for number in range(400)]
    with Admin(log.address) as admin:
        admin.create_topics([NewTopic(name) for name in names])
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    command = [sys.executable, "-m", "penstock.cli", "topics", "list", log.address]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=writer, env=environment) as process, os.fdopen(reader, "rb") as lines:
        os.close(writer)
        came = lines.read()
        assert process.wait(PATIENCE_S) == 0
    assert [line.split(b"\t")[0].decode() for line in came.splitlines()] == names


def test_offsets_that_were_reset_are_said_to_be_though_the_output_is_full(log: Broker) -> None:
    log.create_topic("t")
    fill(log, "t", [b"1", b"2"])
    words = ("groups", "reset-offsets", log.address, "g", "--topic", "t", "--to-latest", "--execute", "--export")
    with Path("/dev/full").open("wb") as full_disk:
        command = [sys.executable, "-m", "penstock.cli", *words]
        ran = subprocess.run(command, stdout=full_disk, stderr=subprocess.PIPE, timeout=PATIENCE_S, check=False)
    assert ran.returncode == 1
    assert ran.stderr.decode().splitlines() == [
        "the offsets were reset; only this output is incomplete",
        "penstock: [Errno 28] No space left on device",
    ]
    assert committed(log) == 2
