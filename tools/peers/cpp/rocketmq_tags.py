"""rocketmq_tags.py NAMES TOPIC GROUP TAGS: RocketMQ's C++ client, by PyPI's `rocketmq` over its C interface.

It sends messages with different tags in turn, and a consumer of some tags prints the messages that it receives.
"""

import os
import sys
import threading

from rocketmq.client import Message, Producer, PushConsumer  # type: ignore[import-not-found]

names, topic, group, tags = sys.argv[1:]
wanted = 2 * len(tags.split("||"))
found: list[str] = []
enough = threading.Event()


def take(message: object) -> None:
    found.append(f"{message.tags.decode()} {message.body.decode()}")  # type: ignore[attr-defined]
    if len(found) >= wanted:
        enough.set()


producer = Producer(f"{group}-p")
producer.set_namesrv_addr(names)
producer.start()
for tag in "ABCABC":
    message = Message(topic)
    message.set_tags(tag)
    message.set_body(f"of {tag}")
    producer.send_sync(message)
consumer = PushConsumer(group)
consumer.set_namesrv_addr(names)
consumer.subscribe(topic, take, tags)
consumer.start()
enough.wait(40)
threading.Event().wait(1)  # for more than was asked for
print("\n".join(found), flush=True)
consumer.shutdown()
producer.shutdown()
os._exit(0)  # the library's destructors may crash
