"""Reading the parameters of an administrative call: there or not, of the right form, or a refusal that says which."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.faults import Refused

__all__ = ["Parameters"]

_TOPIC: Final = re.compile(r"[a-zA-Z]\w{1,63}", re.ASCII)
_TRUE: Final = frozenset({"true", "1"})
_FALSE: Final = frozenset({"false", "0"})
_MOST_NAMES: Final = 1_000
_MOST_JSON: Final = 1 << 20

_SHORT: Final[Mapping[str, str]] = {
    "acceptPublish": "accPub",
    "acceptSubscribe": "accSub",
    "allowedBClientRate": "abcr",
    "alwdBrokerClientRate": "abcr",
    "brokerJsonSet": "brokerSet",
    "confModAuthToken": "authToken",
    "consumeEnable": "csmEn",
    "consumeGroup": "group",
    "consumerId": "csmId",
    "createUser": "cur",
    "deletePolicy": "delPolicy",
    "disableCsmRsn": "dsCsmRsn",
    "divide": "div",
    "enableAuthControl": "acEn",
    "filterConds": "flts",
    "filterCondJsonSet": "filterJsonSet",
    "filterEnable": "fltEn",
    "flowCtrlEnable": "fCtrlEn",
    "flowCtrlInfo": "flowCtrlSet",
    "groupCsmJsonSet": "csmJsonSet",
    "groupName": "group",
    "groupNameJsonSet": "gJsonSet",
    "groupResCtrlJsonSet": "gResCtrlSet",
    "manualOffset": "offset",
    "manualSet": "manSet",
    "modifyUser": "mur",
    "msgCount": "cnt",
    "numPartitions": "numPart",
    "numTopicStores": "numStore",
    "offsetJsonInfo": "offsetInfo",
    "onlyMemory": "onlyMem",
    "partitionId": "pid",
    "qryPriorityId": "qryPriId",
    "reJoinWait": "rjWait",
    "resCheckEnable": "resChkEn",
    "requireRealOffset": "dko",
    "sourceGroupName": "srcGroup",
    "targetGroupName": "tgtGroup",
    "topicCtrlJsonSet": "tCtrlSet",
    "topicJsonSet": "topicSet",
    "topicName": "topic",
    "topicNameId": "topicId",
    "topicStatusId": "tStsId",
    "withIp": "ip",
}
"""The other names that TubeMQ's servers take for a parameter."""

_OF_EVERY_CALL: Final = frozenset(
    {"method", "type", "callback", "_", "confModAuthToken", "createUser", "createDate", "modifyUser", "modifyDate"}
)


class Parameters:
    """Each method raises Refused (BAD_REQUEST) for what is missing, blank or of another form."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self._unread = set(given) - _OF_EVERY_CALL

    @property
    def unread(self) -> list[str]:
        """Names of parameters that are given and that no method was asked for: they have no effect."""
        return sorted(name for name in self._unread if self._given[name].strip())

    @property
    def about(self) -> dict[str, str]:
        """What a call of a batch is about, as far as it says so."""
        named = {name: self.optional(name) for name in ("brokerId", "topicName", "groupName")}
        return {name: value for name, value in named.items() if value}

    def optional(self, name: str) -> str:
        """The value, trimmed; empty where there is none. The short form of a name counts where the long one is not."""
        used = name if name in self._given else _SHORT.get(name, name)
        self._unread.discard(used)
        return self._given.get(used, "").strip()

    def refuse(self, names: Iterable[str], why: str) -> None:
        """Raise Refused, which says ``why``, where one of these is given."""
        given = [name for name in names if self.optional(name)]
        if given:
            raise _refused(f"Parameter {', '.join(given)}: {why}")

    def each(self, name: str) -> list[Parameters]:
        """The calls of a batch: a JSON list of objects, each with the parameters that all share."""
        text = self.text(name)
        try:
            found = json.loads(text) if len(text) <= _MOST_JSON else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
            raise _refused(f"Parameter {name} must be a JSON list of objects, at least one")
        if len(found) > _MOST_NAMES:
            raise _refused(f"Parameter {name} has {len(found)} objects, {_MOST_NAMES} are allowed")
        shared = {key: value for key, value in self._given.items() if key in _OF_EVERY_CALL}
        return [Parameters({**shared, **{str(key): _written(value) for key, value in each.items()}}) for each in found]

    def text(self, name: str) -> str:
        """A value that must be there."""
        value = self.optional(name)
        if not value:
            raise _refused(f"Parameter {name} is missing or value is blank!")
        return value

    def user(self, *names: str) -> str:
        """Who asks: one of ``names`` must be there (createUser where something is made, else modifyUser)."""
        found = next((value for name in names if (value := self.optional(name))), "")
        return found or self.text(names[0])

    def names(self, name: str, *, required: bool = False) -> list[str]:
        """A list between commas, each name once."""
        found = list(dict.fromkeys(part.strip() for part in self.optional(name).split(",") if part.strip()))
        if required and not found:
            self.text(name)
        if len(found) > _MOST_NAMES:
            raise _refused(f"Parameter {name} has {len(found)} names, {_MOST_NAMES} are allowed")
        return found

    def new_topics(self) -> list[str]:
        """Names that topics can be given."""
        topics = self.names("topicName", required=True)
        for topic in topics:
            if not _TOPIC.fullmatch(topic):
                raise _refused(
                    "illegal value for topicName, value must begin with a letter, "
                    "can only contain English letters, numbers, and underscores"
                )
        return topics

    def number(self, name: str, default: int | None = None, *, low: int, high: int = 2**63 - 1) -> int:
        """A whole number; ``default`` None: it must be there."""
        text = self.optional(name) if default is not None else self.text(name)
        if not text and default is not None:
            return default
        if not re.fullmatch(r"-?[0-9]{1,19}", text) or not low <= int(text) <= high:
            raise _refused(f"Parameter {name} value must be a number from {low} to {high}, it is {text[:80]!r}")
        return int(text)

    def flag(self, name: str) -> bool | None:
        """True, False, or None where nothing is said."""
        text = self.optional(name).lower()
        if text and text not in _TRUE | _FALSE:
            raise _refused(f"Parameter {name} value must be true or false, it is {text[:80]!r}")
        return None if not text else text in _TRUE


def _written(value: Any) -> str:
    """A value of JSON as it would stand in a form."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value)


def _refused(message: str) -> Refused:
    return Refused(Code.BAD_REQUEST, message)
