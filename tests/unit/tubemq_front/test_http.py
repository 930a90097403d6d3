"""HTTP on the RPC port: what is served, and what is sent away."""

import json

import pytest

from penstock.errors import ProtocolViolation
from penstock.protocols.tubemq.server.context import TubeFrontOptions
from tests.unit.tubemq_front.kit import Kit, run
from tests.unit.tubemq_front.web import call, feed, fetch

METHODS = "method=admin_get_methods"


def get(target: str = f"/webapi.htm?{METHODS}", *headers: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def post(body: str, *headers: str) -> bytes:
    lines = ["POST /webapi.htm HTTP/1.1", f"Content-Length: {len(body)}", *headers, "", body]
    return "\r\n".join(lines).encode()


def test_a_form_and_a_query_say_the_same() -> None:
    async def check(kit: Kit) -> None:
        assert await fetch(kit, get()) == await fetch(kit, post(METHODS))

    run(check)


def test_an_answer_to_head_has_no_body() -> None:
    async def check(kit: Kit) -> None:
        assert await fetch(kit, get().replace(b"GET ", b"HEAD ")) == (200, "")

    run(check)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/x", "Origin: http://evil.example"), 403),
        (get("/x", "Sec-Fetch-Site: cross-site"), 403),
        (get("/x").replace(b"HTTP/1.1", b"HTTP/9"), 505),
        (get("/x y"), 400),
        (get("x"), 400),
        (get("/x", "no colon"), 400),
        (get("/x", " folded: header"), 400),
        (get("/caf\u00e9"), 400),
        (get("/x", "Transfer-Encoding: chunked"), 411),
        (post("{}", "Content-Type: application/json"), 415),
        (post("a=1", "Content-Length: 3"), 400),
        (b"POST /x HTTP/1.1\r\nContent-Length: 9999999999999999999\r\n\r\n", 413),
        (b"POST /x HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (get("/x?" + "&".join(f"a{row}=1" for row in range(300))), 400),
    ],
)
def test_what_is_not_understood_is_refused_with_a_reason(request_bytes: bytes, status: int) -> None:
    async def check(kit: Kit) -> None:
        found, text = await fetch(kit, request_bytes)
        assert found == status
        assert text

    run(check)


@pytest.mark.parametrize(
    "data",
    [
        get() + b"G",
        b"PUT /x HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00",
    ],
)
def test_what_cannot_be_a_request_ends_the_connection(data: bytes) -> None:
    async def check(kit: Kit) -> None:
        with pytest.raises(ProtocolViolation):
            feed(kit.client(), data)

    run(check)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /" + b"a" * 100_000, 431),
        (b"POST /x HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
    ],
)
def test_what_is_too_long_is_told_so(data: bytes, status: int) -> None:
    async def check(kit: Kit) -> None:
        client = kit.client()
        frame = feed(client, data)
        assert frame is not None
        assert feed(client, bytes(100_000)) is None  # the rest may come
        await client.session.handle(frame)
        assert client.hung_up
        assert client.pushed.startswith(b"HTTP/1.1 %d " % status)

    run(check)


def test_answers_are_not_served_as_scripts() -> None:
    """A page of another site could read them by a script's tag."""

    async def check(kit: Kit) -> None:
        answer = await call(kit, "admin_query_sub_info", callback="jQuery1")
        assert (answer["result"], answer["errCode"]) == (False, 400)
        assert "callback" in answer["errMsg"]

    run(check)


def test_what_changes_something_needs_the_token() -> None:
    async def check(kit: Kit) -> None:
        wrong = await call(kit, "admin_add_topic_deploy_info", topicName="made", confModAuthToken="guess")
        assert (wrong["result"], wrong["errCode"]) == (False, 400)
        status, body = await fetch(kit, get("/x?method=admin_add_topic_deploy_info&topicName=made"))
        assert (status, json.loads(body)["result"]) == (200, False)
        assert (await kit.enode.topic("made")) is None
        right = await call(kit, "admin_add_topic_deploy_info", topicName="made", brokerId=1, createUser="me")
        assert right["result"]

    run(check, TubeFrontOptions(admin_token="abc"))


def test_a_node_without_a_token_asks_for_none() -> None:
    async def check(kit: Kit) -> None:
        made = get("/x?method=admin_add_topic_deploy_info&topicName=made&brokerId=1&createUser=me")
        await kit.again.until_right(lambda: fetch(kit, made), lambda answer: '"errCode":503' in answer[1])
        assert (await kit.enode.topic("made")) is not None

    run(check)


@pytest.mark.parametrize("query", ["", "method=admin_nonsense"])
def test_an_unknown_method_is_told(query: str) -> None:
    async def check(kit: Kit) -> None:
        _, body = await fetch(kit, get(f"/webapi.htm?{query}"))
        assert json.loads(body)["errCode"] == 400

    run(check)


def test_every_method_that_is_listed_is_there() -> None:
    async def check(kit: Kit) -> None:
        for row in (await call(kit, "admin_get_methods"))["data"]:
            found = await call(kit, row["method"])
            assert "unsupported" not in found["errMsg"], row

    run(check)
