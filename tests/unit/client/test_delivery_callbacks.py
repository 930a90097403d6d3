"""A callback of a delivery is called exactly once, also where the result comes while it is being registered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.client.producer.delivery import BatchDelivery, BatchFuture, Delivery
from penstock.errors import ConnectionLost


class ComesMeanwhile(BatchFuture):
    """Its end comes on the loop's side just before, or just after, the waiter that looked first is registered."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, before: bool) -> None:
        super().__init__(loop)
        self.before = before

    def on_change(self, waiter: Callable[[], None]) -> None:
        if self.before:
            self.fail(ConnectionLost("gone"))
        super().on_change(waiter)
        if not self.before:
            self.fail(ConnectionLost("gone"))


@pytest.mark.parametrize("before", [True, False])
def test_a_result_that_comes_meanwhile_is_told_once(before: bool) -> None:
    loop = asyncio.new_event_loop()
    told: list[object] = []
    try:
        for kind in (lambda each: Delivery.of(each, 0, -1), lambda each: BatchDelivery([each])):
            outcome = ComesMeanwhile(loop, before=before)
            kind(outcome).add_done_callback(told.append)
            assert len(told) == 1, "told never"
            outcome.changed()
            assert len(told) == 1, "told twice"
            told.clear()
    finally:
        loop.close()
