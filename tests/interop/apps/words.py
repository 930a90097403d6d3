"""Words for the application that counts them, and the counts that it wrote. What must not live here: waiting."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

import penstock
from penstock.model import LogRange, Partition

WORDS, COUNTS = "words", "counts"
PARTITIONS = 4
VOCABULARY = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu")


def create_topics(bootstrap: str) -> None:
    with penstock.Admin(f"kafka://{bootstrap}") as admin:
        admin.create_topics([penstock.NewTopic(WORDS, PARTITIONS), penstock.NewTopic(COUNTS, 2)])


def text(length: int) -> list[str]:
    """So many words, over and over."""
    return list(itertools.islice(itertools.cycle(VOCABULARY), length))


def write(producer: penstock.Producer, words: Sequence[str]) -> None:
    """Every partition has some of each word: none can be counted where it lies."""
    for place, word in enumerate(words):
        producer.send(WORDS, word.encode(), partition=place % PARTITIONS)
    producer.flush()


def counted(bootstrap: str) -> Mapping[str, list[int]]:
    """Per word its counts in the order in which they were written, as readers of committed records see them."""
    found: dict[str, list[int]] = {}
    with penstock.RangeReader(f"kafka://{bootstrap}", isolation_level="read_committed") as reader:
        for partition, end in reader.end_offsets([Partition(COUNTS, 0), Partition(COUNTS, 1)]).items():
            for batch in reader.read(LogRange(COUNTS, partition.id, 0, end)):
                for record in batch:
                    found.setdefault((record.key or b"").decode(), []).append(int(record.value or b"-1"))
    return found


def last(bootstrap: str) -> Counter[str]:
    """Per word its last count."""
    return Counter({word: counts[-1] for word, counts in counted(bootstrap).items()})


def one_by_one(words: Sequence[str]) -> Mapping[str, list[int]]:
    """What an application that counts each word once writes."""
    return {word: list(range(1, count + 1)) for word, count in Counter(words).items()}
