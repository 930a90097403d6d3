"""RocketMQ's own Java client: its pull consumer, a thread per queue; its producer with 2000 sends in flight.

It only counts messages and bytes. ``1024`` messages per response is the fastest, which the broker is configured to
allow; ``32`` is the default of its pull consumers and of brokers.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tools.peers import rocketmq_java

__all__ = ["CASES", "measure"]

CASES: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "Java pull, 1024 at once": ("pull", {"batch": 1_024}),
    "Java pull, 32 at once": ("pull", {"batch": 32}),
    "Java async send": ("send", {}),
    "Java sync send": ("sync", {}),
    "Java sync send, ten threads": ("sync", {"threads": 10}),
}
_TIMEOUT_S = 300.0


def measure(case: str, names: str, topic: str, *, count: int, warm: int, value_bytes: int) -> dict[str, object]:
    """Run one of ``CASES`` to its end. Raises RuntimeError."""
    kind, more = CASES[case]
    options = {"names": names, "topic": topic, "count": count, "warm": warm, "kind": kind, "size": value_bytes}
    words = [word for name, value in {**options, **more}.items() for word in (f"--{name}", str(value))]
    with tempfile.TemporaryDirectory(prefix="rocketmq-speed-", ignore_cleanup_errors=True) as folder:
        home = rocketmq_java.furnished(Path(folder))
        line = rocketmq_java.command("Speed", words, home=home, heap="1g", quick=False)
        try:
            run = subprocess.run(line, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"the Java client has not ended after {_TIMEOUT_S:.0f} s") from None
    told = [json.loads(text) for text in run.stdout.splitlines()]
    figures = [each for each in told if each["event"] == "measured"]
    if run.returncode or not figures or figures[0]["failed"]:
        raise RuntimeError(f"the Java client failed: {told[-3:]} {run.stderr[-800:]}")
    found: dict[str, object] = figures[0]
    return found
