"""Whatever a consumer does between its polls, each record is confirmed once, or read again until it is."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ServerError
from penstock.protocols.tubemq.wire import rpc as m
from penstock.protocols.tubemq.wire.messages import GetMessageResponseB2C
from tests.unit.client.virtual_time import passing
from tests.unit.tubemq_client.cluster import SILENCE, go
from tests.unit.tubemq_consumer.groups import filled, world

DEEDS = st.sampled_from(
    ["commit", "commit", "commit", "reject", "nothing", "late", "pause", "forget", "busy", "seek back"]
)
ANSWERS = st.sampled_from([None, None, None, 404, 452, 503, 500, SILENCE])


@settings(max_examples=40)
@given(
    st.lists(DEEDS, min_size=1, max_size=25),
    st.lists(ANSWERS, max_size=15),
    st.integers(1, 9),
    st.integers(1, 3),
    st.booleans(),
)
def test_every_record_is_confirmed_in_the_end(
    deeds: list[str], answers: list[object], window: int, pieces: int, local: bool
) -> None:
    async def work() -> None:
        cluster = filled(40, partitions=2, stores=2)
        cluster.window = lambda: window
        trouble = list(answers)

        def answer(_: object) -> object:
            code = trouble.pop() if trouble else None
            if not isinstance(code, int):
                return code
            return GetMessageResponseB2C(success=False, err_code=code, err_msg="", min_limit_time=50, curr_offset=-1)

        cluster.refuse[m.GET_MESSAGE.number] = answer
        options = {"rpc_timeout_ms": 3_000, "confirm_timeout_ms": 20_000, "confirm_locally": local}
        confirmed: Counter[bytes | None] = Counter()
        async with world(cluster) as w, w.consumer("demo", max_poll_records=4 * pieces, **options) as consumer:
            steps, refusals = iter(deeds), set()
            for _ in range(200):
                deed = next(steps, "commit" if len(confirmed) < 40 else "")
                if not deed:
                    break
                try:
                    batch = await consumer.poll(30)
                    if deed == "commit":
                        await consumer.commit(batch)
                        confirmed.update(record.value for record in batch)
                    elif deed == "reject":
                        await consumer.reject(batch)
                    elif deed == "late":
                        await passing(25)
                    elif deed == "pause":
                        await consumer.pause(batch.partitions)
                        await passing(1)
                        await consumer.resume(batch.partitions)
                        await consumer.reject()
                    elif deed == "forget":
                        cluster.places.update({key: held.committed for key, held in cluster.held.items()})
                        cluster.held.clear()
                        await passing(3)
                    elif deed == "busy":
                        await passing(5)
                        await consumer.reject()
                    elif deed == "seek back":
                        await consumer.seek_to_beginning()
                        confirmed.clear()
                    else:
                        await consumer.reject(batch)
                except ServerError as error:
                    refusals.add(error.code)
            assert refusals <= {401}
            assert set(confirmed) == {b"%d" % number for number in range(40)}
        assert {place for (group, _, _), place in cluster.places.items() if group == "g1"} == {28 * 20}

    go(work())
