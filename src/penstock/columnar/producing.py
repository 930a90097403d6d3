"""Who writes a batch: what the two ways of encoding one share.

What must not live here: bytes. Source: Kafka protocol, record batch v2 (KIP-98).
"""

from __future__ import annotations

from typing import Final

from penstock._dataclasses import dataclass

__all__ = ["ANYONE", "Producing"]


@dataclass(slots=True)
class Producing:
    """Who writes a batch: the fields of its header that make a producer idempotent or transactional; -1 for none.

    Nobody changes it; not frozen: there is one a batch, and that takes five times as long to make.
    """

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False


ANYONE: Final = Producing()
