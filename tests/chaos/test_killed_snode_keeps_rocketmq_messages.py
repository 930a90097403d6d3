"""SIGKILL of a Snode, or of the broker behind it: what was acknowledged is there, and is read."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from penstock.client import Consumer
from penstock.testing import NodeProcess
from tests.chaos.plain_sockets import MESSAGES, WITHIN_S, Killable, free_port, killed_under_producers
from tests.chaos.snode_process import SnodeProcess
from tests.chaos.test_killed_node_keeps_rocketmq_messages import SPOKEN

SEEDS = int(os.environ.get("PENSTOCK_KILLS", "2"))
ALL = {b"%d" % number for number in range(MESSAGES)}


class Reader:
    """A member of a group that reads everything there is."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.seen: set[bytes] = set()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with Consumer(self._address, group="readers", auto_offset_reset="earliest") as consumer:
            while self.seen != ALL:
                for batch in consumer:
                    self.seen |= {record.value or b"" for record in batch}
                    break


@pytest.mark.parametrize("which", ["snode", "broker"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_acknowledged_is_lost_and_all_of_it_is_read(tmp_path: Path, seed: int, which: str) -> None:
    broker, port = free_port(), free_port()
    listen = f"rocketmq://127.0.0.1:{port}"
    with (
        NodeProcess(tmp_path / "store", arguments=("--listen", f"rocketmq://127.0.0.1:{broker}")) as node,
        SnodeProcess(f"rocketmq://127.0.0.1:{broker}", listen) as snode,
    ):
        killed: Killable = snode if which == "snode" else node
        reader = Reader(f"{listen}/t")
        reader.thread.start()
        killed_under_producers(node, port, SPOKEN, seed, killed=killed)
        reader.thread.join(WITHIN_S)
    assert reader.seen == ALL
