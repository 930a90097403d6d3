"""What a verb does not need, it does not import: each of these costs more than the work of a short command."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from penstock.testing import Broker
from tests.unit.cli.running import fill

HEAVY = frozenset({"numba", "pandas", "polars", "pyspark", "pyarrow.compute", "pyarrow.dataset"})
COLUMNS = frozenset({"numpy", "pyarrow"})

SCRIPT = """
import json, sys
from penstock.cli import main
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def imported(*words: str, given: bytes = b"") -> set[str]:
    """The modules of a process after it ran a command line."""
    ended = subprocess.run([sys.executable, "-c", SCRIPT, *words], input=given, capture_output=True, check=False)
    said = ended.stderr.decode().splitlines()
    assert ended.returncode == 0, said
    return set(json.loads(said[-1]))


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["topics", "--help"], ["consume", "--help"]])
def test_help_needs_no_columns(words: list[str]) -> None:
    assert not imported(*words) & (HEAVY | COLUMNS)


@pytest.mark.parametrize("words", [["topics", "list"], ["groups", "list"]])
def test_administration_needs_no_columns(words: list[str], log: Broker) -> None:
    assert not imported(*words, log.address) & (HEAVY | COLUMNS)


@pytest.mark.parametrize("options", [[], ["--key-separator", ":"], ["--format", "json"]])
def test_a_few_lines_go_in_without_what_many_need(options: list[str], log: Broker) -> None:
    log.create_topic("topic", partitions=2)
    lines = b'{"key": ":a", "value": "b"}\n' * 3
    assert not imported("produce", f"{log.address}/topic", *options, given=lines) & HEAVY


@pytest.mark.parametrize("options", [[], ["--key-separator", ":"]])
def test_a_few_lines_come_out_without_what_many_need(options: list[str], log: Broker) -> None:
    log.create_topic("topic")
    fill(log, "topic", [b"a", b"b"])
    assert not imported("consume", f"{log.address}/topic", "--from", "earliest", "--max", "1", *options) & HEAVY


DECLARED = "penstock.protocols.kafka.wire."
NODES_ONLY = frozenset({"cluster", "configs"})


@pytest.mark.parametrize(
    ("words", "foreign"),
    [
        (["topics", "list"], {"fetch", "groups", "produce"}),
        (["produce"], {"coordinator_admin", "fetch", "groups", "topics"}),
        (
            ["consume", "--from", "earliest", "--max", "1"],
            {"coordinator_admin", "groups", "offsets", "produce", "topics"},
        ),
    ],
)
def test_a_verb_declares_no_messages_that_it_never_sends(words: list[str], foreign: set[str], log: Broker) -> None:
    log.create_topic("topic")
    fill(log, "topic", [b"a"])
    where = log.address if words[0] == "topics" else f"{log.address}/topic"
    found = imported(*words, where, given=b"b\n")
    assert f"{DECLARED}metadata" in found
    assert not {name for name in foreign | NODES_ONLY if DECLARED + name in found}
