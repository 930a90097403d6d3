"""Other processes, each of which may end between being found and being asked for anything, even for its name.

All walks over processes in tests go through here: whoever has ended meanwhile is left out, nothing is raised.
What must not live here: processes that a test started itself and has a handle of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

import psutil

__all__ = ["above", "answers", "below", "called_with", "end", "named"]

T = TypeVar("T")
Processes = Iterable[psutil.Process]


def below(root: psutil.Process) -> list[psutil.Process]:
    """What ``root`` has started, what that has started, and so on."""
    with suppress(psutil.NoSuchProcess):
        return list(root.children(recursive=True))
    return []


def above(process: psutil.Process) -> list[psutil.Process]:
    """Who has started it, who has started that one, and so on."""
    with suppress(psutil.NoSuchProcess):
        return list(process.parents())
    return []


def answers(processes: Processes, question: Callable[[psutil.Process], T]) -> Iterator[tuple[psutil.Process, T]]:
    """Those that are still there, each with its answer."""
    for each in processes:
        with suppress(psutil.NoSuchProcess):  # also raised for zombies, which have no command line any more
            yield each, question(each)


def named(processes: Processes, name: str) -> list[psutil.Process]:
    """Those of this program."""
    return [each for each, its_name in answers(processes, psutil.Process.name) if its_name == name]


def called_with(processes: Processes, text: str) -> list[psutil.Process]:
    """Those with this in a word of their command lines."""
    lines = answers(processes, psutil.Process.cmdline)
    return [each for each, words in lines if any(text in word for word in words)]


def end(root: psutil.Process) -> None:
    """SIGKILL, also for all below it."""
    for _ in answers([root, *below(root)], psutil.Process.kill):
        pass
