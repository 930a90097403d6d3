"""Our dataclasses are the standard library's to whoever looks: the same class body is declared by both and compared."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import operator
import pickle
import threading
from collections.abc import Callable
from dataclasses import field
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import pytest

from penstock import _dataclasses

T = TypeVar("T")


def declare(decorate: Any) -> dict[str, type]:
    """The classes under test, by what is particular of them."""
    return {kind.__name__: kind for kind in (*declare_usual(decorate), *declare_unusual(decorate))}


def declare_usual(decorate: Any) -> list[type]:
    """As most are."""

    @decorate(frozen=True, slots=True)
    class Plain:
        """Words."""

        a: int
        b: str = "b"
        c: tuple[int, ...] = ()

        def twice(self) -> int:
            """A method."""
            return 2 * self.a

    @decorate(slots=True)
    class Open:
        """May be set."""

        a: int
        b: list[int] = field(default_factory=list)

    @decorate(frozen=True, slots=True, kw_only=True)
    class Named:
        """With names only."""

        API: ClassVar[int] = 7
        a: Annotated[int, "wire"] = -1
        b: Annotated[str, "wire"] = ""

    @decorate(frozen=True, slots=True, kw_only=True)
    class Deeper(Named):
        """More, and another default."""

        b: str = "deeper"
        c: int = 3

    @decorate(frozen=True, slots=True)
    class Empty:
        """Nothing."""

    return [Plain, Open, Named, Deeper, Empty]


def declare_unusual(decorate: Any) -> list[type]:
    """With what only some have."""

    @decorate(frozen=True, slots=True)
    class Fields(Generic[T]):
        """Every kind of field."""

        a: T
        secret: str = field(repr=False)
        b: int = field(default=2, compare=False)
        c: int = field(default=3, hash=False)
        d: int = field(default=4, kw_only=True)
        made: dict[str, int] = field(default_factory=dict, hash=False)

    @decorate(slots=True)
    class After:
        """Made ready."""

        a: int
        twice: int = field(init=False)
        five: int = field(default=5, init=False)
        several: list[int] = field(default_factory=lambda: [1], init=False)

        def __post_init__(self) -> None:
            self.twice = 2 * self.a

    @decorate(slots=True, eq=False)
    class Itself:
        """Equal to itself."""

        a: int = 0

    @decorate(frozen=True, slots=True, order=True)
    class Ordered:
        """One after the other."""

        a: int
        b: int = 0

    @decorate(frozen=True, slots=True)
    class Own:
        """What it has of its own stays."""

        self: int = 0

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

    return [Fields, After, Itself, Ordered, Own]


@_dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """At home in a module, as what is pickled has to be."""

    a: int
    b: str = ""


@_dataclasses.dataclass(slots=True)
class Kept:
    """The same, not frozen."""

    a: list[int]


OURS = declare(_dataclasses.dataclass)
THEIRS = declare(dataclasses.dataclass)
GIVEN: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "Plain": ((1,), {"c": (4,)}),
    "Open": ((1,), {}),
    "Named": ((), {"a": 5}),
    "Deeper": ((), {"a": 5}),
    "Fields": ((1, "password"), {"d": 9}),
    "After": ((4,), {}),
    "Itself": ((), {}),
    "Ordered": ((2,), {}),
    "Own": ((), {}),
    "Empty": ((), {}),
}


def made(kinds: dict[str, type], name: str) -> Any:
    taken, named = GIVEN[name]
    return kinds[name](*taken, **named)


def name_of(kind: type) -> str:
    """A field's."""
    return next(each.name for each in dataclasses.fields(kind))


def outcome(action: Callable[[], object]) -> object:
    """What comes back, or what is raised, in words that hold for both."""
    try:
        return action()
    except Exception as error:
        return type(error), str(error)


def alike(name: str, look: Callable[[type, Any], object]) -> None:
    ours, theirs = declare(_dataclasses.dataclass), declare(dataclasses.dataclass)  # nothing was asked for yet
    assert outcome(lambda: look(ours[name], made(ours, name))) == outcome(
        lambda: look(theirs[name], made(theirs, name))
    )


