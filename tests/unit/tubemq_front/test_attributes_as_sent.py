"""A front gives out what producers sent byte for byte, as a real broker does; see ``tubemq_wire`` for which."""

from __future__ import annotations

from penstock.protocols.tubemq.errors import Code
from penstock.protocols.tubemq.wire.rpc import SEND_MESSAGE
from tests.unit.tubemq_front.kit import Kit, run, sent
from tests.unit.tubemq_wire.test_attributes_as_sent import ATTRIBUTES, payload


def test_a_consumer_gets_what_the_producer_sent() -> None:
    async def check(kit: Kit) -> None:
        said = [payload(each, b"body") for each in ATTRIBUTES]
        for each in said:
            await kit.put(each, flag=1)
        await kit.book()
        assert [(message.pay_load_data, message.flag) for message in (await kit.get()).messages] == [
            (each, 1) for each in said
        ]

    run(check)


def test_attributes_longer_than_their_message_are_refused_in_words() -> None:
    """A real broker takes such a message, and gives it to nobody."""

    async def check(kit: Kit) -> None:
        for data in (b"\x00\x00\x00\x09a=b", b"\xff\xff\xff\xff", b"\x00"):
            answer = await kit.ask(SEND_MESSAGE, sent(data, flag=1))
            assert answer.err_code == Code.BAD_REQUEST
            assert "attributes" in answer.err_msg

    run(check)
