"""Read by mypy, never run: what a user writes in an except clause has the types the documentation promises."""

from typing import assert_type

import penstock


def explain(error: penstock.PenstockError) -> str:
    assert_type(error.topic, str | None)
    assert_type(error.offset, int | None)
    assert_type(error.hint, str | None)
    if isinstance(error, penstock.ServerError):
        assert_type(error.code, int)
        assert_type(error.retriable, bool)
        assert_type(error.kind, penstock.ErrorKind)
    return str(error)


def where(wanted: penstock.LogRange, record: penstock.Record) -> penstock.Partition:
    assert_type(wanted.start, int)
    assert_type(record.value, bytes | None)
    assert_type(record.headers, tuple[tuple[str, bytes | None], ...])
    return penstock.Partition(wanted.topic, wanted.partition, wanted.node)
