"""While records flow, no thread that runs an event loop imports or compiles anything: heartbeats would wait for it."""

from __future__ import annotations

import json
import subprocess
import sys
from subprocess import PIPE

import pytest

from penstock.client import Admin, Producer
from penstock.interfaces import NewTopic

SPY = """
import asyncio, json, sys, threading

class Spy:
    seen, compiled = [], []
    def find_spec(self, name, path=None, target=None):
        if asyncio._get_running_loop() is not None:
            self.seen.append((threading.current_thread().name, name))
        if name == "numba":
            self.compiled.append(threading.current_thread().name)

import penstock
from penstock.kernels import choose
from penstock.testing import Broker
choose._WARM_UP_BYTES = 10_000
"""

ROWS = """
names = [getattr(penstock, name) for name in ("AsyncConsumer", "AsyncProducer", "Consumer", "Producer")]
import pyarrow as pa
rows = pa.table({"key": [b"%d" % n for n in range(8, 16)] * 1_000, "value": [b"x" * 1_000] * 8_000})
"""

TELL = """
for thread in threading.enumerate():
    if thread.name == "penstock load":
        thread.join()
print(json.dumps({"seen": Spy.seen, "compiled": Spy.compiled}))
"""

SYNCHRONOUS = """
with Broker(listen=["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]) as broker:
    broker.create_topic("topic", partitions=2)
    producer = penstock.Producer(broker.url(SCHEME), **OPTIONS)
    sys.meta_path.insert(0, Spy())
    producer.send("topic", b"x", key=b"k", headers={"a": b"b"}).result(20)
    for n in range(500):
        producer.send("topic", b"x", key=b"%d" % n)
    producer.flush()
    producer.send_batch("topic", rows).result(60)
    producer.close()
    found = 0
    address = broker.url(SCHEME) + "/topic"
    with penstock.Consumer(address, group="group", auto_offset_reset="earliest", **READER) as consumer:
        while found < 8_000:
            found += len(consumer.poll(20))
            consumer.commit()
"""

ASYNCHRONOUS = """
async def main(broker):
    producer = penstock.AsyncProducer(broker.url(SCHEME), **OPTIONS)
    sys.meta_path.insert(0, Spy())
    await (await producer.send("topic", b"x", key=b"k", headers={"a": b"b"}))
    for n in range(500):
        await producer.send("topic", b"x", key=b"%d" % n)
    await producer.flush()
    await (await producer.send_batch("topic", rows))
    await producer.close()
    found = 0
    address = broker.url(SCHEME) + "/topic"
    async with penstock.AsyncConsumer(address, group="group", auto_offset_reset="earliest", **READER) as consumer:
        while found < 8_000:
            found += len(await consumer.poll(20))
            await consumer.commit()

with Broker(listen=["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]) as broker:
    broker.create_topic("topic", partitions=2)
    asyncio.run(main(broker))
"""


def seen(
    script: str, scheme: str, options: dict[str, object], reader: dict[str, object]
) -> tuple[list[tuple[str, str]], list[str]]:
    """What was looked for on loops, as (thread, module); and in which threads the compiled kernel came in."""
    settings = f"SCHEME, OPTIONS, READER = {scheme!r}, {options!r}, {reader!r}\n"
    code = SPY + ROWS + settings + script + TELL
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    return [(thread, name) for thread, name in told["seen"]], told["compiled"]


@pytest.mark.parametrize(
    ("script", "scheme", "options", "reader"),
    [
        (SYNCHRONOUS, "kafka", {"compression": "lz4"}, {}),
        (ASYNCHRONOUS, "kafka", {}, {}),
        (ASYNCHRONOUS, "kafka", {}, {"group_protocol": "consumer"}),
        (ASYNCHRONOUS, "tubemq", {}, {}),
    ],
    ids=["synchronous", "asynchronous", "newer group", "tubemq"],
)
def test_clients(script: str, scheme: str, options: dict[str, object], reader: dict[str, object]) -> None:
    found, compiled = seen(script, scheme, options, reader)
    assert [name for thread, name in found if thread in ("penstock", "MainThread")] == []
    assert set(compiled) == {"penstock load"}, "nobody who sends or polls waits for it"


NODE = """
with Broker() as broker:
    sys.meta_path.insert(0, Spy())
    print(broker.address, flush=True)
    sys.stdin.readline()
"""


def test_a_node() -> None:
    with subprocess.Popen([sys.executable, "-c", SPY + NODE + TELL], stdin=PIPE, stdout=PIPE, text=True) as node:
        assert node.stdin is not None
        assert node.stdout is not None
        address = node.stdout.readline().strip()
        with Admin(address) as admin:
            admin.create_topics([NewTopic("topic", 1)])
        with Producer(address, compression="zstd") as producer:
            producer.send("topic", b"x" * 1_000).result(20)
        node.stdin.close()
        found = {name.partition(".")[0] for _, name in json.loads(node.stdout.read())["seen"]}
    assert found & {"cramjam", "llvmlite", "numba", "numpy", "pandas", "pyarrow"} == set()
