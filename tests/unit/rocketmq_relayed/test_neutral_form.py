"""Topics of a cluster as batches of records: in which order they are written, and what is told where brokers fail."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from penstock.errors import (
    BatchTooLarge,
    LogOffsetOutOfRange,
    OutcomeUnknown,
    PenstockError,
    ProtocolViolation,
    UnknownPartition,
    UnknownTopic,
    Unsupported,
    UpstreamLost,
)
from penstock.interfaces.enode import Budget, Enode, FetchPart, extent, fetch_one
from penstock.model import Committed, Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server.refusals import code_of
from penstock.protocols.rocketmq.backend.topics import Numbering
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from penstock.protocols.rocketmq.wire.message_format import StoredMessage, read_batch, write_stored
from penstock.protocols.tubemq.errors import refusal
from penstock.records.scalar_codec import Stored, encode_batch, stored_records
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_relayed.kit import Server, World, ok, run
from tests.unit.rocketmq_relayed.test_pulls import now

SEND, PULL, MAX, MIN = 320, 11, 30, 31
AT = Partition("t", 0)  # queue 0 of broker a
NEXT = Partition("t", 1)  # queue 0 of broker b


def batch(*values: bytes, time_ms: int = 1) -> memoryview:
    return encode_batch([Stored(0, time_ms, True, None, value, ()) for value in values])


class Queue:
    """A broker with one queue that is kept as it should be. ``shown``: how many of its messages it admits to."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.hidden = 0
        self.store_ms: list[int] = []

    def serves(self, server: Server, asked: RemotingCommand) -> RemotingCommand | None:
        del server
        if asked.code == SEND:
            first = len(self.bodies)
            self.bodies += [inner.body for inner in read_batch(memoryview(asked.body))]
            return ok(fields={"msgId": "x", "queueId": "0", "queueOffset": str(first)})
        if asked.code == PULL:
            return self._pulled(asked)
        if asked.code in (MAX, MIN):
            return ok(fields={"offset": str(self.shown if asked.code == MAX else 0)})
        return ok()

    @property
    def shown(self) -> int:
        return len(self.bodies) - self.hidden

    def _pulled(self, asked: RemotingCommand) -> RemotingCommand | None:
        offset, most = int(asked.fields["queueOffset"]), int(asked.fields["maxMsgNums"])
        found = range(offset, min(offset + most, self.shown))
        where = {"nextBeginOffset": str(max(found.stop, 0)), "minOffset": "0", "maxOffset": str(self.shown)}
        where["suggestWhichBrokerId"] = "0"
        if offset > self.shown:
            return ok(fields={**where, "nextBeginOffset": str(self.shown)}, code=Code.PULL_OFFSET_MOVED)
        if not found:
            return ok(fields={**where, "nextBeginOffset": str(offset)}, code=Code.PULL_NOT_FOUND)
        times = dict(enumerate(self.store_ms))
        messages = [
            write_stored(
                StoredMessage(
                    topic="t", queue_offset=n, body=self.bodies[n], born_ms=times.get(n, 1), store_ms=times.get(n, 1)
                )
            )
            for n in found
        ]
        return ok(b"".join(messages), where)


def values(data: object) -> list[bytes | None]:
    assert isinstance(data, bytes | bytearray | memoryview)
    return [record.value for record in stored_records(data, 0)]


async def told(enode: Enode, *batches: memoryview, at: Partition = AT) -> Sequence[object]:
    return await enode.append_all([(at, each) for each in batches])


def test_appends_to_a_queue_are_stored_in_their_order_one_request_at_a_time() -> None:
    async def test(world: World) -> None:
        queue, asked = Queue(), list[RemotingCommand]()

        def keep(server: Server, command: RemotingCommand) -> RemotingCommand | None:
            del server
            asked.append(command)
            return None

        world.serve(keep, "a:0")
        enode = world.node.enode
        work = [asyncio.ensure_future(enode.append(AT, batch(b"%d" % n, time_ms=n + 1))) for n in range(6)]
        await passing(0.1)
        assert len(asked) == 1  # the others wait for its answer
        server = world.brokers["a:0"]
        answer = queue.serves(server, asked[0])
        assert answer is not None
        world.serve(queue.serves, "a:0")
        server.answer(server.of(SEND)[0], answer)
        found = [await each for each in work]
        assert [(each.base_offset, each.last_offset) for each in found] == [(n, n) for n in range(6)]
        assert queue.bodies == [b"%d" % n for n in range(6)]
        assert len(server.of(SEND)) == 2  # and go together then
        records = (await fetch_one(enode, FetchPart(AT, 0, 1_000))).read()
        assert [record.offset for record in stored_records(records, 0)] == list(range(6))

    run(test)


