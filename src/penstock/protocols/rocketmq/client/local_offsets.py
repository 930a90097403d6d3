"""Where a broadcasting member has got to: in a file of its machine, in the form that Java's clients read and write.

Without a file it is nowhere: such a member begins anew each time. Source: Apache RocketMQ 4.9 and 5.4,
``LocalFileOffsetStore``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from penstock.config.logs import ClientLog
from penstock.errors import ConfigError, ProtocolViolation
from penstock.model import Committed, Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.client.queues import partition_of, queue_of
from penstock.protocols.rocketmq.config.options import MessageModel
from penstock.protocols.rocketmq.lenient_json import MAX_JSON_BYTES

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.client.options import RocketOptions
    from penstock.seams.kept_offsets import OffsetsFile

__all__ = ["LocalOffsets", "path_of"]

_LOG: Final = ClientLog("penstock.group")
_UNNAMED: Final = "DEFAULT"
"""What Java calls the instance of a broadcasting member that was given no name."""


def path_of(options: RocketOptions) -> str | None:
    """The file; None where offsets are kept by brokers, or nowhere."""
    rocket = options.rocket
    if options.group is None or rocket.message_model is not MessageModel.BROADCASTING or not rocket.offsets_folder:
        return None
    member = f"{options.client_id}@{rocket.instance_name or _UNNAMED}".replace("/", "_").replace("\\", "_")
    return f"{rocket.offsets_folder}/{member}/{options.group}/offsets.json"


class LocalOffsets:
    """Of one client. ``file`` is set before anything is asked, if there is one."""

    def __init__(self) -> None:
        self.file: OffsetsFile | None = None
        self._known: dict[Partition, Committed] | None = None
        self._told = False

    async def committed(self, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        """Where the member stands, of ``partitions`` (None: of all). Raises ConfigError."""
        known = await self._table()
        return known if partitions is None else {each: known[each] for each in partitions if each in known}

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        """Write them down with all others. Raises ConfigError."""
        if self.file is None:
            self._tell()
            return
        known = {**await self._table(), **offsets}
        table = {
            queue_of(each): at.offset
            for each, at in sorted(known.items(), key=lambda pair: (pair[0].topic, pair[0].node, pair[0].id))
        }
        await self.file.save(m.write_body(m.LocalOffsets(offset_table=table)))
        self._known = known

    def close(self) -> None:
        """Let another member have the file."""
        if self.file is not None:
            self.file.close()

    async def _table(self) -> dict[Partition, Committed]:
        if self._known is None:
            content = None if self.file is None else await self.file.load()
            self._known = {} if content is None else _read(content)
        return self._known

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            _LOG.warning("what a broadcasting member commits is kept nowhere: name a folder in offsets_folder")


def _read(content: bytes) -> dict[Partition, Committed]:
    """Raises ConfigError for a file that is none: beginning anew would pass over what was not read yet."""
    try:
        table = m.read_body(m.LocalOffsets, content, max_bytes=4 * MAX_JSON_BYTES).offset_table
    except ProtocolViolation as error:
        raise ConfigError(
            f"the file of this member's offsets cannot be read: {error}",
            hint="Put offsets.json.bak, which lies beside it, into its place, or delete it to begin anew",
        ) from error
    return {partition_of(queue): Committed(offset) for queue, offset in table.items()}
