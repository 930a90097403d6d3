"""Stored messages, batches and properties, by both kernels: they say the same of any bytes."""

from collections.abc import Iterator

from penstock import kernels
from penstock.errors import PenstockError
from penstock.protocols.rocketmq.kernels.interface import rocket_kernel
from penstock.protocols.rocketmq.wire.columns import decode
from penstock.protocols.rocketmq.wire.message_format import read_batch
from tests.vectors.rocketmq_frames.recorded import exchanges


def run(data: bytes) -> str:
    """The last byte says whether checksums count, tags are compared and facts are asked for, or that it is a batch."""
    how = data[-1] if data else 0
    if how & 8:
        return f"batch {len(list(read_batch(data[:-1])))}"
    said = []
    for kernel in ("pure", "numba"):
        with kernels.using(kernel):
            said.append(_said(data[:-1], how))
    assert said[0] == said[1]
    return str(said[0])


def _said(data: bytes, how: int) -> object:
    try:
        found = decode(
            [data], check_crcs=not how & 1, tags={"TagA"} if how & 2 else (), node="node" if how & 4 else None
        )
    except PenstockError as error:
        return str(error)
    found.batch.validate(full=True)
    index = found.batch.schema.get_field_index("timestamp")
    columns = found.batch.set_column(index, "timestamp", found.batch.column(index).view("int64"))
    return columns.to_pydict(), found.messages, found.filtered


def seeds() -> Iterator[bytes]:
    """Recorded answers to pulls, and batches, as small as they come. Kernels are loaded before: inputs are timed."""
    with kernels.using("numba"):
        rocket_kernel()
    for name in ("4.9/e_tag.broker", "5.4/e_tx.broker", "5.4/b_send_batch.broker", "4.9/b_send_batch.broker"):
        for one in exchanges(name):
            if one.request.code == 320:
                yield bytes(one.request.body) + b"\x08"
            elif one.answer is not None and one.answer.code == 0 and 90 < len(one.answer.body) < 2_500:
                yield from (bytes(one.answer.body) + bytes([how]) for how in (1, 3, 5))
