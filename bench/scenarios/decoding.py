"""Record batches in memory to Arrow columns: the readers of `bench.decode`, each round in a fresh process."""

from __future__ import annotations

from bench.children import CaseFailed, child
from bench.goals import RATE
from bench.session import Session

__all__ = ["run"]

VARIANTS = ("100 B", "100 B lz4", "1 KB")
SECONDS = 1.0
"""Seconds of each reader in each round."""


def run(session: Session) -> None:
    """Run every reader with each variant's bytes."""
    for variant in session.chosen(VARIANTS):
        for number in range(-session.warm, session.runs):
            seconds = 0.05 if session.quick or number < 0 else SECONDS
            job = {"variant": variant, "seconds": seconds, "backwards": number % 2 == 1}
            try:
                rates = child("bench.decode_case", job)
            except CaseFailed as error:
                session.failed("decode", variant, "all readers", error)
                break
            for case, rate in rates.items():
                session.add("decode", variant, RATE, case, number, float(str(rate)) / 1e6)
