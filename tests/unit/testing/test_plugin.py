"""The plugin is in every pytest of every project that has penstock installed: it costs nothing until it is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import penstock.testing

FREE = {"penstock", "penstock._version", "penstock.testing", "penstock.testing.plugin"}


def modules_after(statement: str) -> set[str]:
    code = f"import pytest, sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_loading_it_imports_nothing() -> None:
    loaded = modules_after("import penstock.testing.plugin")
    assert {name for name in loaded if name.startswith("penstock")} == FREE
    others = {name.partition(".")[0] for name in loaded} - {"penstock"}
    assert others <= sys.stdlib_module_names - {"asyncio", "concurrent", "ssl", "subprocess"}


def test_the_entry_point_names_it() -> None:
    from importlib.metadata import entry_points

    (found,) = entry_points(group="pytest11", name="penstock")
    assert found.value == "penstock.testing.plugin"


TEST = """
import sys
def test_a_record_comes_back(broker):
    from penstock.client import Consumer, Producer
    broker.create_topic("t")
    with Producer(broker.address) as producer:
        producer.send("t", b"1")
    with Consumer(f"{broker.address}/t") as consumer:
        assert [record.value for record in consumer.poll(30)] == [b"1"]
def test_another_one_starts_from_nothing(broker):
    from penstock.client import Admin
    with Admin(broker.address) as admin:
        assert admin.topics() == {}
"""


def test_a_test_of_another_project_gets_a_broker(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert "2 passed" in run.stdout


def test_names_of_the_package_are_there_and_no_others() -> None:
    for name in penstock.testing.__all__:
        found = getattr(penstock.testing, name)
        assert found is penstock.testing.broker.Moment if name == "Moment" else found.__name__ == name
    with pytest.raises(AttributeError, match="Broken"):
        _ = penstock.testing.Broken
