"""Checks of what every request names: ids, hosts, groups, topics. As TubeMQ's servers make them, in their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.errors import ProtocolViolation
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.cluster import Cluster
from penstock.protocols.tubemq.front.faults import Refused, Thrown
from penstock.protocols.tubemq.names import MAX_FILTER_ITEMS
from penstock.protocols.tubemq.strings import parse_topic_filter

__all__ = ["JAVA_THREW", "conditions_of", "deployed", "few", "named", "topics_of"]

JAVA_THREW = "java.lang.reflect.InvocationTargetException"
"""What the real server's answer is called where its own code threw."""

_LONGEST = {"clientId": 1_024, "groupName": 1_024, "hostName": 256, "topicName": 64}
_MOST_TOPICS = 1_024
_LONGEST_LIST = 8 * _MOST_TOPICS
_LONGEST_TOPIC = 249
"""Of topics made through another protocol, which may be longer than TubeMQ's own 64 characters."""


def named(field: str, value: str) -> str:
    """A name that must be there, trimmed. Raises Refused (BAD_REQUEST)."""
    value = value.strip()
    if not value:
        raise Refused(Code.BAD_REQUEST, f"Request miss necessary {field} data!")
    if len(value) > _LONGEST.get(field, _LONGEST_TOPIC):
        raise Refused(Code.BAD_REQUEST, f"{field}'s length over max value, allowed max length is {_LONGEST[field]}")
    return value


def few(listed: Sequence[str]) -> Sequence[str]:
    """A list of topics that may be looked at. Raises Refused (BAD_REQUEST) for one of far too many."""
    if len(listed) > _LONGEST_LIST:
        raise Refused(Code.BAD_REQUEST, f"a list of {len(listed)} topics; a client may have {_MOST_TOPICS}")
    return listed


def topics_of(listed: Sequence[str]) -> list[str]:
    """The topics of a request, trimmed, each once. Raises Refused (BAD_REQUEST) where there are none, or too many."""
    few(listed)
    topics = [topic for topic in dict.fromkeys(name.strip() for name in listed) if topic]
    if not topics:
        raise Refused(Code.BAD_REQUEST, "Request miss necessary subscribed topicList data!")
    if len(topics) > _MOST_TOPICS:
        raise Refused(Code.BAD_REQUEST, f"{len(topics)} topics; a client may have {_MOST_TOPICS}")
    return topics


async def deployed(cluster: Cluster, topics: Sequence[str]) -> None:
    """Raise Refused (TOPIC_NOT_DEPLOYED) unless all topics are there."""
    missing = [topic for topic in topics if await cluster.topic(topic) is None]
    if missing:
        raise Refused(Code.TOPIC_NOT_DEPLOYED, f"Requested topic [[{', '.join(missing)}]] not deployed!")


def conditions_of(listed: Iterable[str], topics: Sequence[str]) -> dict[str, frozenset[str]]:
    """Filter items by topic. Raises Thrown for what the real server cannot read, Refused (BAD_REQUEST)."""
    found: dict[str, frozenset[str]] = {}
    for text in listed:
        if not text.strip():
            continue
        try:
            topic, items = parse_topic_filter(text)
        except ProtocolViolation as error:
            raise Thrown(JAVA_THREW, error.message) from error
        if topic not in topics:
            raise Refused(Code.BAD_REQUEST, f"filter for topic {topic}, which is not in topicList")
        if len(items) > MAX_FILTER_ITEMS:
            raise Refused(Code.BAD_REQUEST, f"{len(items)} filter items; a topic may have {MAX_FILTER_ITEMS}")
        found[topic] = frozenset(items)
    return found
