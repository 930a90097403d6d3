"""A program that is killed between sending and committing, and its successor as README prints it: exactly once.

The successor polls first, and what it polls begins at offsets that its predecessor's transaction holds.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import penstock
from penstock.interfaces import NewTopic
from penstock.model import LogRange

__all__ = ["Copying"]

RECORDS = 6
TIMEOUT_MS = 600_000
"""Until the log itself would end what was left open: far longer than any test waits."""
PATIENCE_S = 60.0

_KILLED = """
import sys
import penstock

address, source, target, name, timeout_ms = sys.argv[1:]
consumer = penstock.Consumer(
    f"{address}/{source}",
    group=name,
    group_instance_id=name,
    isolation_level="read_committed",
    auto_offset_reset="earliest",
    max_poll_records=2,
)
producer = penstock.Producer(address, transactional_id=name, transaction_timeout_ms=int(timeout_ms))
with consumer, producer:
    producer.init_transactions()
    for number, batch in enumerate(consumer):
        producer.begin_transaction()
        producer.send_batch(target, batch)
        producer.send_offsets_to_transaction(batch, consumer.group_metadata())
        if number:
            producer.flush()
            print("left open", flush=True)
            sys.stdin.read()
        producer.commit_transaction()
"""


@dataclass(frozen=True, slots=True)
class Copying:
    """From one topic to another; ``name`` is the group's, the member's and the transactional id."""

    address: str
    name: str

    @property
    def source(self) -> str:
        """What is copied."""
        return f"{self.name}-from"

    @property
    def target(self) -> str:
        """Where to."""
        return f"{self.name}-to"

    def fill(self) -> list[bytes]:
        """The topics, and what is to be copied."""
        values = [b"%d" % number for number in range(RECORDS)]
        with penstock.Admin(self.address) as admin:
            admin.create_topics([NewTopic(self.source, 1, 1), NewTopic(self.target, 1, 1)])
        with penstock.Producer(self.address) as producer:
            for value in values:
                producer.send(self.source, value)
        return values

    def leave_open(self) -> None:
        """Copy some, and be killed with a transaction open that holds the group's offsets."""
        arguments = (self.address, self.source, self.target, self.name, str(TIMEOUT_MS))
        with subprocess.Popen(
            [sys.executable, "-c", _KILLED, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            try:
                assert process.stdout.readline() == "left open\n"
            finally:
                process.kill()

    def go_on(self) -> None:
        """Copy the rest, polling first: entering the producer's block ends what was left open."""
        copied = 0
        consumer = penstock.Consumer(
            f"{self.address}/{self.source}",
            group=self.name,
            group_instance_id=self.name,
            isolation_level="read_committed",
        )
        with consumer, penstock.Producer(self.address, transactional_id=self.name) as producer:
            while copied < RECORDS - 2:
                batch = consumer.poll(PATIENCE_S)
                assert batch, "what the predecessor left open still holds the group's offsets"
                with producer.transaction():
                    producer.send_batch(self.target, batch)
                    producer.send_offsets_to_transaction(batch, consumer.group_metadata())
                copied += len(batch)

    def copies(self) -> list[bytes | None]:
        """What a reader of committed records finds."""
        partition = penstock.Partition(self.target, 0)
        with penstock.RangeReader(self.address, isolation_level="read_committed") as reader:
            end = reader.end_offsets([partition])[partition]
            return [each.value for batch in reader.read(LogRange.of(partition, 0, end)) for each in batch]
