"""What clients write for JSON, and what a real broker makes of it: row by row, as 5.4.0 answered.

A row is one part of a usual request written in another way. Our front must serve what the broker serves, with the same
values, and refuse what it refuses; where the broker hangs up, ours may also refuse in words. Brokers read headers with
one JSON library and bodies with another one; ours is one reader for both, and takes what either takes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["PREPARED", "ROWS", "Answer", "Row", "framed"]

PREPARED: Final = ("json", "5", "true")
"""Topics of four queues, with one message in queue 3 each."""

NOT_SERVED: Final = "refused, or hung up on"
"""Brokers hang up on headers that they cannot read."""


class Answer(NamedTuple):
    """An answer's header and body."""

    head: dict[str, Any]
    body: bytes

    @property
    def code(self) -> int:
        return int(self.head["code"])


class Row(NamedTuple):
    """``frames`` go out one after the other on one connection; ``read`` says what their answers say (None: none came,
    and the connection is closed), which has to be ``wanted``."""

    title: str
    frames: tuple[bytes, ...]
    read: Callable[[Sequence[Answer | None]], object]
    wanted: object


def framed(head: str, body: str = "") -> bytes:
    """A request, its header as it is."""
    header, content = (text.encode("utf-8", "surrogateescape") for text in (head, body))
    size = 4 + len(header) + len(content)
    return size.to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + content


