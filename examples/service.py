"""A service: what each customer has ordered, in SQLite, right after Ctrl-C, SIGTERM and ``kill -9``.

    python service.py kafka://127.0.0.1:9092 totals.db

Orders are JSON objects with ``customer`` and ``cents``. Totals and the offsets they stand for are one SQLite
transaction; a process that dies in between begins where its database ends, not where its group does.
"""

from __future__ import annotations

import json
import logging
import signal
import sqlite3
import sys
from collections.abc import Collection

import penstock

TABLES = """
    CREATE TABLE IF NOT EXISTS totals (customer TEXT PRIMARY KEY, cents INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS places (partition INTEGER PRIMARY KEY, next INTEGER NOT NULL);
"""
ADD = "INSERT INTO totals VALUES (?, ?) ON CONFLICT (customer) DO UPDATE SET cents = cents + excluded.cents"


class FromTheDatabase(penstock.RebalanceListener):
    """New partitions are read from where the database ends."""

    def __init__(self, consumer: penstock.Consumer, database: sqlite3.Connection) -> None:
        self.consumer = consumer
        self.database = database

    def assigned(self, partitions: Collection[penstock.Partition]) -> None:
        places = dict(self.database.execute("SELECT partition, next FROM places"))
        for partition in partitions:
            if partition.id in places:
                self.consumer.seek(partition, places[partition.id])


def handle(batch: penstock.Messages, database: sqlite3.Connection) -> None:
    with database:
        for message in batch:
            order = json.loads(message.value or b"{}")
            database.execute(ADD, (order["customer"], order["cents"]))
        places = [(partition.id, offset) for partition, offset in batch.next_offsets.items()]
        database.executemany("INSERT OR REPLACE INTO places VALUES (?, ?)", places)


def main(address: str, path: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    database = sqlite3.connect(path)
    database.executescript(TABLES)
    with penstock.Consumer(address, group="totals") as consumer:
        for each in (signal.SIGTERM, signal.SIGINT):
            # Not close(): what the loop is busy with is finished and committed first.
            signal.signal(each, lambda *_: consumer.wakeup())
        consumer.subscribe(["orders"], listener=FromTheDatabase(consumer, database))
        for batch in consumer:  # ends after wakeup()
            handle(batch, database)
            consumer.commit(batch)
    database.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
