"""`import penstock` is on the path of every command and every Spark worker: it must not load what it does not need."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.client import Producer
from penstock.testing import Broker

COLUMNS = {"cramjam", "google_crc32c", "llvmlite", "numba", "numpy", "pandas", "pyarrow", "pyspark"}
HEAVY = COLUMNS | {"asyncio", "argparse", "concurrent", "ssl", "unittest"}


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import penstock",
        "import penstock; penstock.Partition",
        "import penstock.config",
        "import penstock.errors",
        "import penstock.model",
    ],
)
def test_no_heavy_module_is_loaded(statement: str) -> None:
    assert modules_after(statement) & HEAVY == set()


NOT_FOR_READING = {
    "csv", "difflib", "email", "hashlib", "numba", "numpy", "pyarrow", "tempfile", "tomllib", "zipfile",
    "penstock.client.producer.delivery", "penstock.records.encoding", "penstock.config.snode",
    "penstock.protocols.kafka.connector_options", "penstock.protocols.kafka.wire.offsets",
    "penstock.protocols.kafka.wire.groups", "penstock.interfaces.admin", "penstock.interfaces.enode",
    "penstock.interfaces.node",
}  # fmt: skip
"""What a consumer without a group does without, and a fresh process need not wait for."""


def test_a_consumer_loads_what_it_reads_with_and_no_more() -> None:
    prepared = "from penstock.client.runtime.imports import load; from penstock.protocols import protocol"
    code = (
        f"import penstock, sys; penstock.Consumer; {prepared}; load(protocol('kafka'), 'consumer'); print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "penstock.protocols.kafka.client.reader" in loaded
    assert loaded & NOT_FOR_READING == set()


def test_a_command_line_that_shows_its_help_loads_no_columns() -> None:
    assert modules_after("import penstock.cli") & COLUMNS == set()


def test_a_lazy_name_is_the_object_of_its_home() -> None:
    assert penstock.Partition is importlib.import_module("penstock.model").Partition
    assert penstock.ServerError is importlib.import_module("penstock.errors").ServerError


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Produser"):
        _ = penstock.Produser  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "package", ["penstock", "penstock.client", "penstock.records", "penstock.config", "penstock.interfaces"]
)
def test_what_a_type_checker_sees_is_what_runs(package: str) -> None:
    module = importlib.import_module(package)
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    seen = {
        (statement.module, alias.asname)
        for block in blocks
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    homes = {
        (home if home.startswith("penstock.") else f"{package}.{home}", name) for name, home in module._HOME_OF.items()
    }
    assert seen == homes


READ = """
import sys
from penstock import Consumer
found = []
with Consumer(sys.argv[1] + "/topic", auto_offset_reset="earliest") as consumer:
    while len(found) < 10:
        found += [(message.offset, message.value) for message in consumer.poll(20)]
    print(len(found), sorted({"numpy", "pyarrow"} & set(sys.modules)))
"""


def test_a_handful_of_records_is_read_without_arrow_and_numpy() -> None:
    with Broker() as broker:
        broker.create_topic("topic", partitions=1)
        with Producer(broker.address) as producer:
            for n in range(10):
                producer.send("topic", b"%d" % n)
        run = subprocess.run([sys.executable, "-c", READ, broker.address], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "10 []"
