"""``python -m tools.front_attacks``: large requests of RocketMQ and TubeMQ, one by one, while small ones run.

It prints a line for each: the time to its response, the waits of a client of small requests meanwhile, and the node's
memory after it. The figures depend on this machine and its other load; tests assert turns of the event loop instead.
Kafka's requests are in `tools.attacks`.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.protocols.kafka.wire.framing import request as kafka_request
from penstock.protocols.kafka.wire.metadata import ApiVersionsRequest
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire import rpc as r
from penstock.protocols.rocketmq.wire.message_format import Inner, write_batch
from penstock.protocols.rocketmq.wire.rpc import request as rocket_request
from penstock.protocols.tubemq.wire import messages as t
from penstock.protocols.tubemq.wire import rpc as tube
from penstock.protocols.tubemq.wire.rpc import request as tube_request
from penstock.testing.process import NodeProcess

_LIMIT_MS = 100.0
_WAIT_S = 60.0
_SMALL = b"".join(kafka_request(ApiVersionsRequest(), 0, "canary")(7))
_NO = m.NoFields()


def main() -> int:
    """Print a line per request; returns 1 if the small requests' 99th percentile exceeded the limit during any."""
    rocket, tubes = _free_port(), _free_port()
    listen = ("--listen", f"rocketmq://127.0.0.1:{rocket}", "--listen", f"tubemq://127.0.0.1:{tubes}")
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder, NodeProcess(Path(folder), arguments=listen) as node:
        for number in range(500):
            _ask_rocket(rocket, r.UPDATE_AND_CREATE_TOPIC, _topic(f"t{number}", 4))
        for name, ask in _requests(rocket, tubes).items():
            if not any(part in name for part in sys.argv[1:] or [""]):
                continue
            waits, took, said = _beside(node, ask)
            p99 = waits[int(len(waits) * 0.99)]
            worst = max(worst, p99)
            print(
                f"{name:36} {took:6.2f} s  p99 {p99:7.1f} ms  max {waits[-1]:7.1f} ms  {_resident(node):5} MB  {said}"
            )
    return int(worst > _LIMIT_MS)


def _requests(rocket: int, tubes: int) -> dict[str, Callable[[], str]]:
    def of_rocket(method: Any, header: object = _NO, body: object = b"") -> Callable[[], str]:
        return lambda: _ask_rocket(rocket, method, header, body)

    def of_tube(method: Any, message: Any) -> Callable[[], str]:
        return lambda: _ask_tube(tubes, method, message)

    subscriptions = [{"topic": f"t{n}", "subString": "*"} for n in range(90_000)]
    retries = [
        {"groupName": f"g{n}", "subscriptionDataSet": [{"topic": f"%RETRY%g{n}", "subString": "*"}]} for n in range(500)
    ]
    queues = [{"topic": f"t{n}", "brokerName": "b", "queueId": 1} for n in range(60_000)]
    batch = write_batch([Inner(0, b"x", b"")] * 49_000)
    send = m.SendMessage(producer_group="p", topic="t0", queue_id=0, sys_flag=0, born_timestamp=1, batch=True)
    held = [f"c@g#1:127.0.0.1:1#t{n % 500}:{n}" for n in range(200_000)]
    lost = [f"1:127.0.0.1:1#t{n % 500}:{n}" for n in range(100_000)]
    topics = [f"t{n}" for n in range(500)]
    conditions = [f"t{n}#" + ",".join(f"item{k}" for k in range(400)) for n in range(500)]
    names = ",".join(f"n{n}" for n in range(100_000))
    return {
        "nothing else": _pause,
        "rocketmq 90,000 subscriptions": of_rocket(r.HEART_BEAT, body=_beat(consumerDataSet=[
            {"groupName": "g", "subscriptionDataSet": subscriptions}])),
        "rocketmq 150,000 producer groups": of_rocket(r.HEART_BEAT, body=_beat(producerDataSet=[
            {"groupName": f"p{n}"} for n in range(150_000)])),
        "rocketmq 500 retry topics": of_rocket(r.HEART_BEAT, body=_beat(consumerDataSet=retries)),
        "rocketmq 60,000 locks": of_rocket(r.LOCK_BATCH_MQ, m.Routed(), json.dumps(
            {"clientId": "c", "consumerGroup": "g", "mqSet": queues}).encode()),
        "rocketmq 49,000 messages": of_rocket(r.SEND_BATCH_MESSAGE, send, batch),
        "rocketmq a topic of 100,000 queues": of_rocket(r.UPDATE_AND_CREATE_TOPIC, _topic("wide", 100_000)),
        "rocketmq stats of 100,000 queues": of_rocket(r.GET_TOPIC_STATS_INFO, m.OfTopic(topic="wide")),
        "rocketmq all topic configs": of_rocket(r.GET_ALL_TOPIC_CONFIG),
        "rocketmq all topics": of_rocket(r.GET_ALL_TOPIC_LIST_FROM_NAMESERVER),
        "rocketmq all offsets": of_rocket(r.GET_ALL_CONSUMER_OFFSET),
        "tubemq register, 200,000 held": of_tube(tube.CONSUMER_REGISTER, t.RegisterRequestC2M(
            client_id="c", group_name="g", host_name="h", topic_list=topics, subscribe_info=held)),
        "tubemq register, 200,000 filters": of_tube(tube.CONSUMER_REGISTER, t.RegisterRequestC2M(
            client_id="c", group_name="f", host_name="h", topic_list=topics, topic_condition=conditions)),
        "tubemq register, 200,000 topics": of_tube(tube.PRODUCER_REGISTER, t.RegisterRequestP2M(
            client_id="p", host_name="h", topic_list=[f"t{n}" for n in range(200_000)], broker_check_sum=-1)),
        "tubemq heartbeat, 100,000 partitions": of_tube(tube.PARTITION_HEARTBEAT, t.HeartBeatRequestC2B(
            client_id="c", group_name="g", read_status=0, partition_info=lost)),
        "tubemq admin, 100,000 names": lambda: _ask_web(
            tubes, f"method=admin_add_new_topic_record&topicName={names}&brokerId=1&createUser=x"),
        "tubemq admin, all topics": lambda: _ask_web(tubes, "method=admin_query_topic_info"),
        "tubemq admin, all offsets": lambda: _ask_web(tubes, f"method=admin_query_group_offset&groupName={names}"),
    }  # fmt: skip


