"""Headers, versions and the table: what is answered, what is hung up on."""

import contextlib
import struct

import pytest

from penstock.errors import ProtocolViolation
from penstock.protocols.kafka.errors import ROWS, ErrorCode
from penstock.protocols.kafka.server.front import TABLE, handler
from penstock.protocols.kafka.wire.framing import api_of, request, versions
from penstock.protocols.kafka.wire.metadata import ApiVersionsRequest
from tests.unit.kafka_front.kit import Kit, run


def framed(key: int, version: int, body: bytes = b"", client: bytes | None = b"me") -> bytes:
    name = struct.pack(">h", -1) if client is None else struct.pack(">h", len(client)) + client
    data = struct.pack(">hhi", key, version, 7) + name + body
    return struct.pack(">i", len(data)) + data


def test_every_row_has_a_handler_and_versions_that_are_declared() -> None:
    for key, row in TABLE.items():
        lowest, highest = versions(key)
        assert lowest <= row.lowest <= row.highest <= highest
        assert callable(handler(key))


def test_no_two_apis_share_a_handler() -> None:
    assert len({row.handler for row in TABLE.values()}) == len(TABLE)


def test_what_is_not_served_is_not_advertised() -> None:
    """SASL: clients must find out from the table."""
    assert not {17, 36} & set(TABLE)


def test_old_librdkafka_finds_the_overlaps_it_looks_for() -> None:
    """librdkafka before 2.12 turns features on by exact old versions (its broker feature map)."""
    wanted = {0: 3, 1: 4, 2: 1, 8: 2, 9: 1, 10: 0, 11: 0, 12: 0, 13: 0, 14: 0, 22: 0}
    for key, version in wanted.items():
        assert TABLE[key].lowest <= version <= TABLE[key].highest
    assert TABLE[0].lowest == 0


@pytest.mark.parametrize("version", range(6))
def test_api_versions_answers_with_the_table(version: int) -> None:
    async def test(kit: Kit) -> None:
        asked = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
        answer = await kit.ask(asked, version)
        found = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        assert found == {key: (row.lowest, row.highest) for key, row in TABLE.items()}
        features = {each.name: each.max_version_level for each in answer.finalized_features}
        assert features == ({"group.version": 1, "transaction.version": 2} if version >= 3 else {})

    run(test)


def test_a_client_name_that_breaks_the_rule_is_an_invalid_request() -> None:
    async def test(kit: Kit) -> None:
        for name in ("", "-x", "a b", "x" * 5 + "\n"):
            answer = await kit.ask(ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3)
            assert answer.error_code == ErrorCode.INVALID_REQUEST

    run(test)


def test_a_client_that_means_another_node_is_sent_back_to_its_bootstrap_servers() -> None:
    """Version 5 names cluster and node, both or neither (KIP-1242); as Kafka 4.4.0."""

    async def test(kit: Kit) -> None:
        ours = kit.store.cluster_id
        for cluster_id, node_id, code in (
            (None, -1, ErrorCode.NONE),
            (ours, 1, ErrorCode.NONE),
            (ours, 2, ErrorCode.REBOOTSTRAP_REQUIRED),
            ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
            ("", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
            (ours, -1, ErrorCode.INVALID_REQUEST),
            (None, 1, ErrorCode.INVALID_REQUEST),
        ):
            names = {"client_software_name": "test", "client_software_version": "1.0"}
            answer = await kit.ask(ApiVersionsRequest(**names, cluster_id=cluster_id, node_id=node_id), 5)
            assert (answer.error_code, bool(answer.api_keys)) == (code, not code), (cluster_id, node_id)

    run(test)


def test_too_new_an_api_versions_request_gets_exactly_kafkas_bytes() -> None:
    """Header v0, error 35, one key: 18 from 0 to 5; nothing else (Kafka answers the same, with its own highest)."""

    async def test(kit: Kit) -> None:
        answer = await kit.send(framed(18, 99, b"\0" + b"\0\0\0"))
        assert answer == bytes.fromhex("00000010" + "00000007" + "0023" + "00000001" + "0012" + "0000" + "0005")

    run(test)


@pytest.mark.parametrize(
    ("key", "version"), [(0, 14), (1, 3), (1, 19), (4, 0), (24, 4), (68, 2), (70, 0), (999, 0), (3, -1)]
)
def test_an_api_or_version_that_is_not_advertised_is_hung_up_on(key: int, version: int) -> None:
    async def test(kit: Kit) -> None:
        with pytest.raises(ProtocolViolation, match="not advertised"):
            await kit.send(framed(key, version, b"\0"))

    run(test)


@pytest.mark.parametrize("body", [b"", b"\0", b"\xff" * 40, bytes(200)])
@pytest.mark.parametrize("key", sorted(TABLE))
def test_a_malformed_body_is_our_error_or_an_answer(key: int, body: bytes) -> None:
    async def test(kit: Kit) -> None:
        for version in (TABLE[key].lowest, TABLE[key].highest):
            with contextlib.suppress(ProtocolViolation):
                assert await kit.send(framed(key, version, body)) or key == 0  # acks=0 is not answered

    run(test)


LATIN = "für".encode("latin-1")
GBK = "测试".encode("gbk")


def string(data: bytes) -> bytes:
    return struct.pack(">h", len(data)) + data


@pytest.mark.lossless("requests that the codec cannot write are not asked again")
def test_strings_that_are_not_utf8_are_read_with_replacement_characters() -> None:
    """As by Kafka 4.3.1: the client is answered, and groups are known by what was read of their names."""

    def commit(group: bytes, metadata: bytes) -> bytes:
        head = string(group) + struct.pack(">ihqi", -1, 0, -1, 1) + string(b"t")
        return framed(8, 2, head + struct.pack(">iiq", 1, 0, 5) + string(metadata))

    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        for client in (LATIN, GBK, b"\xff" * 300):
            assert await kit.send(framed(18, 0, client=client))
            assert await kit.send(framed(3, 1, struct.pack(">i", -1), client))
        answer = await kit.send(framed(3, 1, struct.pack(">i", 1) + string(GBK)))
        assert answer is not None
        assert (
            struct.pack(">h", ErrorCode.INVALID_TOPIC_EXCEPTION) + string("\ufffd\ufffd\ufffd\ufffd".encode()) in answer
        )
        for group, metadata in ((LATIN, b""), (b"g", LATIN)):
            answer = await kit.send(commit(group, metadata))
            assert answer is not None
            assert answer.endswith(struct.pack(">ih", 0, 0))
        assert set(await kit.offsets.groups()) == {"f\ufffdr", "g"}
        committed = await kit.offsets.standing("g")
        assert [each.metadata for each in committed[0].values()] == ["f\ufffdr"]

    run(test)


def test_a_client_without_a_name_is_served() -> None:
    async def test(kit: Kit) -> None:
        assert await kit.send(framed(18, 0, client=None))

    run(test)


def test_the_codes_we_send_are_kafkas() -> None:
    for code in ErrorCode:
        assert ROWS[code].name == code.name


def test_every_advertised_version_of_every_api_can_be_answered() -> None:
    """A default request of each version is served or refused, and its answer encodes."""

    async def test(kit: Kit) -> None:
        for key, row in TABLE.items():
            pair = api_of(key)
            assert pair is not None
            for version in range(row.lowest, row.highest + 1):
                await kit.send(b"".join(request(pair.request(), version, "me")(7)))

    run(test)
