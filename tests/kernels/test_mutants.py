"""Recorded batches of real brokers, spoilt: both kernels still say the same."""

from random import Random

import pytest

from penstock import kernels
from penstock.errors import PenstockError
from penstock.protocols.kafka.records import decode
from tests.fuzz.mutate import mutant
from tests.fuzz.records_target import seeds

CORPUS = list(seeds())
MUTANTS = 250


def answer(kernel: str, data: bytes) -> object:
    with kernels.using(kernel):
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
        assert pure == answer("numba", data), data.hex()
        kinds.add(pure[0] if isinstance(pure, tuple) and isinstance(pure[0], type) else "rows")
    assert len(kinds) == 2
