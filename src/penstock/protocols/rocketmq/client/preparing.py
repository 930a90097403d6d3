"""Preparing: rows of a producer become messages, with ids of their own that stay theirs however often they are sent.

Source: Apache RocketMQ 4.9 and 5.4, ``DefaultMQProducerImpl.sendKernelImpl``, ``MessageClientIDSetter``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.columnar.few import FewRows, Rows
from penstock.model import Codec
from penstock.protocols.rocketmq.config.options import BodyCodec, RocketConfig
from penstock.protocols.rocketmq.records.compression import Compression
from penstock.protocols.rocketmq.records.encoding import Prepared, prepare, prepare_all
from penstock.protocols.rocketmq.records.ids import UniqueIds
from penstock.seams.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["is_delayed", "prepared", "unique_ids"]

_USUAL: Final = {
    BodyCodec.ZLIB: Compression.ZLIB,
    BodyCodec.LZ4: Compression.LZ4,
    BodyCodec.ZSTD: Compression.ZSTD,
}
_SAID: Final = {Codec.GZIP: Compression.ZLIB, Codec.LZ4: Compression.LZ4, Codec.ZSTD: Compression.ZSTD}
_DELAYS: Final = ("DELAY\x01", "TIMER_DELAY_MS\x01", "TIMER_DELAY_SEC\x01", "TIMER_DELIVER_MS\x01")
_ANY_ADDRESS: Final = 2**32
_ANY_PROCESS: Final = 2**16


def unique_ids(channel: Channel[Any]) -> UniqueIds:
    """Ids of one producer. Who it is, is drawn by lot: protocols know neither their address nor their process."""
    address = int(channel.random() * _ANY_ADDRESS).to_bytes(4, "big")
    process, salt = int(channel.random() * _ANY_PROCESS), int(channel.random() * _ANY_ADDRESS)
    return UniqueIds(address, process, salt, channel.now_ms())


def prepared(rows: Rows, ids: UniqueIds, now_ms: int, codec: Codec, options: RocketConfig) -> Sequence[Prepared]:
    """Rows as messages. ``codec`` says how long bodies are compressed, if RocketMQ knows it. Raises UsageError."""
    compression = _SAID.get(codec, _USUAL[options.compress_type]) if options.compress_over_bytes else None
    over = options.compress_over_bytes
    next_id: Callable[[], str] = lambda: ids.next(now_ms)  # noqa: E731
    if not isinstance(rows, FewRows):
        return prepare_all(rows, next_id, now_ms=now_ms, compression=compression, compress_from=over)
    return [
        prepare(
            key, value, rows.headers.get(place, ()),
            unique_id=next_id(), born_ms=time if time >= 0 else now_ms, compression=compression, compress_from=over,
        )
        for place, (key, value, time) in enumerate(zip(rows.keys, rows.values, rows.timestamps, strict=True))
    ]  # fmt: skip


def is_delayed(message: Prepared) -> bool:
    """Whether it is kept elsewhere until its time comes; its offset is then told of there."""
    return any(name in message.properties for name in _DELAYS)
