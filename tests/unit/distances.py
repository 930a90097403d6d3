"""Fronts near their enode and far from it: every test of a folder that takes `distance` runs at once, and by each seed.

Far away time is virtual: it passes when nothing else is left to do, so that 50 ms of waiting cost none. By every second
seed calls are lost as well, requests and answers. Then a kit's clients do what their protocol tells them to: they send
the same request again, until it is answered by what no loss explains. So a test asserts the same as near; what is not
answered, answered by a code that is final, or acknowledged and not there, fails it. A test that is about something that
a loss rightly changes is marked ``lossless``, with the reason.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from math import prod
from typing import Any, TypeVar
from zlib import crc32

import pytest

from tests.late_enode import Plan, planned
from tests.unit.client.virtual_time import VirtualLoop

T = TypeVar("T")
SHORT = 6
"""So many of a test's runs far away are in every build, every second one with losses; the rest is marked ``long``."""
SEEDS = int(os.environ.get("PENSTOCK_FAR_SEEDS", "20"))
LOST = int(os.environ.get("PENSTOCK_FAR_LOST", "6"))
"""So many answers, and as many requests, of a hundred calls."""

_RUN = re.compile(r"(near|far\d+)-?")


class _Loop(VirtualLoop):
    """What would run in a thread runs at once: time would stand still meanwhile."""

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


def in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that use a kit run near and far; those that need real threads or sockets only near."""
    uses_kit = any(hasattr(metafunc.module, name) for name in ("run", "serving"))
    if not uses_kit or metafunc.definition.get_closest_marker("near") is not None:
        return
    cases = prod(len(marker.args[1]) for marker in metafunc.definition.iter_markers("parametrize"))
    runs, short = -(-SEEDS // cases), max(2, -(-SHORT // cases))
    far = [pytest.param(n + 1, id=f"far{n}", marks=() if n < short else pytest.mark.long) for n in range(runs)]
    metafunc.parametrize("distance", [pytest.param(0, id="near"), *far], indirect=True)


@pytest.fixture(autouse=True)
def distance(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """How far away the enode of a kit is: 0 near, else the number of the run."""
    run: int = getattr(request, "param", 0)
    if not run:
        yield run
        return
    # Each test meets every seed: one of a single case in twenty runs, one of many cases with another in each.
    draw = run + crc32(_RUN.sub("", request.node.name).encode())
    lost = LOST if draw % 2 and request.node.get_closest_marker("lossless") is None else 0
    plan = Plan(draw % SEEDS, lost_answers=lost, lost_requests=lost)
    print(f"the plan is {plan}")
    monkeypatch.setattr(asyncio, "run", in_virtual_time)
    with planned(plan):
        yield run