def test_a_batch_too_large_for_one_request_is_parted_and_stays_one_for_who_sent_it() -> None:
    async def test(world: World) -> None:
        queue = Queue()
        world.serve(queue.serves, "a:0")
        parts = [b"%d" % n * 400_000 for n in range(6)]
        (found,) = await told(world.node.enode, batch(*parts))
        assert (found.base_offset, found.last_offset) == (0, 5)  # type: ignore[attr-defined]
        assert len(world.brokers["a:0"].of(SEND)) == 3
        assert queue.bodies == parts
        (read,) = await world.node.enode.fetch([FetchPart(AT, 0, 1_000_000)], Budget())
        assert not isinstance(read, PenstockError)
        assert (values(read.read()), read.next_offset) == (parts[:2], 2)

    run(test)


@pytest.mark.parametrize(
    ("code", "error"),
    [(2, UpstreamLost), (14, UpstreamLost), (13, BatchTooLarge), (16, Unsupported), (17, UnknownTopic)],
)
def test_what_a_broker_refuses_stands_in_the_place_of_its_batch(code: int, error: type[PenstockError]) -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: RemotingCommand(code, remark="no"), "a:0")
        world.serve(Queue().serves, "b:0")
        found = await world.node.enode.append_all([(AT, batch(b"1")), (NEXT, batch(b"2"))])
        assert isinstance(found[0], error)
        assert not isinstance(found[1], PenstockError)

    run(test)


def test_a_slow_broker_is_waited_for_and_what_it_stored_is_stored_once() -> None:
    async def test(world: World) -> None:
        queue, server = Queue(), world.brokers["a:0"]

        def slowly(server: Server, asked: RemotingCommand) -> None:
            said = queue.serves(server, asked)
            assert said is not None
            said = said._replace(opaque=asked.opaque, flag=1)
            asyncio.get_running_loop().call_later(20, server.by[-1].write, said)

        world.serve(slowly, "a:0")
        (found,) = await told(world.node.enode, batch(b"1"))
        assert not isinstance(found, PenstockError)
        assert now() == pytest.approx(20, abs=0.1)
        assert (queue.bodies, len(server.of(SEND))) == ([b"1"], 1)

    run(test)


