"""Recorded batches of real brokers, spoilt: all kernels still say the same."""

from random import Random

import pytest

from penstock.errors import PenstockError
from penstock.protocols.kafka.wire.records import decode
from tests.fuzz.mutate import mutant
from tests.fuzz.records_target import seeds
from tests.kernels.ways import WAYS, by

CORPUS = list(seeds())
MUTANTS = 150


def answer(way: str, data: bytes) -> object:
    with by(way):
        try:
            found = decode(data, check_crcs=False, max_inflated_bytes=1 << 20)
        except PenstockError as error:
            return type(error), str(error)
    index = found.batch.schema.get_field_index("timestamp")
    columns = found.batch.set_column(index, "timestamp", found.batch.column(index).view("int64"))
    return columns.to_pydict(), found.next_offset, found.consumed


@pytest.mark.parametrize("seed", range(4))
def test_mutants_of_recorded_batches_are_answered_alike(seed: int) -> None:
    dice = Random(seed)
    kinds = set()
    for _ in range(MUTANTS):
        data = mutant(CORPUS, dice, 1 << 16)
        pure = answer("pure", data)
        for way in WAYS:
            assert pure == answer(way, data), (way, data.hex())
        kinds.add(pure[0] if isinstance(pure, tuple) and isinstance(pure[0], type) else "rows")
    assert len(kinds) == 2
