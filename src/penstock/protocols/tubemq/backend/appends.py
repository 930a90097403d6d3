"""Appends: batches of records become messages, one request each, in the order in which they were called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from penstock.concurrency.runtime import Promise, Runtime
from penstock.errors import OutcomeUnknown, PenstockError, RequestTimeout, UpstreamLost
from penstock.interfaces.channel import Retry
from penstock.interfaces.enode import Batch, Stored, bytes_of
from penstock.interfaces.framing import Buffer
from penstock.model import Partition
from penstock.protocols.tubemq.client.sender import TubePacked, TubeSender
from penstock.protocols.tubemq.wire.strings import INDEX_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.protocols.tubemq.client.cluster import Shared

__all__ = ["Appends", "batch_of", "load", "rows_of"]

# Record batches v2 to rows of columns, as messages are made of, and back. Loaded once, before anybody waits for it.
_COLUMNS: Final = ("key", "value", "timestamp", "timestampType", "headers")


def rows_of(batch: Buffer) -> pa.RecordBatch:
    """The records of a batch v2. Times that a log stamped are null. Raises CorruptBatch."""
    from penstock.protocols.tubemq.wire.record_columns import without_log_times
    from penstock.records import decode_v2

    return without_log_times(decode_v2(batch, columns=_COLUMNS).batch)


def batch_of(rows: pa.RecordBatch) -> memoryview:
    """One batch v2 of rows whose offsets are in a row."""
    from penstock.records import encode_v2

    first: int = rows.column("offset")[0].as_py()
    return encode_v2(rows, base_offset=first, leader_epoch=0)


def load() -> None:
    """Load, and compile, everything by using it once: that takes a second, in which a producer would lose patience."""
    import numpy as np

    from penstock import kernels
    from penstock.protocols.tubemq.wire.record_columns import encode, write_messages
    from penstock.records.scalar_writer import FewRows, encode_few

    kernels.load()
    rows = rows_of(encode_few(FewRows([b"k"], [b"v"], [0])))
    write_messages(encode(rows), np.zeros(1, np.int64))
    batch_of(rows.append_column("offset", np.zeros(1, np.int64)))


# Appends: batches of records become messages, one request each, in the order in which they were called.
#
# One round at a time a partition: while it is under way the next batches gather, and go together, hundreds of requests
# in one write. What is stored is not sent again. What is in doubt because its broker is gone is sent again, so it may
# be stored twice (``allow_duplicates``); what a broker does not answer in time is not, for it may be stored yet. A
# broker's answer tells each message's place. That is its offset where its store has one partition. Elsewhere it is not
# (`Spots`), and if others wrote in between, no single number locates the batch: the answer is then -1, "not known".
# Source: Apache InLong TubeMQ 2.x, broker method 13.
_ROUND_BYTES: Final = 4 << 20
_LEAST_S: Final = 5.0
"""A batch that has less than this left is not sent any more: its producer may be given it back safely."""
_AN_RPC_S: Final = 3.0
_ROUND_ROWS: Final = 2_000
"""What a broker stores in less than a second: a batch should not wait for many others."""


class _Waiting(Struct):
    rows: pa.RecordBatch
    begun_s: float
    stored: Promise[Stored | PenstockError]


class Appends:
    """``written`` is called with each partition (the cluster's) that has grown."""

    def __init__(self, shared: Shared, runtime: Runtime, written: Callable[[Partition], None]) -> None:
        self._shared = shared
        self._runtime = runtime
        self._written = written
        self.sender = TubeSender(shared, rpc_timeout_ms=shared.options.api_timeout_ms)
        self._lines: dict[Partition, list[_Waiting]] = {}

    def put(self, home: Partition, batch: Batch) -> Promise[Stored | PenstockError]:
        """Have a batch stored behind all that were put before. Raises CorruptBatch."""
        rows = rows_of(bytes_of(batch))
        waiting = _Waiting(rows, self._shared.channel.monotonic(), self._runtime.promise())
        if not rows.num_rows:
            waiting.stored.set(Stored(-1, -1))
            return waiting.stored
        line = self._lines.get(home)
        if line is None:
            self._lines[home] = [waiting]
            self._runtime.spawn(self._run(home), f"write to {home}")
        else:
            line.append(waiting)
        return waiting.stored

    async def _run(self, home: Partition) -> None:
        try:
            while line := self._lines[home]:
                chosen = _round(line)
                del line[: len(chosen)]
                rows = [each.rows for each in chosen]
                self._answer(home, chosen, await self._store(home, rows, chosen[0].begun_s))
        finally:
            del self._lines[home]

    async def _store(
        self, home: Partition, parts: Sequence[pa.RecordBatch], begun_s: float
    ) -> TubePacked | PenstockError:
        """What became of each row, or why nothing did. The first of them waits since then."""
        import pyarrow as pa

        from penstock.protocols.tubemq.wire.record_columns import as_sent, encode

        packed: TubePacked | None = None
        options, channel = self._shared.options, self._shared.channel
        retry = Retry(channel, options, begun=begun_s)
        until_s = begun_s + options.api_timeout_ms / 1_000
        while True:
            try:
                if packed is None and until_s - channel.monotonic() < _LEAST_S:
                    return UpstreamLost(f"broker {home.node} is slow: this was not sent to it", node=home.node)
                await self._shared.topics.topics([home.topic])
                node = await self._shared.topics.leader(home)
                if packed is None:  # only now the topic's largest message is known
                    rows = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
                    packed = self.sender.packed(home, as_sent(encode(rows), rows))
                left_s = max(until_s - channel.monotonic(), _AN_RPC_S)
                (sent,) = await self.sender.send(node, [packed], acks=1, timeout_s=left_s)
                if sent.error is None:
                    return packed
                raise sent.error
            except PenstockError as error:
                trouble = error
            if packed is not None and isinstance(trouble.__cause__ or trouble, RequestTimeout):
                return _refuse_rest(packed, _unknown(home, trouble))
            try:
                if packed is not None and await self.sender.recover(packed, trouble) is None:
                    return _refuse_rest(packed, trouble)
                await retry.after(trouble)
            except PenstockError as error:
                return error if packed is None else _refuse_rest(packed, error)

    def _answer(self, home: Partition, chosen: Sequence[_Waiting], outcome: TubePacked | PenstockError) -> None:
        alone = self._shared.placements.alone_in_store(home)
        row = 0
        for each in chosen:
            rows = range(row, row + each.rows.num_rows)
            row = rows.stop
            each.stored.set(outcome if isinstance(outcome, PenstockError) else _stored(outcome, rows, alone))
        self._written(home)


def _round(line: Sequence[_Waiting]) -> list[_Waiting]:
    chosen: list[_Waiting] = []
    size = rows = 0
    for each in line:
        size += each.rows.nbytes
        rows += each.rows.num_rows
        if chosen and (size > _ROUND_BYTES or rows > _ROUND_ROWS):
            break
        chosen.append(each)
    return chosen


def _unknown(home: Partition, error: PenstockError) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"broker {home.node} did not answer: {error.message}: it may store this yet, look before you send it again",
        node=home.node,
    )


def _refuse_rest(packed: TubePacked, error: PenstockError) -> TubePacked:
    for row in packed.open_rows():
        packed.refused[row] = error
    return packed


def _stored(packed: TubePacked, rows: range, alone: bool) -> Stored | PenstockError:
    refused: Any = next((packed.refused[row] for row in rows if row in packed.refused), None)
    if refused is not None:
        error: PenstockError = refused
        return error
    first, last = packed.offsets[rows.start], packed.offsets[rows.stop - 1]
    if not alone or last - first != INDEX_BYTES * (len(rows) - 1):
        return Stored(-1, -1)
    return Stored(first // INDEX_BYTES, last // INDEX_BYTES)
