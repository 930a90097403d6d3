"""Whatever fails, in whatever order answers come: acknowledged records are stored once, in order, where it was told."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from penstock.client import AsyncProducer, DeliveryTimeout
from penstock.errors import ConnectionLost, PenstockError, RequestTimeout, ServerError
from penstock.model import Partition
from penstock.protocols import register
from penstock.records import decode_v2
from tests.conformance.fake_log import FakeLogs
from tests.unit.client.virtual_time import passing, run

RECORDS = 60
PARTITIONS = 3

FAULTS: dict[str, Callable[[], PenstockError | None]] = {
    "fine": lambda: None,
    "lost": lambda: ConnectionLost("gone"),
    "late": lambda: RequestTimeout("no answer"),
    "moved": lambda: ServerError("moved", code=6, name="NOT_LEADER", retriable=True),
    "refused": lambda: ServerError("refused", code=87, name="INVALID_RECORD"),
}

faults = st.lists(st.sampled_from(sorted(FAULTS)), max_size=25)
delays = st.lists(st.sampled_from([0.0, 0.0, 0.01, 0.2]), max_size=40)
pauses = st.lists(st.sampled_from([0.0, 0.001, 0.05]), min_size=RECORDS, max_size=RECORDS)


@given(
    sending=faults,
    acknowledging=faults,
    delays_s=delays,
    pauses_s=pauses,
    batch_size=st.sampled_from([1, 300, 5_000]),
    at_once=st.booleans(),
)
def test_nothing_is_doubled_reordered_or_lost(
    sending: list[str],
    acknowledging: list[str],
    delays_s: list[float],
    pauses_s: list[float],
    batch_size: int,
    at_once: bool,
) -> None:
    logs = FakeLogs()
    register(logs.protocol())
    log = logs.logs["h"]
    log.create("t", PARTITIONS)
    log.faults["send"].extend(FAULTS[each]() for each in sending)
    # After it was stored, a batch cannot be refused: only the answer can get lost.
    log.faults["acknowledge"].extend(FAULTS[each]() for each in acknowledging if each != "refused")
    log.delays_s.extend(delays_s)
    log.takes_at_once = at_once

    async def main() -> dict[int, tuple[int, int] | PenstockError]:
        producer = AsyncProducer("fake://h:1", batch_size_bytes=batch_size, linger_ms=2)
        deliveries = []
        for number, pause_s in enumerate(pauses_s):
            deliveries.append(await producer.send("t", b"%d" % number, partition=number % PARTITIONS))
            if pause_s:
                await passing(pause_s)
        told: dict[int, tuple[int, int] | PenstockError] = {}
        for number, delivery in enumerate(deliveries):
            try:
                metadata = await delivery
                told[number] = (metadata.partition, metadata.offset)
            except PenstockError as error:
                told[number] = error
        await producer.close()
        return told

    told = run(main())
    for partition in range(PARTITIONS):
        data = b"".join(log.partitions[Partition("t", partition)].batches)
        values = [int(value) for value in decode_v2(data).batch.column("value").to_pylist()]
        assert values == sorted(set(values))
        for number, place in told.items():
            if isinstance(place, tuple) and place[0] == partition:
                assert values[place[1]] == number
        refused = {number for number, place in told.items() if isinstance(place, ServerError)}
        assert not any(isinstance(place, DeliveryTimeout) for place in told.values())
        mine = set(range(partition, RECORDS, PARTITIONS))
        # What was stored, and then refused when it was sent again for lack of an answer, is stored all the same.
        assert mine - refused <= set(values) <= (mine if acknowledging else mine - refused)