def _changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def _request(code: int, **fields: str) -> str:
    said = {"code": code, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": 7, "version": 409}
    return json.dumps(said)


# Headers: where a queue ends, in which there is one message.

_HEAD: Final = (
    '{"code":30,"extFields":{"queueId":"3","topic":"json"},"flag":0,"language":"JAVA","opaque":7,'
    '"serializeTypeCurrentRPC":"JSON","version":409}'
)
SERVED: Final = (7, 0, "1")
"""The number, the code and the offset of a request that was read as it was meant."""

_NUMBERS_ALIKE: Final = ('"{}"', "'{}'", "{}.0", "{}.5", '"{}.0"', "{}e0", '"+{}"', "+{}", "0{}", "{}L")
_NO_NUMBERS: Final = ('" {}"', '"{} "', '"abc"', "3000000000", '"3000000000"', "99999999999999999999", '"{}L"', "NaN")


def _headers() -> list[tuple[str, str, object]]:
    rows: list[tuple[str, str, object]] = [("{", "{", SERVED)]
    for name, value in (("code", "30"), ("opaque", "7"), ("flag", "0"), ("version", "409")):
        part = f'"{name}":{value}'
        rows += [(part, f'"{name}":{each.format(value)}', SERVED) for each in _NUMBERS_ALIKE]
        rows += [(part, f'"{name}":{each.format(value)}', NOT_SERVED) for each in _NO_NUMBERS]
        absent = {"code": (7, 3, None), "opaque": (0, 0, "1")}.get(name, SERVED)
        rows += [(part, f'"{name}":{each}', absent) for each in ("null", '""', '"null"', "false")]
    rows += [('"code":30', '"code":1e10', (7, 3, None)), ('"code":30,', "", (7, 3, None))]
    rows += [('"opaque":7', f'"opaque":{each}', (2**31 - 1, 0, "1")) for each in ("1e10", "1e400")]
    rows += [('"opaque":7', '"opaque":-1', (-1, 0, "1")), ('"opaque":7', '"opaque":true', (1, 0, "1"))]
    rows += [('"flag":0,', "", SERVED), (',"version":409', "", SERVED), ('"version":409', '"version":1e10', SERVED)]
    for language in ("1", "13", '"go"', '"XX"', '""', "null", "1.0", '"1"'):
        rows.append(('"language":"JAVA"', f'"language":{language}', SERVED))
    for language in ("99", "-1", "true", "{}", "[]"):
        rows.append(('"language":"JAVA"', f'"language":{language}', NOT_SERVED))
    fields = '{"queueId":"3","topic":"json"}'
    rows += [(f'"extFields":{fields}', f'"extFields":{each}', (7, 1, None)) for each in ("null", "{}", '""')]
    rows += [(f'"extFields":{fields}', f'"extFields":{each}', NOT_SERVED) for each in ("[]", "5", "true", '"{}"')]
    rows += [('"queueId":"3"', f'"queueId":{each}', SERVED) for each in ("3", '"+3"', '"03"', "'3'", "3e0")]
    for queue in ('"3.0"', "3.0", '" 3"', '"3 "', '""', '"abc"', "null", "true", '{"a":1}', "[3]", '"3000000000"'):
        rows.append(('"queueId":"3"', f'"queueId":{queue}', (7, 1, None)))
    rows += [('"topic":"json"', f'"topic":{each}', SERVED) for each in ("5", "true", '"j\\u0073on"', "'json'")]
    rows += [('"topic":"json"', f'"topic":"json","z":{each}', SERVED) for each in ('{"a":[1]}', "[1]", "1.50", "null")]
    for new in ('"x":{"y":[1,{"z":null}]},"flag"', '"x":[1,],"flag"', '"x":.5,"flag"', '"x":1.,"flag"', '// x\n"flag"'):
        rows.append(('"flag"', new, SERVED))
    rows += [('"flag"', f'"remark":{each},"flag"', SERVED) for each in ("5", '{"a":1}', "null", '"a\nb\x01\\x41\\\'"')]
    rows += [('"flag"', f'"x":{each},"flag"', NOT_SERVED) for each in ("-", "True", "Infinity", "undefined", '"\\q"')]
    rows += [(',"flag"', ' "flag"', SERVED), (',"flag"', ',,"flag"', SERVED), ("409}", "409,}", SERVED)]
    rows += [("409}", each, NOT_SERVED) for each in ("409", "409}x", "409}{}", "409}}")]
    rows += [('"flag"', "flag", NOT_SERVED), ('"flag"', "# x\n", NOT_SERVED), ('{"code"', '{,"code"', NOT_SERVED)]
    rows.append(('"flag"', '"remark":"\udcff","flag"', NOT_SERVED))
    return rows


def _end_of_queue(answers: Sequence[Answer | None]) -> object:
    (answer,) = answers
    if answer is None:
        return NOT_SERVED
    return answer.head["opaque"], answer.code, (answer.head.get("extFields") or {}).get("offset")


# Bodies: a heartbeat, and what operators are then shown of its group.

_BEAT: Final = (
    '{"clientID":"192.0.2.2@x","producerDataSet":[{"groupName":"made"}],"consumerDataSet":[{"groupName":"GROUP",'
    '"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
    '"subscriptionDataSet":[{"classFilterMode":false,"topic":"json","subString":"A || B","tagsSet":["A","B"],'
    '"codeSet":[65,66],"subVersion":1795711428236,"expressionType":"TAG"}],"unitMode":false}]}'
)
REFUSED: Final = "refused"
_GROUP: Final = ("consumeType", "messageModel", "consumeFromWhere")


def _beats() -> list[tuple[str, str, object]]:
    whole = {
        "clientId": "192.0.2.2@x", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "classFilterMode": False, "topic": "json",
        "subString": "A || B", "tagsSet": ["A", "B"], "codeSet": [65, 66], "subVersion": 1795711428236,
        "expressionType": "TAG",
    }  # fmt: skip
    rows: list[tuple[str, str, object]] = [("unitMode", "unitMode", whole)]

    def part(old: str, name: str, values: dict[str, object]) -> None:
        for new, shown in values.items():
            rows.append((f'"{name}":{old}', f'"{name}":{new}', REFUSED if shown is REFUSED else {name: shown}))

    for each in ('["65","66"]', '["65",66.0]', "['65',6.6e1]", "[+65,066]", "[65L,66]", "[65,66,]"):
        part("[65,66]", "codeSet", {each: [65, 66]})
    part("[65,66]", "codeSet", {"[65.5]": [65], '"65"': [65], "65": [65], "[true]": [1], "[]": []})
    part("[65,66]", "codeSet", {"[3000000000]": [3000000000 - 2**32], '["3000000000"]': [3000000000 - 2**32]})
    part("[65,66]", "codeSet", dict.fromkeys(('[" 65"]', '["a"]', '"[65,66]"', "[0x41]", "[NaN]", "[65,,66]"), REFUSED))
    part('["A","B"]', "tagsSet", {"[1,2.50,true]": ["1", "2.50", "true"], '"A"': ["A"], '[["A"]]': ['["A"]']})
    time = 1795711428236
    alike = dict.fromkeys((f'"{time}"', f"{time}.0", "1.795711428236e12", f'"{time}.0"', f"+{time}"), time)
    part(f"{time}", "subVersion", {**alike, "null": 0, '""': 0, '"null"': 0, "1e19": 2**63 - 1, "true": 1, "-1": -1})
    part(f"{time}", "subVersion", dict.fromkeys(('"abc"', "99999999999999999999", "{}", '" 1"'), REFUSED))
    yes = ('"true"', '"TRUE"', "true", "1", '"1"', '"Y"')
    no = ('"false"', "0", "2", "1.0", '"0"', '"N"', "null", '""')
    wrong = ('"yes"', '"no"', '"T"', '"abc"', "{}", "[]")
    for values, shown in ((yes, True), (no, False), (wrong, REFUSED)):
        part("false", "classFilterMode", dict.fromkeys(values, shown))
    rows += [('"unitMode":false', f'"unitMode":{each}', {}) for each in (*yes, *no)]
    rows += [('"unitMode":false', f'"unitMode":{each}', REFUSED) for each in wrong]
    part(
        '"CONSUME_PASSIVELY"',
        "consumeType",
        {"0": "CONSUME_ACTIVELY", '"2"': "CONSUME_POP", "1.0": whole["consumeType"]},
    )
    part('"CLUSTERING"', "messageModel", {"0": "BROADCASTING", "1": "CLUSTERING", '"clustering"': "CLUSTERING"})
    part('"CONSUME_FROM_FIRST_OFFSET"', "consumeFromWhere", {
        "0": "CONSUME_FROM_LAST_OFFSET", "1": "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        "2": "CONSUME_FROM_MIN_OFFSET", "3": "CONSUME_FROM_MAX_OFFSET", "4": "CONSUME_FROM_FIRST_OFFSET",
        "5": "CONSUME_FROM_TIMESTAMP",
    })  # fmt: skip
    for old in ('"consumeType":"CONSUME_PASSIVELY"', '"messageModel":"CLUSTERING"'):
        name = old.partition(":")[0]
        rows += [(old, f"{name}:{each}", REFUSED) for each in ("3", "-1", "true", "{}", "[]")]
        rows += [(old, f"{name}:{each}", {}) for each in ("null", '""', '"XX"')] + [(f"{old},", "", {})]
    part('"A || B"', "subString", {"5": "5", "1.50": "1.50", "true": "true", '{"a":1}': '{"a":1}', '""': ""})
    rows += [('"subString":"A || B",', "", {}), ('"subString":"A || B"', '"subString":null', {})]
    part('"TAG"', "expressionType", {'"SQL92"': "SQL92", "5": "5"})
    for old in ('"topic":"json"', '"clientID":"192.0.2.2@x"', '"groupName":"GROUP"'):
        rows += [(old, old.partition(":")[0] + ":null", REFUSED), (f"{old},", "", REFUSED)]
    rows += [('"clientID":"192.0.2.2@x"', f'"clientID":{each}', {"clientId": each}) for each in ("5", "true", "1.5")]
    rows.append(('"clientID"', '"heartbeatFingerprint":"0","withoutSub":"false","clientID"', {}))
    made = '[{"groupName":"made"}]'
    rows += [(made, each, REFUSED) for each in ("null", '""', "{}", "[null]", "[{}]", "[5]", '["made"]')]
    rows += [(made, '{"groupName":"made"}', {}), (f'"producerDataSet":{made},', "", {})]
    for name, inner in (("subscriptionDataSet", _between(_BEAT, '"subscriptionDataSet":', ',"unitMode"')),
                        ("consumerDataSet", _between(_BEAT, '"consumerDataSet":', "", 1))):  # fmt: skip
        old = f'"{name}":{inner}'
        rows += [(old, f'"{name}":{each}', REFUSED) for each in ("null", '""', "{}", "[null]", "[5]", '["x"]')]
        rows.append((old, f'"{name}":{inner[1:-1]}', whole))
    rows += [('"unitMode":false}]}', each, whole) for each in ('"unitMode":false,}]}', '"unitMode":false}],}')]
    rows += [('{"clientID"', f'{each}{{"clientID"', whole) for each in ("/* a */", "// a\n", " \r\n\t")]
    rows += [("A || B", new, {"subString": shown}) for new, shown in (("A\n\x01", "A\n\x01"), ("\\x41\\'", "A'"))]
    for each in ('"unitMode":false}]', '"unitMode":false}]}x', '"unitMode":false}]}{}', '"unitMode":False}]}'):
        rows.append(('"unitMode":false}]}', each, REFUSED))
    rows += [("A || B", "A\\q", REFUSED), ("A || B", "\udcff", REFUSED), ('"unitMode"', "unitMode", REFUSED)]
    rows += [(_BEAT, each, REFUSED) for each in ("", "[]", "null", '"a"', "5", f"[{_BEAT}]")]
    return rows


def _between(text: str, before: str, behind: str, but: int = 0) -> str:
    begin = text.index(before) + len(before)
    return text[begin : text.index(behind, begin) if behind else len(text) - but]


def _shown(wanted: object) -> Callable[[Sequence[Answer | None]], object]:
    """Of what is shown of a group, what is wanted."""

    def read(answers: Sequence[Answer | None]) -> object:
        beat, group = answers
        assert beat is not None
        assert group is not None
        if beat.code:
            return REFUSED
        if not isinstance(wanted, dict) or group.code:
            return f"taken, and then {group.code}"
        found = json.loads(group.body)
        (member,), (topic,) = found["connectionSet"], found["subscriptionTable"].values()
        every = {"clientId": member["clientId"], **{name: found.get(name) for name in _GROUP}, **topic}
        for name in ("codeSet", "tagsSet"):
            every[name] = sorted(every.get(name, ()))
        return {name: every.get(name) for name in wanted}

    return read


# Bodies of other requests: queues that are locked, and how a group is set.

_LOCK: Final = (
    '{"consumerGroup":"GROUP","clientId":"c","mqSet":[{"topic":"json","brokerName":"b","queueId":2}],'
    '"onlyThisBroker":false}'
)
_SETTING: Final = (
    '{"groupName":"GROUP","consumeEnable":true,"consumeFromMinEnable":false,"consumeBroadcastEnable":true,'
    '"retryQueueNums":2,"retryMaxTimes":3,"brokerId":1}'
)


def _locks() -> list[tuple[str, str, object]]:
    rows: list[tuple[str, str, object]] = [
        ('"queueId":2', f'"queueId":{each}', 2) for each in ("2", '"2"', "2.0", "2.7", "'2'")
    ]
    rows += [('"queueId":2', f'"queueId":{each}', 0) for each in ("null", '""')]
    rows += [('"queueId":2', '"queueId":"a"', REFUSED), ('"mqSet":', '"mqSet":null,"y":', REFUSED)]
    rows += [("[{", "[null,{", REFUSED), ('"onlyThisBroker":false', '"onlyThisBroker":"true"', 2)]
    queue = '{"topic":"json","brokerName":"b","queueId":2}'
    return [*rows, (f"[{queue}]", queue, 2)]


def _locked(answers: Sequence[Answer | None]) -> object:
    (answer,) = answers
    assert answer is not None
    return REFUSED if answer.code else json.loads(answer.body)["lockOKMQSet"][0]["queueId"]


def _settings() -> list[tuple[str, str, object]]:
    rows: list[tuple[str, str, object]] = []
    for name, old, values in (
        ("retryMaxTimes", "3", {'"3"': 3, "3.0": 3, "3.9": 3, "null": 0, '""': 0, "true": 1, "1e10": 2**31 - 1}),
        ("retryMaxTimes", "3", dict.fromkeys(('"a"', "3000000000", '"3000000000"'), REFUSED)),
        ("brokerId", "1", {'"1"': 1, "1.5": 1, "null": 0}),
        ("consumeFromMinEnable", "false", {'"true"': True, "1": True, "null": False, '""': False, '"abc"': REFUSED}),
    ):
        rows += [(f'"{name}":{old}', f'"{name}":{new}', {name: shown}) for new, shown in values.items()]
    return rows


def _setting(name: str) -> Callable[[Sequence[Answer | None]], object]:
    def read(answers: Sequence[Answer | None]) -> object:
        made, found = answers
        assert made is not None
        assert found is not None
        return {name: REFUSED if made.code else json.loads(found.body)[name]}

    return read


def _rows() -> list[Row]:
    rows = [
        Row(f"{old} -> {new}", (framed(_changed(_HEAD, old, new)),), _end_of_queue, wanted)
        for old, new, wanted in [*_headers()[1:], (_HEAD, _HEAD.replace('"', "'"), SERVED)]
    ]
    for old, new, wanted in _beats():
        group = f"json-{len(rows)}"
        body = _changed(_BEAT, old, new).replace("GROUP", group)
        frames = (framed(_request(34), body), framed(_request(203, consumerGroup=group)))
        rows.append(Row(f"{old} -> {new}", frames, _shown(wanted), wanted))
    for old, new, wanted in _locks():
        body = _changed(_LOCK, old, new).replace("GROUP", f"json-{len(rows)}")
        rows.append(Row(f"{old} -> {new}", (framed(_request(41), body),), _locked, wanted))
    for old, new, shown in _settings():
        assert isinstance(shown, dict)
        group = f"json-{len(rows)}"
        body = _changed(_SETTING, old, new).replace("GROUP", group)
        frames = (framed(_request(200), body), framed(_request(352, group=group)))
        rows.append(Row(f"{old} -> {new}", frames, _setting(*shown), shown))
    return rows


ROWS: Final[Sequence[Row]] = tuple(_rows())
