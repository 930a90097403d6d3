"""Before any server has answered, every public call ends within ``first_contact_timeout_ms``, and says what was tried.

The tables below have a row for each public method and each verb: one without a row fails the test.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import pyarrow as pa
import pytest

import penstock
from penstock import (
    BatchDelivery,
    ConnectionLost,
    Delivery,
    FirstContactTimeout,
    LogRange,
    NewTopic,
    Offset,
    OffsetSpec,
    Partition,
    PenstockError,
    PreparedTransaction,
    ResetTo,
    UsageError,
)
from penstock.cli import app
from penstock.testing import Broker
from tests.unit.cli.running import penstock as run_verb

T = TypeVar("T")
LIMIT_MS: Final = 400
SLACK_S: Final = 8.0
"""For a busy machine: the usual timeouts are 30 s and more."""
USUAL: Final[Mapping[str, Any]] = {"first_contact_timeout_ms": LIMIT_MS}
ANSWERED: Final[Mapping[str, Any]] = {"first_contact_timeout_ms": 20_000}
"""Where something else answers, nothing waits for the deadline, and a busy machine may be slow to hear it."""
SCHEMES: Final = ("kafka", "rocketmq", "tubemq")
PLACES: Final = ("nobody", "silent", "http")

AT: Final = Partition("topic", 0)
Step = tuple[str, tuple[Any, ...], dict[str, Any]]


def call(name: str, *args: Any, **kwargs: Any) -> Step:
    return name, args, kwargs


@dataclass(frozen=True)
class Row:
    """The calls of one client, of which the last is looked at; with options of its own.

    ``refused``: protocols that cannot do it at all, which they say (UsageError, or nothing) without asking a server.
    ``web``: TubeMQ's masters do it at their web port alone, which is asked once.
    """

    steps: Sequence[Step]
    options: Mapping[str, Any] = field(default_factory=dict)
    refused: Sequence[str] = ()
    web: bool = False


def row(*steps: Step, refused: Sequence[str] = (), web: bool = False, **options: Any) -> Row:
    return Row(steps, options, refused, web)


NOT_TUBEMQ: Final = ("tubemq",)
KAFKA_ONLY: Final = ("rocketmq", "tubemq")


GROUPED: Final[Mapping[str, Any]] = {"group": "group"}
ASSIGNED: Final = call("assign", [AT])
OFFSETS: Final[Mapping[str, Row]] = {
    "beginning_offsets": row(call("beginning_offsets", [AT])),
    "end_offsets": row(call("end_offsets", [AT])),
    "offsets_for_times": row(call("offsets_for_times", {AT: 1}), refused=NOT_TUBEMQ),
}
ADMIN: Final[Mapping[str, Row]] = {
    **OFFSETS,
    "create_topics": row(call("create_topics", [NewTopic("topic", 1)]), web=True),
    "delete_topics": row(call("delete_topics", ["topic"]), web=True),
    "add_partitions": row(call("add_partitions", "topic", 2), web=True),
    "topics": row(call("topics", ["topic"])),
    "topic_config": row(call("topic_config", "topic"), web=True),
    "describe_topic_config": row(call("describe_topic_config", "topic"), web=True),
    "alter_topic_config": row(call("alter_topic_config", "topic", {"a": "1"}), refused=["rocketmq"], web=True),
    "delete_records": row(call("delete_records", {AT: 1}), refused=KAFKA_ONLY),
    "groups": row(call("groups"), web=True),
    "describe_group": row(call("describe_group", "group"), web=True),
    "describe_groups": row(call("describe_groups", ["group", "other"]), web=True),
    "rebalances": row(call("rebalances", "group"), refused=KAFKA_ONLY),
    "delete_groups": row(call("delete_groups", ["group"]), web=True),
    "committed": row(call("committed", "group", [AT])),
    "commit": row(call("commit", "group", {AT: 1})),
    "lag": row(call("lag", "group"), web=True),
    "group_offsets": row(call("group_offsets", "group"), web=True),
    "reset_offsets": row(call("reset_offsets", "group", ResetTo.earliest(), topics=["topic"]), web=True),
    "delete_offsets": row(call("delete_offsets", "group", [AT]), refused=["rocketmq"], web=True),
    "remove_members": row(call("remove_members", "group"), refused=KAFKA_ONLY),
    "find": row(call("find", "topic", key="key"), refused=["kafka", "tubemq"]),
    "complete_transaction": row(call("complete_transaction", PreparedTransaction("id", 1, 0)), refused=KAFKA_ONLY),
}
READER: Final[Mapping[str, Row]] = {
    **OFFSETS,
    "read": row(call("read", LogRange("topic", 0, 0, 1))),
    "topics": row(call("topics", ["topic"])),
    "offsets": row(call("offsets", {AT: OffsetSpec(name=Offset.LATEST)})),
    "committed": row(call("committed", "group", [AT])),
    "truncated": row(call("truncated", {AT: (1, 1)}), refused=KAFKA_ONLY),
    "peek": row(call("peek", [LogRange("topic", 0, 0, 1)])),
}
CONSUMER: Final[Mapping[str, Row]] = {
    **OFFSETS,
    "poll": row(call("subscribe", ["topic"]), call("poll", 30.0)),
    "poll as a member": row(call("subscribe", ["topic"]), call("poll", 30.0), **GROUPED),
    "poll as a newer member": row(
        call("subscribe", ["topic"]), call("poll", 30.0), group_protocol="consumer", **GROUPED
    ),
    "poll of what is assigned": row(ASSIGNED, call("poll", 30.0)),
    "poll for a pattern": row(call("subscribe", pattern="top.*"), call("poll", 30.0), web=True),
    "iteration": row(call("subscribe", ["topic"]), call("iteration"), **GROUPED),
    "partitions_for": row(call("partitions_for", "topic")),
    "available_partitions_for": row(call("available_partitions_for", "topic")),
    "partitions_ready": row(call("subscribe", ["topic"]), call("partitions_ready", 30.0), **GROUPED),
    "position": row(ASSIGNED, call("position", AT)),
    "commit": row(ASSIGNED, call("commit", {AT: 1}), **GROUPED),
    "committed": row(call("committed", [AT]), **GROUPED),
}
TRANSACTIONS: Final[Mapping[str, Any]] = {"transactional_id": "id"}
PRODUCER: Final[Mapping[str, Row]] = {
    "send": row(call("send", "topic", b"value")),
    "send without numbers": row(call("send", "topic", b"value"), enable_idempotence=False),
    "send_batch": row(call("send_batch", "topic", pa.table({"value": [b"value"]}))),
    "partitions_for": row(call("partitions_for", "topic")),
    "flush": row(call("send", "topic", b"value"), call("flush")),
    "close": row(call("send", "topic", b"value"), call("close")),
    "init_transactions": row(call("init_transactions"), refused=NOT_TUBEMQ, **TRANSACTIONS),
    "transaction": row(call("transaction"), refused=NOT_TUBEMQ, **TRANSACTIONS),
    "transaction in the producer's block": row(
        call("entered"), call("transaction"), refused=NOT_TUBEMQ, **TRANSACTIONS
    ),
    "begin_transaction": row(call("entered"), call("begin_transaction"), refused=NOT_TUBEMQ, **TRANSACTIONS),
}
TABLES: Final[Mapping[type, Mapping[str, Row]]] = {
    penstock.Admin: ADMIN,
    penstock.AsyncAdmin: ADMIN,
    penstock.RangeReader: READER,
    penstock.Consumer: CONSUMER,
    penstock.AsyncConsumer: CONSUMER,
    penstock.Producer: PRODUCER,
    penstock.AsyncProducer: PRODUCER,
}
_OF_WHAT_IS_KNOWN: Final = "metrics assignment subscription group_metadata partition_status empty_reason paused"
_FOR_LATER: Final = "subscribe assign unsubscribe seek seek_to_beginning seek_to_end pause resume commit_async"
ASKS_NOTHING: Final[Mapping[type, str]] = {
    penstock.Admin: "close",
    penstock.RangeReader: "close bad_records_total",
    penstock.Consumer: f"{_OF_WHAT_IS_KNOWN} {_FOR_LATER} enforce_rebalance wakeup close reject send_back",
    # All but the first belong to a transaction that is open, which needs a server's answer.
    penstock.Producer: "metrics answer_checks send_offsets_to_transaction prepare_transaction commit_transaction"
    " abort_transaction",
}
"""What needs no server, or only what a server has given before."""


class Servers:
    """Addresses by what is there."""

    def __init__(self, silent: int, http: int, nobody: int) -> None:
        self.ports = {"silent": silent, "http": http, "nobody": nobody}

    def address(self, scheme: str, place: str) -> str:
        return f"{scheme}://127.0.0.1:{self.ports[place]}"


@contextmanager
def listening(says: bytes) -> Iterator[int]:
    """A port that takes connections, and says this once it was asked something; ``b""``: nothing."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=512)) as server:

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                if says:
                    await reader.read(1)
                    writer.write(says)
                    await writer.drain()
                await reader.read()
            writer.close()

        async def serve(ready: threading.Event, stop: list[Callable[[], object]]) -> None:
            over = asyncio.Event()
            loop = asyncio.get_running_loop()
            listener = await asyncio.start_server(answer, sock=server)
            stop.append(lambda: loop.call_soon_threadsafe(over.set))
            ready.set()
            await over.wait()
            listener.close()

        ready, stop = threading.Event(), list[Callable[[], object]]()
        thread = threading.Thread(target=lambda: asyncio.run(serve(ready, stop)))
        thread.start()
        ready.wait()
        try:
            yield server.getsockname()[1]
        finally:
            stop[0]()
            thread.join()


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with (
        listening(b"") as silent,
        listening(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n") as http,
        closing(socket.socket()) as bound,
    ):
        bound.bind(("127.0.0.1", 0))
        yield Servers(silent, http, bound.getsockname()[1])


# Running a row.


def run(kind: type, address: str, row: Row, limit: Mapping[str, Any]) -> None:
    with contextlib.ExitStack() as stack:
        client = kind(address, **{**limit, **row.options})
        stack.callback(client.close, *([0.0] if "timeout_s" in inspect.signature(client.close).parameters else []))
        for name, args, kwargs in row.steps:
            if name == "entered":
                client.__enter__()
            elif name == "transaction":
                with client.transaction():
                    pass
            elif name == "iteration":
                next(iter(client))
            else:
                found = getattr(client, name)(*args, **kwargs)
                if isinstance(found, Iterator):
                    next(found)
                elif isinstance(found, Delivery | BatchDelivery) and row.steps[-1][0] == name:
                    found.result(60)


async def run_async(kind: type, address: str, row: Row, limit: Mapping[str, Any]) -> None:
    client = kind(address, **{**limit, **row.options})
    try:
        for name, args, kwargs in row.steps:
            if name == "entered":
                await client.__aenter__()
            elif name == "transaction":
                async with client.transaction():
                    pass
            elif name == "iteration":
                await anext(aiter(client))
            else:
                found = getattr(client, name)(*args, **kwargs)
                found = await found if inspect.isawaitable(found) else found
                if isinstance(found, Delivery | BatchDelivery) and row.steps[-1][0] == name:
                    await found
    finally:
        with contextlib.suppress(PenstockError):
            await (client.close(0.0) if "timeout_s" in inspect.signature(client.close).parameters else client.close())


@dataclass(frozen=True)
class Ending:
    kind: type
    name: str
    scheme: str
    place: str
    refused: bool
    web: bool
    seconds: float
    error: BaseException | None

    def __str__(self) -> str:
        what = f"{self.kind.__name__}.{self.name} at {self.scheme}, {self.place}"
        return f"{what}: {self.seconds:.1f} s, {type(self.error).__name__}: {self.error}"

    @property
    def wrong(self) -> str | None:
        """What is wrong with it."""
        if self.seconds > LIMIT_MS / 1_000 + SLACK_S:
            return f"took too long: {self}"
        if self.refused:
            return None if self.error is None or isinstance(self.error, UsageError) else f"should be refused: {self}"
        if self.place == "http":
            told = self.error is None or (isinstance(self.error, PenstockError) and "HTTP" in str(self.error))
            return None if told else f"does not say that HTTP is spoken there: {self}"
        others = (ConnectionLost, UsageError) if self.web else ()
        if not isinstance(self.error, (FirstContactTimeout, *others)):
            return f"another error: {self}"
        said = {"nobody": "Connection refused", "silent": "does not answer|no answer"}[self.place]
        # A loop that others keep busy for so long has not tried anything.
        said = f"({said}|not connected yet)"
        told = re.search(said, str(self.error)) is not None and "127.0.0.1:" in str(self.error)
        return None if told else f"does not say what was tried: {self}"


def all_rows() -> Iterator[tuple[type, str, Row, str, str]]:
    for kind, table in TABLES.items():
        for name, each in table.items():
            for scheme in SCHEMES:
                if scheme != "kafka" and "newer" in name:
                    continue
                for place in PLACES:
                    yield kind, name, each, scheme, place


def ended(kind: type, name: str, each: Row, scheme: str, place: str, servers: Servers) -> Ending:
    begun = time.monotonic()
    error: BaseException | None = None
    try:
        run(kind, servers.address(scheme, place), each, ANSWERED if place == "http" else USUAL)
    except Exception as raised:
        error = raised
    return Ending(
        kind,
        name,
        scheme,
        place,
        scheme in each.refused,
        each.web and scheme == "tubemq",
        time.monotonic() - begun,
        error,
    )


async def ended_async(kind: type, name: str, each: Row, scheme: str, place: str, servers: Servers) -> Ending:
    begun = time.monotonic()
    error: BaseException | None = None
    try:
        await run_async(kind, servers.address(scheme, place), each, ANSWERED if place == "http" else USUAL)
    except Exception as raised:
        error = raised
    return Ending(
        kind,
        name,
        scheme,
        place,
        scheme in each.refused,
        each.web and scheme == "tubemq",
        time.monotonic() - begun,
        error,
    )


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_public_call_ends_in_time_and_says_what_was_tried(servers: Servers, scheme: str) -> None:
    rows = [each for each in all_rows() if each[3] == scheme]
    blocking = [each for each in rows if not each[0].__name__.startswith("Async")]

    async def others() -> list[Ending]:
        at_once = asyncio.Semaphore(32)

        async def one(each: tuple[type, str, Row, str, str]) -> Ending:
            async with at_once:
                return await ended_async(*each, servers)

        return await asyncio.gather(*(one(each) for each in rows if each not in blocking))

    with ThreadPoolExecutor(16) as threads:
        running = [threads.submit(ended, *each, servers) for each in blocking]
        endings = [*asyncio.run(others()), *(each.result() for each in running)]
    assert "\n".join(filter(None, (each.wrong for each in endings))) == ""


def public(kind: type) -> set[str]:
    """What a user may call: methods and properties of the class and what it is made of, but no dunder."""
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.__name__)
def test_every_public_call_has_a_row(kind: type) -> None:
    blocking = getattr(penstock, kind.__name__.removeprefix("Async"))
    listed = {step[-1][0] for step in (each.steps for each in TABLES[kind].values())} - {"iteration", "entered"}
    silent = set(ASKS_NOTHING[blocking].split())
    assert listed | silent == public(kind)
    assert not listed & silent


