"""``pip install penstock`` without any extra: clients, node and the testing kit run, and what is missing says so."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.environments import ROOT, fill

WORK = """
import sys
from pathlib import Path
import penstock
import pyarrow
from penstock import kernels
from penstock.testing import Broker, NodeProcess

with Broker() as broker:
    broker.create_topic("t", partitions=2)
    with penstock.Admin(broker.address) as admin:
        assert len(admin.topics()["t"].partitions) == 2
    with penstock.Producer(broker.address, compression="zstd") as producer:
        producer.send("t", b"one", key=b"k", headers={"h": b"v"}, partition=0).result()
        rows = {"value": [b"%d" % n for n in range(1000)], "partition": pyarrow.array([1] * 1000, pyarrow.int32())}
        producer.send_batch("t", pyarrow.table(rows))
    with penstock.Consumer(f"{broker.address}/t", group="g", auto_offset_reset="earliest") as consumer:
        seen = 0
        while seen < 1001:
            batch = consumer.poll(timeout_s=30)
            seen += len(batch)
        consumer.commit()
    with penstock.RangeReader(broker.address) as reader:
        ends = [reader.read(penstock.LogRange("t", p, start=0, end=1)) for p in (0, 1)]
        assert sum(len(batch) for read in ends for batch in read) == 2
with NodeProcess(Path(sys.argv[1])) as node:
    with penstock.Producer(node.address) as producer:
        producer.send("t", b"one").result()
print(seen, kernels.name(), *sorted({"numba", "google.protobuf", "pandas"} & set(sys.modules)))
"""
TUBEMQ = """
import penstock
for make in (penstock.Producer, penstock.RangeReader, penstock.Admin):
    try:
        with make("tubemq://127.0.0.1:1", api_timeout_ms=50) as made:
            made.topics(["t"]) if make is not penstock.Producer else made.send("t", b"")
    except penstock.MissingExtra as error:
        assert isinstance(error, ImportError)
        print(error)
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended, and what it said."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Small:
    """The environment."""

    python: Path

    def run(self, *words: str, **environment: str) -> Ran:
        """Its Python with these arguments, and no other environment's packages."""
        ran = subprocess.run(
            [self.python, "-W", "error", *words],
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.python.parents[1]), **environment},
            input="", capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        return Ran(ran.returncode, ran.stdout, ran.stderr)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    made = tmp_path_factory.mktemp("small") / "environment"
    packages = fill(made)
    (packages / "penstock.pth").write_text(f"{ROOT / 'src'}\n")
    return Small(made / "bin" / "python")


def test_clients_node_and_testing_kit_need_no_extra(small: Small, tmp_path: Path) -> None:
    ran = small.run("-c", WORK, str(tmp_path))
    assert (ran.code, ran.stdout.split()) == (0, ["1001", "pure"]), ran.stderr


def test_tubemq_says_what_it_needs(small: Small) -> None:
    ran = small.run("-c", TUBEMQ)
    said = "TubeMQ's protocol needs protobuf: pip install 'penstock[tubemq]'"
    assert (ran.code, ran.stdout.splitlines()) == (0, [said] * 3), ran.stderr


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            "penstock.spark.session()",
            "penstock.spark.session() needs pandas and pyspark: pip install 'penstock[spark]'",
        ),
        (
            "penstock.spark.StreamListener",
            "penstock.spark.StreamListener needs pandas and pyspark: pip install 'penstock[spark]'",
        ),
    ],
)
def test_spark_says_what_it_needs(small: Small, program: str, said: str) -> None:
    ran = small.run("-c", f"import penstock.spark\n{program}")
    assert ran.stderr.splitlines()[-1] == f"penstock.errors.MissingExtra: {said}"


def test_a_kernel_that_is_forced_says_what_it_needs(small: Small) -> None:
    ran = small.run("-c", "from penstock import kernels\nkernels.name()", PENSTOCK_KERNEL="numba")
    assert ran.stderr.splitlines()[-1].endswith("PENSTOCK_KERNEL=numba needs numba: pip install 'penstock[fast]'")


def test_verbs_need_no_extra(small: Small) -> None:
    for words in ((), ("topics",), ("tpics",)):
        ran = small.run("-m", "penstock.cli", *words)
        assert (ran.code, ran.stdout, ran.stderr[:15]) == (2, "", "usage: penstock")
    ran = small.run("-m", "penstock.cli", "topics", "list", "kafka://127.0.0.1:1", "-o", "api_timeout_ms=50")
    assert (ran.code, ran.stdout, ran.stderr.startswith("penstock: cannot connect")) == (1, "", True)


def test_a_node_starts_from_the_command_line(small: Small) -> None:
    listen = ("--listen", "kafka://127.0.0.1:0", "--until-stdin-closes")
    ran = small.run("-m", "penstock.cli", "snode", "--store", "memory:", *listen)
    assert (ran.code, ran.stdout.startswith("penstock snode ready: ")) == (0, True), ran.stderr
    ran = small.run("-m", "penstock.cli", "snode", "--store", "memory:", "--listen", "tubemq://127.0.0.1:0")
    assert (ran.code, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert "pip install 'penstock[tubemq]'" in ran.stderr


def test_the_doctor_tells_what_is_missing_and_what_it_would_bring(small: Small) -> None:
    ran = small.run("-m", "penstock.cli", "doctor")
    found = {row[0]: row[1:] for row in (line.split("\t") for line in ran.stdout.splitlines())}
    assert ran.code == 0, ran.stderr
    assert found["kernel"][0] == "slow"
    assert "penstock[fast]" in found["kernel"][1]
    for extra in ("tubemq", "demo"):
        assert found[f"extra {extra}"][0] == "absent"
        assert found[f"extra {extra}"][1].endswith(f": pip install 'penstock[{extra}]'")
