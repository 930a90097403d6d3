"""Clients under a clock that a test has stopped or moved, as freezegun and time-machine do: they go on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from penstock.testing import Broker
from tests.loops import LOOPS

CLIENT = """
import faulthandler, sys, time
faulthandler.dump_traceback_later(60, exit=True)
import penstock
address, how, when = sys.argv[1:]


def patch():
    real = {name: getattr(time, name) for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter")}
    moved_s = {"stopped": 0, "an hour ago": -3600, "in an hour": 3600}[how]
    began = {name: clock() for name, clock in real.items()}

    def patched(name):
        unit = 1_000_000_000 if name.endswith("_ns") else 1
        return lambda: (began[name] if how == "stopped" else real[name]()) + moved_s * unit

    instead = {id(clock): patched(name) for name, clock in real.items()}
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if id(value) in instead and module.__name__ not in {"threading", "queue", "__main__"}:
                setattr(module, name, instead[id(value)])


def work(producer, consumer, admin):
    producer.send("t", b"1").result()
    producer.send("t", b"2").result(20)
    producer.flush(20)
    rows = 0
    while rows < 2:
        rows += len(consumer.poll(0.5))
    assert not consumer.poll(0.05)
    consumer.commit()
    assert list(admin.end_offsets([penstock.Partition("t", 0)]).values()) == [2]
    with penstock.RangeReader(address) as reader:
        assert sum(len(batch) for batch in reader.read(penstock.LogRange("t", 0, 0, 2))) == 2
    for each in (consumer, producer, admin):
        each.close()


def clients():
    consumer = penstock.Consumer(f"{address}/t", group="g")
    return penstock.Producer(address, linger_ms=20), consumer, penstock.Admin(address)


if when == "made before":
    made = clients()
    made[1].poll(0.1)
    patch()
else:
    patch()
    made = clients()
work(*made)
print("done")
"""


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("when", ["made before", "made then"])
@pytest.mark.parametrize("how", ["stopped", "an hour ago", "in an hour"])
def test_clients_go_on(how: str, when: str, loop: str) -> None:
    with Broker() as broker:
        broker.create_topic("t")
        ran = subprocess.run(
            [sys.executable, "-c", CLIENT, broker.address, how, when], env={**os.environ, "PENSTOCK_EVENT_LOOP": loop},
            capture_output=True, text=True, check=False, timeout=90,
        )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr
