"""From topic to topic, exactly once: cents become euros, whatever dies in between.

    python exactly_once.py kafka://127.0.0.1:9092 payments payments-in-euros

What is written and what counts as read are one transaction. Killed at any moment and started again, it leaves each
payment once to whoever reads with ``isolation_level="read_committed"``. Its names are its own over restarts: its
predecessor's transaction ends at once, and the group waits for nobody.
"""

from __future__ import annotations

import json
import sys

import penstock


def in_euros(value: bytes) -> bytes:
    payment = json.loads(value)
    payment["euros"] = payment.pop("cents") / 100
    return json.dumps(payment).encode()


def main(address: str, source: str, target: str) -> None:
    me = f"{target}-1"
    with (
        penstock.Producer(address, transactional_id=me) as producer,
        penstock.Consumer(
            f"{address}/{source}",
            group=target,
            group_instance_id=me,
            isolation_level="read_committed",
            max_poll_records=500,  # in a transaction
        ) as consumer,
    ):
        for batch in consumer:
            with producer.transaction():
                for message in batch:
                    producer.send(target, in_euros(message.value or b"{}"), key=message.key)
                producer.send_offsets_to_transaction(batch, consumer.group_metadata())


if __name__ == "__main__":
    main(*sys.argv[1:])
