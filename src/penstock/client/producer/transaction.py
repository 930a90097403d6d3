"""``with producer.transaction():`` and its ``async with`` twin: begin, then commit, or abort if the block raises."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from penstock.client.runtime.closing import tell_beside
from penstock.errors import PenstockError

__all__ = ["AsyncTransaction", "Transaction"]


class _Transactional(Protocol):
    def _begin(self) -> None: ...
    def commit_transaction(self) -> None: ...
    def _give_up(self) -> None: ...


class _AsyncTransactional(Protocol):
    async def _begin(self) -> None: ...
    async def commit_transaction(self) -> None: ...
    async def _give_up(self) -> None: ...


class Transaction:
    """One transaction of a producer, for the duration of the block.

    If the block raises, or the commit fails for good, the transaction is aborted and the error continues. An abort that
    takes longer than ``close_on_error_timeout_ms`` is left to the next transaction or ``close``. If the commit's
    outcome is unknown (RequestTimeout, ConnectionLost), you decide: call ``commit_transaction()`` again, or close the
    producer.
    """

    def __init__(self, producer: _Transactional) -> None:
        self._producer = producer

    def __enter__(self) -> None:
        self._producer._begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._abort(error)
            return
        try:
            self._producer.commit_transaction()
        except PenstockError as failure:
            if not failure.retriable:
                self._abort(failure)
            raise

    def _abort(self, why: BaseException) -> None:
        try:
            self._producer._give_up()
        except PenstockError as failure:
            _tell(why, failure)


class AsyncTransaction:
    """One transaction of a producer, for the duration of the block.

    If the block raises, or the commit fails for good, the transaction is aborted and the error continues. An abort that
    takes longer than ``close_on_error_timeout_ms`` is left to the next transaction or ``close``. If the commit's
    outcome is unknown (RequestTimeout, ConnectionLost), you decide: call ``commit_transaction()`` again, or close the
    producer.
    """

    def __init__(self, producer: _AsyncTransactional) -> None:
        self._producer = producer

    async def __aenter__(self) -> None:
        await self._producer._begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await self._abort(error)
            return
        try:
            await self._producer.commit_transaction()
        except PenstockError as failure:
            if not failure.retriable:
                await self._abort(failure)
            raise

    async def _abort(self, why: BaseException) -> None:
        try:
            await self._producer._give_up()
        except PenstockError as failure:
            _tell(why, failure)


def _tell(why: BaseException, failure: PenstockError) -> None:
    if failure is not why:
        tell_beside(why, f"aborting its transaction failed as well: {failure}")
