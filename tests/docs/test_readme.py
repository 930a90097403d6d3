"""The README's first example, run as it is printed, on a fresh node."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from penstock.testing import Broker
from tests.docs.test_examples import blocks

README = Path(__file__).parents[2] / "README.md"


def test_the_first_example_of_the_readme(broker: Broker) -> None:
    _, code, line = blocks(README, "python")[0]
    assert "127.0.0.1:9092" in code
    here = "\n" * (line - 1) + code.replace("127.0.0.1:9092", broker.bootstrap)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(here, str(README), "exec"), {})
    assert printed.getvalue().split() == ["0", "b'AA1'", "b'{}'", "1", "b'UA2'", "b'{}'", "2", "b'DL3'", "b'{}'", "3"]
