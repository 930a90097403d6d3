"""A batch that somebody has checked is not checked again by the log; one that nobody has is."""

from __future__ import annotations

import pytest

from penstock.errors import CorruptBatch
from penstock.protocols.kafka.server.apis import produce
from penstock.records import validation
from penstock.records.validation import ValidatedBatch
from penstock.store import open_store
from tests.unit.kafka_front.kit import Kit, batch, run


def test_what_was_checked_is_believed_and_everything_else_is_looked_at() -> None:
    with open_store("memory:") as store:
        store.create_topic("t", 1)
        log = store.log("t", 0)
        good = bytearray(batch())
        believed = ValidatedBatch(good)
        good[-1] ^= 1  # what nobody may do: a log that looked would notice
        assert log.append(believed, now_ms=1).base_offset == 0
        with pytest.raises(CorruptBatch):
            log.append(good, now_ms=1)
        assert log.end_offset == 1


@pytest.mark.parametrize("data", [b"", batch()[:-1], batch() + b"\0", batch(crc_flip=1)])
def test_no_bytes_are_checked_but_those_of_one_whole_batch(data: bytes) -> None:
    with pytest.raises(CorruptBatch):
        ValidatedBatch(data)


def test_a_produced_batchs_checksum_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = 0

    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        assert (await kit.produce("t", batch())).error_code == 0

    verify = validation.verify_crc

    def counted(data: bytes, header: object) -> None:
        nonlocal computed
        computed += 1
        verify(data, header)  # type: ignore[arg-type]

    for module in (validation, produce):
        monkeypatch.setattr(module, "verify_crc", counted)
    run(test)
    assert computed == 1