# What is neither a method nor a verb.

FUNCTIONS: Final[Mapping[str, Callable[[str], object]]] = {
    "read": lambda address: penstock.read(f"{address}/topic", **USUAL),
    "scan": lambda address: penstock.scan(f"{address}/topic", **USUAL),
}


def test_every_function_that_takes_an_address_has_a_row() -> None:
    functions = (getattr(penstock, name) for name in dir(penstock) if not name.startswith("_"))
    taking = {each.__name__ for each in functions if inspect.isfunction(each) and "address" in signature_of(each)}
    assert taking == set(FUNCTIONS)


def signature_of(function: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_end_in_time(servers: Servers, name: str, scheme: str, place: str) -> None:
    begun = time.monotonic()
    with pytest.raises(FirstContactTimeout if place != "http" else PenstockError, match=r"127\.0\.0\.1"):
        FUNCTIONS[name](servers.address(scheme, place))
    assert time.monotonic() - begun < SLACK_S


# Verbs.

_RESET: Final = ("group", "--topic", "topic:0", "--to-earliest")
VERBS: Final[Mapping[str, Sequence[str]]] = {
    "bench": (),
    "consume": ("--until-end",),
    "doctor": (),
    "groups delete": ("group",),
    "groups delete-offsets": ("group", "--topic", "topic:0"),
    "groups describe": ("group",),
    "groups explain": ("group",),
    "groups list": (),
    "groups remove-members": ("group", "--all-members"),
    "groups reset-offsets": _RESET,
    "produce": (),
    "topics alter": ("topic", "--config", "a=1"),
    "topics create": ("topic",),
    "topics delete": ("topic",),
    "topics describe": ("topic",),
    "topics grow": ("topic", "-p", "2"),
    "topics list": (),
}
"""What stands behind the verb and its address."""


def test_every_verb_that_takes_an_address_has_a_row() -> None:
    assert set(VERBS) == {verb for verb in app.VERBS if "ADDRESS" in str(app.parser_for(verb).usage)}


@pytest.mark.parametrize(("scheme", "place"), [("kafka", "nobody"), ("rocketmq", "silent"), ("tubemq", "http")])
@pytest.mark.parametrize("verb", VERBS)
def test_verbs_end_in_time(servers: Servers, verb: str, scheme: str, place: str) -> None:
    begun = time.monotonic()
    address = f"{servers.address(scheme, place)}/topic"
    ran = run_verb(*verb.split(), address, *VERBS[verb], "-o", f"first_contact_timeout_ms={LIMIT_MS}", given=b"line\n")
    assert time.monotonic() - begun < SLACK_S
    assert ran.code != 0
    assert "127.0.0.1" in ran.stderr + ran.stdout.decode() or ran.code == 2


# How the deadline counts.


@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_deadline_counts_for_all_calls_together(servers: Servers, scheme: str) -> None:
    """A consumer polls briefly, again and again: what it waits for is the same server."""
    begun = time.monotonic()
    error: FirstContactTimeout | None = None
    with penstock.Consumer(f"{servers.address(scheme, 'silent')}/topic", group="group", **USUAL) as consumer:
        while error is None and time.monotonic() - begun < SLACK_S:
            try:
                consumer.poll(0.05)
            except FirstContactTimeout as raised:
                error = raised
    assert "within 0.4 s (first_contact_timeout_ms)" in str(error)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_client_whose_servers_come_later_is_as_good_as_new(scheme: str) -> None:
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        with (
            penstock.Admin(f"{scheme}://{address}", **USUAL) as admin,
            penstock.Producer(f"{scheme}://{address}", **USUAL) as producer,
            penstock.Consumer(
                f"{scheme}://{address}/topic", group="group", auto_offset_reset="earliest", **USUAL
            ) as it,
        ):
            for attempt in (
                lambda: admin.topics(["topic"]),
                lambda: producer.send("topic", b"lost").result(60),
                lambda: it.poll(30),
            ):
                with pytest.raises(FirstContactTimeout):
                    attempt()
            bound.close()
            with Broker(listen=[f"{scheme}://{address}"]) as broker:
                broker.create_topic("topic", partitions=1)
                assert eventually(lambda: list(admin.topics(["topic"]))) == ["topic"]
                eventually(lambda: producer.send("topic", b"stored").result(60))
                assert eventually(lambda: [each.value for each in it.poll(30)]) == [b"stored"]


def eventually(attempt: Callable[[], T]) -> T:
    """What it returns once the deadline that has passed is forgotten, which takes a moment."""
    until = time.monotonic() + 60
    while True:
        try:
            if (found := attempt()) or time.monotonic() > until:
                return found
        except FirstContactTimeout:
            if time.monotonic() > until:
                raise


def test_every_address_is_named_with_what_happened_there(servers: Servers) -> None:
    refused, silent, http = (f"127.0.0.1:{servers.ports[place]}" for place in ("nobody", "silent", "http"))
    nowhere = "no-such-host.invalid:9092"
    address = f"kafka://{refused},{silent},{http},{nowhere}"
    with pytest.raises(FirstContactTimeout) as raised, penstock.Admin(address, first_contact_timeout_ms=6_000) as admin:
        admin.topics()
    said = str(raised.value)
    assert re.search(rf"{refused}: cannot connect: Connection refused", said)
    assert re.search(rf"{silent}: connected, but (it does not answer|not ready)", said)
    assert re.search(rf"{http}: .*speaks HTTP", said)
    assert re.search(r"no-such-host\.invalid:9092: .*no address for the host", said)
    assert "Check the addresses" in said
