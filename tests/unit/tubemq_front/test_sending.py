"""Sending messages to the front: what is stored, what is refused."""

import asyncio

import pytest

from penstock.interfaces.enode import FetchPart, extent, fetch_one
from penstock.model import Codec, Partition
from penstock.protocols.tubemq.server.context import TubeFrontOptions
from penstock.protocols.tubemq.wire.records import pack
from penstock.protocols.tubemq.wire.rpc import SEND_MESSAGE
from penstock.records.batch import batches
from tests.unit.tubemq_front.kit import Kit, bodies, run, sent
from tests.unit.tubemq_front.web import call

ATTRIBUTES = b"$msgType$=blue,$msgTime$=202611201019,seq=19"
WITH_ATTRIBUTES = len(ATTRIBUTES).to_bytes(4, "big") + ATTRIBUTES + b"body"


def test_offsets_count_in_28s_and_each_partition_counts_alone() -> None:
    async def check(kit: Kit) -> None:
        assert await kit.put(b"a", b"b", b"c") == [0, 28, 56]
        assert await kit.put(b"d", partition=10_000) == [0]

    run(check)


def test_a_message_and_its_attributes_come_back_as_they_were() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"plain")
        await kit.put(WITH_ATTRIBUTES, flag=1)
        await kit.book()
        answer = await kit.get()
        assert [message.flag for message in answer.messages] == [0, 1]
        assert bodies(answer) == [b"plain", WITH_ATTRIBUTES]

    run(check)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic_name": "nosuch"}, 403),
        ({"topic_name": " "}, 400),
        ({"topic_name": "__consumer_offsets"}, 403),
        ({"topic_name": "__offset_history__"}, 403),
        ({"partition_id": 7}, 403),
        ({"partition_id": 20_000}, 403),
        ({"partition_id": -10_000}, 403),
        ({"check_sum": 5}, 403),
        ({"flag": 1}, 400),
    ],
)
def test_what_does_not_fit_is_refused_and_not_stored(change: dict[str, object], code: int) -> None:
    async def check(kit: Kit) -> None:
        answer = await kit.ask(SEND_MESSAGE, sent(b"hello", **change))
        assert (answer.success, answer.err_code) == (False, code)
        assert (await extent(kit.enode, Partition("demo", 0)))[:2] == (0, 0)

    run(check)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"client_id": " "}, "Request miss necessary clientId data!"),
        ({"client_id": "c" * 1_025}, "clientId's length over max value, allowed max length is 1024"),
        ({"topic_name": ""}, "Request miss necessary topicName data!"),
        ({"topic_name": "__consumer_offsets"}, "topicName __consumer_offsets does not allow producers to send data!"),
    ],
)
def test_names_are_looked_at_with_each_message_that_says_others(change: dict[str, str], said: str) -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"one")
        message = sent(b"hello")
        for field, value in change.items():
            setattr(message, field, value)
        for _ in range(2):  # what was refused is not remembered
            answer = await kit.ask(SEND_MESSAGE, message)
            assert (answer.success, answer.err_msg) == (False, said)
        assert await kit.put(b"two") == [28]

    run(check)


def test_names_with_blanks_are_trimmed_each_time() -> None:
    async def check(kit: Kit) -> None:
        message = sent(b"hello", topic_name=" demo\t")
        answers = [await kit.ask(SEND_MESSAGE, message) for _ in range(3)]
        assert [answer.append_offset for answer in answers] == [0, 28, 56]

    run(check)


def test_messages_are_stored_in_the_codec_that_their_topic_wants() -> None:
    async def check(kit: Kit) -> None:
        await kit.enode.set_config("demo", {"compression.type": "zstd"})
        await kit.put(b"plain", b"again")
        data = (await fetch_one(kit.enode, FetchPart(Partition("demo", 0), 0, 1 << 20))).read()
        assert {header.codec for header in batches(data)} == {Codec.ZSTD}
        await kit.book()
        assert bodies(await kit.get()) == [b"plain", b"again"]

    run(check)


def test_the_right_checksum_is_accepted() -> None:
    async def check(kit: Kit) -> None:
        answer = await kit.ask(SEND_MESSAGE, sent(b"hello", check_sum=907060870))
        assert answer.success

    run(check)


def test_the_largest_message_is_taken_and_a_larger_one_is_not() -> None:
    async def check(kit: Kit) -> None:
        most = (1 << 20) + 10_240
        assert (await kit.ask(SEND_MESSAGE, sent(bytes(most)))).success
        assert (await kit.ask(SEND_MESSAGE, sent(bytes(most + 1)))).err_code == 400
        assert (await kit.ask(SEND_MESSAGE, sent(b""))).err_code == 400

    run(check)


@pytest.mark.near  # by columns of 20 MiB a run takes a second
@pytest.mark.parametrize("mega", [4, 20])
def test_a_topic_takes_messages_as_large_as_its_operator_says_and_gives_them_out(mega: int) -> None:
    """20 is the most that a real master allows; attributes may come on top."""

    async def check(kit: Kit) -> None:
        given = {"topicName": "demo", "maxMsgSizeInMB": mega, "modifyUser": "me"}
        limit = await call(kit, "admin_update_topic_control_info", **given)
        assert limit["data"][0]["success"]
        largest = b"begin" + bytes((mega << 20) + 10_240 - 8) + b"end"
        assert (await kit.ask(SEND_MESSAGE, sent(largest))).success
        assert (await kit.ask(SEND_MESSAGE, sent(largest + b"x"))).err_code == 400
        await kit.book()
        assert bodies(await kit.get()) == [largest]

    run(check)


@pytest.mark.lossless("what is sent again comes later than what came together")
def test_messages_that_come_together_are_stored_in_order_and_in_few_batches(distance: int) -> None:
    # Far away they do not come together: each waits until the topic was looked up for the one before.
    most_batches = 20 if distance else 1

    async def check(kit: Kit) -> None:
        clients = [kit.client() for _ in range(20)]
        answers = await asyncio.gather(
            *(client.ask(SEND_MESSAGE, sent(b"%d" % row)) for row, client in enumerate(clients))
        )
        assert [answer.append_offset for answer in answers] == [28 * row for row in range(20)]
        stored = list(batches((await fetch_one(kit.enode, FetchPart(Partition("demo", 0), 0, 1 << 20))).read()))
        assert stored[-1].next_offset == 20
        assert len(stored) <= most_batches

    run(check)


@pytest.mark.near  # far away messages do not come together
def test_more_than_may_wait_is_refused_until_there_is_room_again() -> None:
    async def check(kit: Kit) -> None:
        clients = [kit.client() for _ in range(3)]
        answers = await asyncio.gather(*(client.ask(SEND_MESSAGE, sent(bytes(400))) for client in clients))
        assert [answer.err_code for answer in answers] == [200, 200, 419]
        assert (await kit.ask(SEND_MESSAGE, sent(bytes(400)))).success

    run(check, TubeFrontOptions(pending_bytes=1_000))


def test_a_compacted_topic_wants_keys() -> None:
    async def check(kit: Kit) -> None:
        kit.store.create_topic("kept", 1, {"cleanup.policy": "compact"})
        assert (await kit.ask(SEND_MESSAGE, sent(b"x", topic_name="kept"))).err_code == 400
        keyed, flag = pack(b"k", b"x")
        assert (await kit.ask(SEND_MESSAGE, sent(keyed, topic_name="kept", flag=flag))).success

    run(check)
