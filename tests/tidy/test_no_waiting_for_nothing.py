"""Who waits by the clock for nothing to come is slow each time, and right only on a fast machine.

What shows it at once: something written afterwards comes first; or a position moves, and nothing was handed out.
In virtual time (`tests/unit/client/virtual_time.py`) waiting costs nothing: polls that are awaited do not count here.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.tree import ROOT, name, parsed, python_files

# File -> why it waits all the same.
ALLOWED: dict[str, str] = {
    "tests/interop/tubemq/test_member_alone.py": "a real server sends what was paused wrongly at a time of its own",
    "tests/unit/client/test_news.py": "a twentieth of a second: how a poll ends whose time is over is what it tests",
}


def waits(file: Path) -> Iterator[int]:
    """Lines that say ``not consumer.poll(SECONDS)``."""
    for node in ast.walk(parsed(file)):
        match node:
            case ast.UnaryOp(
                op=ast.Not(),
                operand=ast.Call(
                    func=ast.Attribute(attr="poll"), args=[ast.Constant(value=float() | int() as seconds)]
                ),
            ) if seconds > 0:
                yield node.lineno


def test_no_test_waits_by_the_clock_for_nothing_to_come() -> None:
    found = {
        f"{name(file)}:{line}"
        for file in python_files()
        if file.is_relative_to(ROOT / "tests") and name(file) not in ALLOWED
        for line in waits(file)
    }
    assert found == set()


def test_who_is_excused_does_wait() -> None:
    assert [each for each in ALLOWED if not list(waits(ROOT / each))] == []
