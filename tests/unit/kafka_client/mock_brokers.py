"""librdkafka's mock cluster, driven through its C interface: brokers we did not write, on loopback, in this process.

It lives in the library that confluent-kafka brings along (``rdkafka_mock.h``). Not there: administration of topics and
groups, MEMBER_ID_REQUIRED, fencing of static members. It answers ApiVersions v3 and v4 with bytes that are no answer,
which clients must survive.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import confluent_kafka

from penstock.model import Endpoint

_JOIN_GROUP, _HEARTBEAT, _LEAVE_GROUP, _SYNC_GROUP = 11, 12, 13, 14


def _library() -> ctypes.CDLL:
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    library = ctypes.CDLL(str(next(folder.glob("librdkafka*"))))
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    for name, result, arguments in (
        ("conf_new", pointer, []),
        ("conf_set", number, [pointer, text, text, pointer, ctypes.c_size_t]),
        ("new", pointer, [number, pointer, pointer, ctypes.c_size_t]),
        ("destroy", None, [pointer]),
        ("mock_cluster_new", pointer, [pointer, number]),
        ("mock_cluster_destroy", None, [pointer]),
        ("mock_cluster_bootstraps", text, [pointer]),
        ("mock_topic_create", number, [pointer, text, number, number]),
        ("mock_push_request_errors_array", None, [pointer, ctypes.c_int16, ctypes.c_size_t, pointer]),
        ("mock_partition_set_leader", number, [pointer, text, ctypes.c_int32, ctypes.c_int32]),
        ("mock_coordinator_set", number, [pointer, text, text, ctypes.c_int32]),
        ("mock_broker_set_down", number, [pointer, ctypes.c_int32]),
        ("mock_broker_set_up", number, [pointer, ctypes.c_int32]),
        ("mock_broker_set_rtt", number, [pointer, ctypes.c_int32, number]),
        ("mock_group_initial_rebalance_delay_ms", None, [pointer, ctypes.c_int32]),
        ("mock_set_apiversion", number, [pointer, ctypes.c_int16, ctypes.c_int16, ctypes.c_int16]),
    ):
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class MockBrokers:
    """A mock cluster of brokers 1 to ``count``."""

    def __init__(self, count: int = 1) -> None:
        self._lib = _library()
        conf = self._lib.rd_kafka_conf_new()
        self._lib.rd_kafka_conf_set(conf, b"log_level", b"0", None, 0)
        self._client = self._lib.rd_kafka_new(0, conf, None, 0)
        self._cluster = self._lib.rd_kafka_mock_cluster_new(self._client, count)
        self._lib.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 0)
        # It offers flexible versions of these, and hangs up on who uses them: librdkafka itself never does.
        for api_key, highest in ((_JOIN_GROUP, 5), (_SYNC_GROUP, 3), (_HEARTBEAT, 3), (_LEAVE_GROUP, 1)):
            self.speak(api_key, 0, highest)

    def __enter__(self) -> MockBrokers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lib.rd_kafka_mock_cluster_destroy(self._cluster)
        self._lib.rd_kafka_destroy(self._client)

    @property
    def servers(self) -> str:
        """As a ``bootstrap.servers`` option."""
        found: bytes = self._lib.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return found.decode()

    @property
    def bootstrap(self) -> list[Endpoint]:
        pairs = (server.rsplit(":", 1) for server in self.servers.split(","))
        return [Endpoint(host, int(port)) for host, port in pairs]

    def topic(self, name: str, partitions: int, replicas: int = 1) -> None:
        assert not self._lib.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, replicas)

    def fail(self, api_key: int, codes: Sequence[int]) -> None:
        """The next requests of this kind are answered with these codes; 0 lets one through."""
        array = (ctypes.c_int * len(codes))(*codes)
        self._lib.rd_kafka_mock_push_request_errors_array(self._cluster, api_key, len(codes), array)

    def lead(self, topic: str, partition: int, broker: int) -> None:
        assert not self._lib.rd_kafka_mock_partition_set_leader(self._cluster, topic.encode(), partition, broker)

    def coordinate(self, group: str, broker: int) -> None:
        assert not self._lib.rd_kafka_mock_coordinator_set(self._cluster, b"group", group.encode(), broker)

    def down(self, broker: int) -> None:
        assert not self._lib.rd_kafka_mock_broker_set_down(self._cluster, broker)

    def up(self, broker: int) -> None:
        assert not self._lib.rd_kafka_mock_broker_set_up(self._cluster, broker)

    def slow(self, broker: int, milliseconds: int) -> None:
        assert not self._lib.rd_kafka_mock_broker_set_rtt(self._cluster, broker, milliseconds)

    def speak(self, api_key: int, lowest: int, highest: int) -> None:
        """Advertise these versions; -1 and -1 take the API away."""
        assert not self._lib.rd_kafka_mock_set_apiversion(self._cluster, api_key, lowest, highest)
