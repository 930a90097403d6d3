"""Messages of a TubeMQ answer, by both kernels: they say the same of any bytes."""

from collections.abc import Iterator

from penstock import kernels
from penstock.errors import PenstockError
from penstock.protocols.tubemq.wire import record_columns, records
from penstock.protocols.tubemq.wire.rpc import GET_MESSAGE, read_payload
from tests.vectors.tubemq_frames.conversations import exchanges


def run(data: bytes) -> str:
    """The last byte says whether checksums count and filters apply."""
    check, filtered = bool(data) and not data[-1] & 1, bool(data) and bool(data[-1] & 2)
    said = []
    for kernel in ("pure", "numba"):
        with kernels.using(kernel):
            said.append(_said(data, check, filtered))
    assert said[0] == said[1]
    return str(said[0])


def _said(data: bytes, check: bool, filtered: bool) -> object:
    try:
        messages = records.read_messages(memoryview(data))
        found = record_columns.decode(messages, check_crcs=check, filters={"blue"} if filtered else ())
    except PenstockError as error:
        return str(error)
    found.batch.validate(full=True)
    index = found.batch.schema.get_field_index("timestamp")
    columns = found.batch.set_column(index, "timestamp", found.batch.column(index).view("int64"))
    return columns.to_pydict(), found.message_ids.to_pylist(), found.corrupt, found.first_corrupt, found.filtered


def seeds() -> Iterator[bytes]:
    """The recorded answers with messages, as small as they come."""
    for name in ("consumer-broker", "filter-broker", "manual-broker"):
        for one in exchanges(name):
            if one.call.method == GET_MESSAGE.number and 200 < len(one.answer.body) < 2_500:
                yield bytes(read_payload(GET_MESSAGE, one.answer))
