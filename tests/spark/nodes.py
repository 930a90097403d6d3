"""A service node in a thread of the test's own process."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from threading import Thread

from penstock.snode import Node


class NodeThread:
    """Runs a node over ``store`` from ``start`` to ``stop``; the port stays the same when it is started again."""

    def __init__(self, store: str = "memory:") -> None:
        self._store = store
        self.url = "kafka://127.0.0.1:0"

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        ready = Future[str]()
        self._thread = Thread(target=lambda: self._loop.run_until_complete(self._serve(ready)), name="node")
        self._thread.start()
        self.url = ready.result(30)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self, ready: Future[str]) -> None:
        try:
            async with Node(store=self._store, listen=(self.url,)) as node:
                ready.set_result(node.url("kafka"))
                await self._stop.wait()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)
