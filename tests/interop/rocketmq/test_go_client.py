"""Go's client (rocketmq-client-go 2.1.2) on a log of ours: it sends, and its consumer with tags gets what it wants."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from penstock.testing import Broker

pytestmark = [pytest.mark.interop, pytest.mark.long]

SOURCE = Path(__file__).parents[3] / "tools" / "peers" / "go" / "rocketmq"


@pytest.fixture(scope="module")
def go_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once; modules come through Go's own proxy."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("no go on the PATH to build rocketmq-client-go's program")
    built = tmp_path_factory.mktemp("go") / "client"
    line = [go, "build", "-mod=readonly", "-o", str(built), "."]
    subprocess.run(line, cwd=SOURCE, check=True, env={**os.environ, "GOTOOLCHAIN": "local"})
    return built


@pytest.mark.parametrize("tags", ["A", "A||C"])
def test_gos_consumer_with_tags_gets_its_messages(go_client: Path, tags: str) -> None:
    with Broker(listen="rocketmq://127.0.0.1:0") as node:
        node.create_topic("chosen", partitions=2)
        address = node.url("rocketmq").removeprefix("rocketmq://")
        line = [str(go_client), address, "chosen", "readers", tags]
        run = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    found = [row for row in run.stdout.splitlines() if row.startswith(("A ", "B ", "C "))]
    assert Counter(found) == {f"{tag} of {tag}": 2 for tag in tags.split("||")}
