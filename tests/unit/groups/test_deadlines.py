"""Deadlines: the earliest first, moved and cancelled without a trace."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.concurrency.runtime import Deadlines

KEYS = st.integers(0, 5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(0, 50)),
        st.tuples(st.just("cancel"), KEYS, st.just(0)),
        st.tuples(st.just("due"), st.just(0), st.integers(0, 50)),
    ),
    max_size=60,
)


@given(STEPS, st.booleans())
def test_it_does_what_a_plain_dictionary_would(steps: list[tuple[str, int, int]], asks: bool) -> None:
    deadlines, model = Deadlines[int](), dict[int, float]()
    for what, key, when in steps:
        if what == "set":
            deadlines.set(key, float(when))
            model[key] = float(when)
        elif what == "cancel":
            deadlines.cancel(key)
            model.pop(key, None)
        else:
            due = list(deadlines.due(float(when)))
            assert sorted(due, key=lambda one: model[one]) == due
            assert set(due) == {one for one, time in model.items() if time <= when}
            for one in due:
                del model[one]
        bound, least = deadlines.not_before(), min(model.values(), default=None)
        assert (bound is not None and bound <= least) if least is not None else True
        if asks:
            assert deadlines.next() == deadlines.not_before() == least
        assert len(deadlines) == len(model)
        assert all((one in deadlines) == (one in model) for one in range(6))


def test_what_is_cancelled_or_set_while_going_through_counts() -> None:
    deadlines = Deadlines[str]()
    for name, when in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
        deadlines.set(name, when)
    seen = []
    for name in deadlines.due(3.0):
        seen.append(name)
        deadlines.cancel("b")
        if name == "a":
            deadlines.set("d", 2.5)
    assert seen == ["a", "d", "c"]


def test_a_million_heartbeats_need_no_memory() -> None:
    deadlines = Deadlines[int]()
    for beat in range(100_000):
        deadlines.set(beat % 10, float(beat))
        if beat % 3 == 0:
            deadlines.set(beat % 10, float(beat) / 2)
    assert len(deadlines._heap) < 200
