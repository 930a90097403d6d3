"""TubeMQ's own Java client at its best: local confirmation, four threads, waits of a millisecond; 2000 sends in flight.

These settings were the fastest of all that were tried. It only counts messages and bytes.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping

from tools.peers import tubemq_java

__all__ = ["CASES", "measure"]

CASES: Mapping[str, str] = {
    "Java pull (server-balanced)": "pull",
    "Java balance (client-balanced)": "balance",
    "Java async send": "send",
}
_TIMEOUT_S = 300.0


def measure(kind: str, masters: str, topic: str, *, count: int, warm: int, value_bytes: int) -> dict[str, object]:
    """Run one of ``CASES``' values to its end. Raises RuntimeError."""
    options = {"masters": masters, "topic": topic, "count": count, "warm": warm, "kind": kind, "size": value_bytes}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    line = tubemq_java.command("Speed", words, heap="1g", quick=False, flags=["-Dpeer.level=error"])
    run = subprocess.run(line, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    told = [json.loads(text) for text in run.stdout.splitlines()]
    figures = [each for each in told if each["event"] == "measured"]
    if run.returncode or not figures or figures[0]["failed"]:
        raise RuntimeError(f"the Java client failed: {told[-3:]} {run.stderr[-800:]}")
    found: dict[str, object] = figures[0]
    return found