def test_a_send_that_is_not_answered_is_not_sent_again_and_what_waits_behind_it_is_given_back() -> None:
    """In that order the producer learns it before it would send again by itself, 30 s after it sent."""

    async def test(world: World) -> None:
        world.serve(lambda server, asked: None, "a:0")
        first = asyncio.ensure_future(told(world.node.enode, batch(b"1")))
        await passing(1)
        second = asyncio.ensure_future(told(world.node.enode, batch(b"2")))
        (found,), (behind,) = await first, await second
        assert isinstance(found, OutcomeUnknown)
        assert isinstance(behind, UpstreamLost)
        assert (found.retriable, behind.retriable) == (False, True)
        assert (code_of(found), code_of(behind)) == (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert refusal(found).code == 501
        assert now() == pytest.approx(25, abs=0.1)
        assert len(world.brokers["a:0"].of(SEND)) == 1

    run(test)


def test_what_was_acknowledged_is_in_the_log_though_its_broker_does_not_show_it_yet() -> None:
    async def test(world: World) -> None:
        queue = Queue()
        world.serve(queue.serves, "a:0")
        enode = world.node.enode
        queue.hidden = 1
        await told(enode, batch(b"1"))
        assert (await extent(enode, AT)).end == 1
        read = await fetch_one(enode, FetchPart(AT, 1, 1_000))
        assert (read.read(), read.end) == (b"", 1)
        assert world.brokers["a:0"].of(PULL)[0].fields["sysFlag"] == "4"
        queue.hidden = 0
        assert values((await fetch_one(enode, FetchPart(AT, 0, 1_000))).read()) == [b"1"]
        with pytest.raises(LogOffsetOutOfRange) as gone:
            await fetch_one(enode, FetchPart(AT, 2, 1_000))
        assert (gone.value.start_offset, gone.value.end_offset) == (0, 1)

    run(test)


def test_who_reads_what_is_behind_gets_many_answers_as_one_batch() -> None:
    async def test(world: World) -> None:
        queue = Queue()
        queue.bodies = [b"%d" % n for n in range(300)]
        world.serve(queue.serves, "a:0")
        read = await fetch_one(world.node.enode, FetchPart(AT, 5, 1 << 20))
        assert values(read.read()) == queue.bodies[5:]
        assert (read.next_offset, read.start, read.end) == (300, 0, 300)
        assert len(world.brokers["a:0"].of(PULL)) == 10

    run(test)


def test_bytes_that_are_no_messages_are_an_error_and_no_records() -> None:
    async def test(world: World) -> None:
        where = {"nextBeginOffset": "1", "minOffset": "0", "maxOffset": "1", "suggestWhichBrokerId": "0"}
        world.serve(lambda server, asked: ok(b"\x00\x00\x00\x09nonsense", where), "a:0")
        with pytest.raises(ProtocolViolation):
            await fetch_one(world.node.enode, FetchPart(AT, 0, 1_000))
        world.serve(lambda server, asked: ok(b"", {"nextBeginOffset": "what"}), "a:0")
        with pytest.raises(UpstreamLost, match="makes no sense"):
            await fetch_one(world.node.enode, FetchPart(AT, 0, 1_000))

    run(test)


def test_all_who_wait_at_one_place_hold_one_pull_and_hear_of_the_same_message() -> None:
    async def test(world: World) -> None:
        server = world.brokers["a:0"]
        world.serve(lambda server, asked: None, "a:0")
        enode = world.node.enode
        waiting = [enode.arrival({AT: 0}) for _ in range(3)]
        enode.forget_arrival(waiting.pop())
        await passing(0.1)
        (held,) = server.of(PULL)
        assert (held.fields["sysFlag"], held.fields["queueOffset"]) == ("6", "0")
        queue = Queue()
        queue.bodies = [b"1"]
        answer = queue.serves(server, held)
        assert answer is not None
        server.answer(held, answer)
        await passing(0.1)
        assert all(each.done for each in waiting)

    run(test)


def test_a_time_is_looked_for_in_halves_and_read_on_from_there() -> None:
    async def test(world: World) -> None:
        queue = Queue()
        queue.store_ms = [1_000_000 + 10_000 * n for n in range(1_000)]
        queue.bodies = [b"x"] * 1_000
        world.serve(queue.serves, "a:0")
        enode = world.node.enode
        assert await enode.offset_for_time(AT, 0) == (0, 1_000_000)
        assert await enode.offset_for_time(AT, 1_005_001) == (1, 1_010_000)
        assert await enode.offset_for_time(AT, 10_990_000) == (999, 10_990_000)
        assert await enode.offset_for_time(AT, 10_990_001) is None
        assert len(world.brokers["a:0"].of(PULL)) < 60

    run(test)


def test_a_broker_that_name_servers_forget_keeps_the_numbers_of_its_partitions() -> None:
    async def test(world: World) -> None:
        enode = world.node.enode
        before = [(place.node, place.id) for place in await enode.places("t")]
        assert before == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
        del world.addresses["a"]
        await passing(11)
        assert [(place.node, place.id) for place in await enode.places("t")] == before
        with pytest.raises(UnknownPartition):
            await extent(enode, Partition("t", 4))
        with pytest.raises(UnknownTopic):
            await extent(enode, Partition("none", 0))

    run(test)


def test_numbers_stay_while_brokers_come_and_go_and_topics_grow() -> None:
    numbering = Numbering()
    numbering.update({"b": 2, "a": 2})
    first = list(numbering.queues)
    for counts in ({"a": 2}, {"b": 2, "a": 2}, {"c": 1}, {"a": 3, "b": 2, "c": 1}):
        numbering.update(counts)
        assert numbering.queues[: len(first)] == first
    assert numbering.queues[4:] == [("c", 0), ("a", 2)]
    assert [numbering.number(queue) for queue in numbering.queues] == list(range(6))
    numbering.update({"a": 1, "b": 2, "c": 1})
    assert numbering.queues == [("a", 0), ("b", 0), ("b", 1), ("c", 0)]


def test_a_group_of_other_protocols_commits_at_the_broker_of_each_queue_and_is_made_there() -> None:
    async def test(world: World) -> None:
        tables: dict[str, dict[str, dict[int, int]]] = {"a": {}, "b": {}}
        known: set[str] = set()

        def serves(name: str, asked: RemotingCommand) -> RemotingCommand:
            if asked.code == 43:
                return ok(repr({"offsetTable": tables[name]}).replace("'", '"').encode())
            if asked.code == 200:
                known.add(name)
            if asked.code == 15 and name not in known:
                return ok(code=Code.SUBSCRIPTION_GROUP_NOT_EXIST)
            if asked.code == 15:
                key = f"{asked.fields['topic']}@{asked.fields['consumerGroup']}"
                tables[name].setdefault(key, {})[int(asked.fields["queueId"])] = int(asked.fields["commitOffset"])
            return ok()

        world.serve(lambda server, asked: serves("a", asked), "a:0")
        world.serve(lambda server, asked: serves("b", asked), "b:0")
        offsets = world.front.around.services.offsets
        await offsets.commit("my.group", {AT: Committed(5), NEXT: Committed(7)})
        assert tables == {"a": {"t@my%u2e%group": {0: 5}}, "b": {"t@my%u2e%group": {0: 7}}}
        assert {at: each.offset for at, each in (await offsets.committed("my.group")).items()} == {AT: 5, NEXT: 7}
        assert list(await offsets.groups()) == ["my.group"]
        await offsets.forget("my.group", lambda at, _: at == AT)
        assert {at: each.offset for at, each in (await offsets.committed("my.group")).items()} == {NEXT: 7}
        world.serve(lambda server, asked: None, "b:0")  # away: nobody can have committed there since
        await passing(2)
        assert {at: each.offset for at, each in (await offsets.committed("my.group")).items()} == {NEXT: 7}

    run(test)
