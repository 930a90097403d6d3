"""The columns that readers may ask for beside those of every record, and the headers that carry them.

It is registered, and so imports nothing: what the headers hold is in `facts`.
"""

from __future__ import annotations

from typing import Final

__all__ = ["COLUMNS", "COMMIT_LOG_OFFSET", "NODE", "QUEUE", "RECONSUME_TIMES", "STORE_TIME"]

STORE_TIME: Final = "rocketmq.store_time"
RECONSUME_TIMES: Final = "rocketmq.reconsume_times"
QUEUE: Final = "rocketmq.queue"
COMMIT_LOG_OFFSET: Final = "rocketmq.commit_log_offset"
NODE: Final = "rocketmq.node"

COLUMNS: Final = {
    "tags": "TAGS",
    "keys": "KEYS",
    "message_id": "UNIQ_KEY",
    "store_time": STORE_TIME,
    "reconsume_times": RECONSUME_TIMES,
    "queue": QUEUE,
    "commit_log_offset": COMMIT_LOG_OFFSET,
}
"""Text in all of them; times in milliseconds. They are there for readers with ``all_properties``.

The broker's name is the column node of every record, and needs no header; `NODE` shows it among the others."""
