"""JSON that is not quite JSON: what real brokers take of others' clients is taken as they do, and nothing else."""

from __future__ import annotations

import json

from penstock.errors import ProtocolViolation
from penstock.protocols.rocketmq.wire.framing import command_of, encode
from tests.rocketmq_json import NOT_SERVED, PREPARED, ROWS, Answer, Row
from tests.unit.rocketmq_front.kit import Client, Kit, run


async def answered(client: Client, row: Row) -> object:
    answers: list[Answer | None] = []
    for frame in row.frames:
        try:
            found = await client.send(frame)
        except ProtocolViolation:
            answers.append(None)
            continue
        assert found is not None
        wire = b"".join(encode(command_of(found)))
        size = int.from_bytes(wire[5:8], "big")
        answers.append(Answer(json.loads(wire[8 : 8 + size]), wire[8 + size :]))
    client.session.lost()
    return row.read(answers)


def test_what_brokers_take_is_taken_with_the_same_values_and_what_they_refuse_is_refused() -> None:
    async def check(kit: Kit) -> None:
        for topic in PREPARED:
            kit.store.create_topic(topic, 4)
            await kit.put(b"x", topic, 3)
        wrong = []
        for row in ROWS:
            found = await answered(kit.client(), row)
            if row.wanted == NOT_SERVED and found in {NOT_SERVED, (7, 1, None)}:
                continue
            if found != row.wanted:
                wrong.append((row.title, found, row.wanted))
        assert not wrong

    run(check)
