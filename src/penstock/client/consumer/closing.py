"""ConsumerEnd: the part of AsyncConsumer that closes, commits without a task, and runs callbacks of commits."""

from __future__ import annotations

import asyncio
from functools import partial

from penstock.client.arguments import OffsetsLike, whole_number
from penstock.client.consumer.engine import ConsumerEngine
from penstock.client.consumer.membership import Call
from penstock.client.interceptors import ConsumerInterceptors
from penstock.client.metrics import ConsumerMetrics, Measuring
from penstock.client.runtime.callbacks import CallbackErrorReporter, CallbackFailure
from penstock.client.runtime.closing import GiveUp, Handle, Heard, Interrupts, add_note, on_error_s, shown_address
from penstock.config import ConsumerConfig, Settings
from penstock.config.client import ClientLog
from penstock.errors import UsageError

__all__ = ["ConsumerEnd", "poll_limit"]


class ConsumerEnd(Handle):
    """Base of AsyncConsumer, whose constructor sets these attributes."""

    _settings: Settings[ConsumerConfig]
    _log: ClientLog
    _call: Call
    _report: CallbackErrorReporter
    _interrupts: Interrupts
    _interceptors: ConsumerInterceptors
    _measuring: Measuring[ConsumerMetrics]
    _measured: ConsumerMetrics
    _engine: ConsumerEngine | None
    _closer: object
    _closed: bool

    def _check_home(self) -> None:
        """Raise UsageError in another loop or process than the consumer's."""
        raise NotImplementedError

    def _described(self) -> str:
        group = self._settings.config.group
        engine = self._engine
        state = "closed" if self._closed else "not started" if engine is None else _standing(engine)
        return f"{shown_address(self._settings.address)}, {f'group {group}' if group else 'no group'}, {state}"

    async def _end(self, timeout_s: float | None, *, handled: bool, who: object = None) -> None:
        engine, config = self._engine, self._settings.config
        who = who or asyncio.current_task()
        if engine is None:
            self._closed = True
            return
        self._check_home()
        if self._closer is not None and engine.close_deadline is not None:
            # A listener or signal handler that closes again within the first close would wait for itself.
            await engine.close_deadline.shorten(timeout_s, wait=who != self._closer)
            return
        if timeout_s is None:
            patience_ms = config.request_timeout_ms if config.close_timeout_ms is None else config.close_timeout_ms
            timeout_s = patience_ms / 1_000
        self._closer = who
        if handled:
            # A clean end: the records of the last poll were handled. After an exception this is unknown.
            engine.partitions.mark_handled()
        try:
            await engine.close(timeout_s)  # this calls the listener, which may still commit
        finally:
            self._measuring.end()
            self._measured = engine.metrics()
            self._engine, self._closed = None, True
            await self._run_finished(engine)
            self._interceptors.closed()

    async def _leave(self, error: BaseException, who: object = None) -> None:
        """Close because of an exception, which continues: use the short timeout, and do not replace the exception."""
        try:
            await self._end(on_error_s(self._settings.config), handled=False, who=who)
        except Exception as failure:  # a listener's errors included
            self._log.warning("closing the consumer under an exception failed as well: %r", failure)
            add_note(error, f"closing the consumer failed as well: {failure!r}")

    def _commit_at_once(self, offsets: OffsetsLike | None, heard: Heard) -> GiveUp | None:
        """``commit`` on the loop without a task, if nothing has to be waited for first. Raises UsageError."""
        engine = self._engine
        if engine is None or self._closed or engine.consumption.finished:
            return None
        return self._interrupts.at_once(partial(engine.consumption.commit_at_once, offsets), heard)

    async def _run_finished(self, engine: ConsumerEngine) -> None:
        finished = engine.consumption.finished
        while finished:
            commit = finished.popleft()
            try:
                await self._call(commit)
            except Exception as error:
                self._report(CallbackFailure(error, commit.callback, (commit.offsets, commit.error), commit.topics))


def _standing(engine: ConsumerEngine) -> str:
    """The number of partitions, and the state of the group's member."""
    member = engine.rebalancing.member if engine.rebalancing is not None and engine.config.group else None
    return f"{len(engine.partitions.assigned)} partitions" + (f", {member.state.value}" if member is not None else "")


def poll_limit(max_records: int | None, engine: ConsumerEngine) -> int:
    """The maximum number of records of a poll. Raises UsageError."""
    if max_records is None:
        return engine.config.max_poll_records
    max_records = whole_number("max_records", max_records)
    if max_records < 1:
        raise UsageError(f"max_records must be 1 or more, got {max_records}")
    return max_records
