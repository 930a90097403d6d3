"""RocketMQ's rules for names.

Source: Apache RocketMQ 4.9 and 5.4, ``Validators`` and ``TopicValidator``: the characters and lengths clients check.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import ConfigError

__all__ = [
    "BUILT_IN",
    "DEAD_LETTER",
    "RETRY",
    "UNWRITABLE",
    "check_group",
    "check_topic",
    "is_built_in",
    "is_internal",
    "is_retry",
]

RETRY: Final = "%RETRY%"
DEAD_LETTER: Final = "%DLQ%"
_ALLOWED: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_LONGEST_TOPIC: Final = 127
_LONGEST_GROUP: Final = 255
UNWRITABLE: Final = frozenset(
    {
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
"""Topics that brokers write to, and nobody else may."""
BUILT_IN: Final = frozenset(
    {
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_RMQ_SYS_TRANS",
    }
)
"""Consumer groups that brokers have although nobody has made them."""
_OF_SYSTEM: Final = "CID_RMQ_SYS_"


def is_built_in(group: str) -> bool:
    """Whether brokers have this consumer group although nobody has made it."""
    return group in BUILT_IN or group.startswith(_OF_SYSTEM)


_INTERNAL: Final = UNWRITABLE | {"TBW102", "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC"}
_INTERNAL_BEGIN: Final = (RETRY, DEAD_LETTER, "rmq_sys_", "RMQ_SYS_")


def check_topic(name: str) -> str:
    """The name. Raises ConfigError for one that no RocketMQ topic can have."""
    return _checked(name, "topic", _LONGEST_TOPIC)


def check_group(name: str, what: str = "group") -> str:
    """The name. Raises ConfigError for one that no RocketMQ group can have."""
    return _checked(name, what, _LONGEST_GROUP)


def is_retry(topic: str) -> bool:
    """Whether it holds what a group could not consume yet: that is the group's, whatever it chooses elsewhere."""
    return topic.startswith(RETRY)


def is_internal(topic: str) -> bool:
    """Whether it is the servers' own, or a group's for what it could not consume."""
    return topic in _INTERNAL or topic.startswith(_INTERNAL_BEGIN) or topic.endswith("_REPLY_TOPIC")


def _checked(name: str, what: str, longest: int) -> str:
    if len(name) > longest or not _ALLOWED.fullmatch(name):
        raise ConfigError(
            f"{what} is {name!r}, which no {what} of RocketMQ's can be called",
            hint=f"Letters, digits, '_', '-', '%' and '|', at most {longest}",
        )
    return name