def _pause() -> str:
    time.sleep(2)
    return ""


def _beside(node: NodeProcess, ask: Callable[[], str]) -> tuple[list[float], float, str]:
    """(waits of small requests, sorted, in ms; time of the large one; its response)."""
    said: list[str] = []

    def work() -> None:
        try:
            said.append(ask())
        except OSError as error:
            said.append(repr(error))

    waits = []
    host, _, port = node.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), _WAIT_S) as client:
        large = threading.Thread(target=work)
        began = time.monotonic()
        large.start()
        took = 0.0
        while not took or time.monotonic() < began + took + 0.3:
            before = time.monotonic()
            client.sendall(_SMALL)
            client.recv(int.from_bytes(client.recv(4, socket.MSG_WAITALL), "big"), socket.MSG_WAITALL)
            waits.append((time.monotonic() - before) * 1_000)
            if not took and not large.is_alive():
                took = time.monotonic() - began
            time.sleep(0.002)
    return sorted(waits), took, said[0][:100]


def _ask_rocket(port: int, method: Any, header: object = _NO, body: object = b"") -> str:
    with socket.create_connection(("127.0.0.1", port), _WAIT_S) as client:
        client.sendall(b"".join(rocket_request(method, header, body)(1)))
        stream = client.makefile("rb")
        begun = stream.read(8)
        if len(begun) < 8:
            return "hung up"
        size, head = struct.unpack(">iI", begun)
        data = stream.read(size - 4)
    said = json.loads(data[: head & 0xFFFFFF])
    return f"{said['code']} {said.get('remark') or ''} {size} bytes"


def _ask_tube(port: int, method: Any, message: Any) -> str:
    with socket.create_connection(("127.0.0.1", port), _WAIT_S) as client:
        client.sendall(b"".join(tube_request(method, message, timeout_ms=60_000)(1)))
        return repr(client.recv(400)[12:])


def _ask_web(port: int, query: str) -> str:
    head = f"POST /webapi.htm HTTP/1.1\r\nHost: x\r\nContent-Length: {len(query)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), _WAIT_S) as client:
        client.sendall(head.encode() + query.encode())
        return repr(client.recv(400)[-100:])


def _beat(**sets: object) -> bytes:
    return json.dumps({"clientID": "c", "consumerDataSet": [], "producerDataSet": [], **sets}).encode()


def _topic(name: str, queues: int) -> m.CreateTopic:
    return m.CreateTopic(topic=name, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=6)


def _resident(node: NodeProcess) -> int:
    pages = int(Path(f"/proc/{node.pid}/statm").read_text().split()[1])
    return pages * 4096 >> 20


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
