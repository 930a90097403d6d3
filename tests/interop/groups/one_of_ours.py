"""A process that is a member of a newer group: it commits what it has read, and writes a line for each poll of records.

``python -m tests.interop.groups.one_of_ours BOOTSTRAP GROUP TOPIC``
"""

from __future__ import annotations

import json
import sys

import penstock


def main(bootstrap: str, group: str, topic: str) -> None:
    """Until it is killed."""
    held: frozenset[penstock.Partition] = frozenset()
    with penstock.Consumer(f"kafka://{bootstrap}/{topic}", group=group, group_protocol="consumer") as consumer:
        while True:
            batch = consumer.poll(0.1)
            if batch or held != consumer.assignment():
                held = consumer.assignment()
                values = [int(record.value or b"-1") for record in batch]
                print(json.dumps({"values": values, "holding": sorted(each.id for each in held)}), flush=True)
            if batch:
                consumer.commit(batch)


if __name__ == "__main__":
    main(*sys.argv[1:])