LOOKS: dict[str, Callable[[type, Any], object]] = {
    "repr": lambda kind, one: repr(one),
    "signature": lambda kind, one: str(inspect.signature(kind)),
    "annotations of init": lambda kind, one: kind.__init__.__annotations__,  # type: ignore[misc]
    "names of methods": lambda kind, one: (kind.__init__.__qualname__, kind.__init__.__module__),  # type: ignore[misc]
    "fields": lambda kind, one: [
        (each.name, each.type, each.default, each.repr, each.compare, each.hash, each.init, each.kw_only)
        for each in dataclasses.fields(kind)
    ],
    "slots": lambda kind, one: (kind.__slots__, hasattr(one, "__dict__")),  # type: ignore[attr-defined]
    "match": lambda kind, one: kind.__match_args__,  # type: ignore[attr-defined]
    "words": lambda kind, one: (kind.__doc__, kind.__name__, kind.__qualname__, kind.__module__),
    "of the class": lambda kind, one: getattr(kind, "API", None),
    "equal": lambda kind, one: (one == copy.copy(one), one == 5, one != copy.copy(one)),
    "hash": lambda kind, one: hash(one) if kind.__hash__ is not object.__hash__ else "its own",
    "hash or none": lambda kind, one: kind.__hash__ is None,
    "set": lambda kind, one: (setattr(one, name_of(kind), 3), repr(one)),
    "delete": lambda kind, one: delattr(one, name_of(kind)),
    "replaced": lambda kind, one: repr(dataclasses.replace(one, a=9)),
    "as a dict": lambda kind, one: dataclasses.asdict(one),
    "copied": lambda kind, one: repr(copy.deepcopy(one)),
    "less": lambda kind, one: (one < dataclasses.replace(one, a=3), one >= copy.copy(one), one < 5),
    "unknown": lambda kind, one: kind(1, nothing=3),
    "too few": lambda kind, one: repr(kind(b=1)),
    "too many": lambda kind, one: kind(*range(9)),
    "twice": lambda kind, one: kind(1, a=1),
    "again and again": lambda kind, one: [repr(made({kind.__name__: kind}, kind.__name__)) for _ in range(4)],
    "state": lambda kind, one: one.__getstate__(),
    "frozen": lambda kind, one: kind.__dataclass_params__.frozen,  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("what", LOOKS)
@pytest.mark.parametrize("name", GIVEN)
def test_both_say_the_same(name: str, what: str) -> None:
    alike(name, LOOKS[what])


@pytest.mark.parametrize("one", [Sent(1, "b"), Kept([1])], ids=repr)
def test_they_are_pickled(one: object) -> None:
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_frozen_one_takes_nothing_that_it_does_not_know() -> None:
    # The standard library's with slots look at the wrong class there, and end in a TypeError of super's.
    for name in ("Plain", "Fields", "Empty"):
        one = made(OURS, name)
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'nothing'"):
            one.nothing = 3
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'nothing'"):
            del one.nothing


def test_what_the_standard_library_derives_from_ours_has_all_fields() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Derived(OURS["Plain"]):  # type: ignore[misc, name-defined]
        d: int = 4

    assert repr(Derived(1)).endswith("Derived(a=1, b='b', c=(), d=4)")
    with pytest.raises(TypeError, match="non-frozen"):
        dataclasses.dataclass(type("Open", (OURS["Plain"],), {}))


def test_a_class_that_calls_its_base_reaches_it_first_thing() -> None:
    class Louder(declare(_dataclasses.dataclass)["Plain"]):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(5)

        def __repr__(self) -> str:
            return super().__repr__() + "!"

    assert repr(Louder()).endswith("Louder(a=5, b='b', c=())!")


def test_a_class_that_holds_itself_can_be_shown() -> None:
    one = made(OURS, "Open")
    one.b.append(one)
    assert repr(one).endswith("Open(a=1, b=[...])")


def test_methods_are_made_once_and_then_stay() -> None:
    kind = declare(_dataclasses.dataclass)["Plain"]
    assert not inspect.isfunction(vars(kind)["__init__"])
    one, *_ = kind(1), kind(2), kind(3)
    assert inspect.isfunction(vars(kind)["__init__"])
    assert not inspect.isfunction(vars(kind)["__eq__"])
    assert one == kind(1)
    assert inspect.isfunction(vars(kind)["__eq__"])


def test_threads_that_come_at_once_all_get_theirs() -> None:
    for _ in range(20):
        kind = declare(_dataclasses.dataclass)["Fields"]
        start, found = threading.Barrier(4), []

        def work(kind: type = kind, start: threading.Barrier = start, found: list[object] = found) -> None:
            start.wait()
            found.append((hash(kind(1, "x")), repr(kind(1, "x")), kind(1, "x") == kind(1, "x")))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(found) == 4
        assert len(set(found)) == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"__annotations__": {"a": "list[int]"}, "a": []}, "default_factory"),
        ({"__annotations__": {"a": "InitVar[int]"}}, "InitVar"),
        ({"__annotations__": {"_": "KW_ONLY"}}, "KW_ONLY"),
        ({"__setattr__": operator.setitem}, "its own way"),
    ],
)
def test_what_is_not_built_is_refused_at_once(body: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        _dataclasses.dataclass(frozen=True, slots=True)(type("Bad", (), body))


@pytest.mark.parametrize("options", [{"slots": False}, {"slots": True, "eq": False, "order": True}])
def test_options_that_are_not_built_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="has slots"):
        _dataclasses.dataclass(**options)
