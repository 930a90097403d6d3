"""`dataclass` as the standard library's with ``slots=True``, whose methods are made when they are first asked for.

The standard library's compiles six functions for a frozen class, half a millisecond, and a fresh process declares
hundreds of classes of which it uses dozens: that was two fifths of the CPU until a consumer's first record. Here a
declaration costs a twentieth of it. What comes out is a dataclass to everybody: ``fields``, ``replace``, ``asdict``,
``copy``, ``pickle``, ``match``, signatures. Type checkers are told that it is the standard library's.
What must not live here: dataclasses without slots, ``InitVar`` and ``KW_ONLY``, which nobody needed; any class.
"""

from __future__ import annotations

import dataclasses
import reprlib
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

__all__ = ["dataclass"]

_MARKS: Final = ("ClassVar", "typing.ClassVar", "InitVar", "dataclasses.", "KW_ONLY")
_ORDER: Final = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


class _Later:
    """A class's attribute that takes the place of itself by what ``make`` makes of the class."""

    __slots__ = ("home", "make", "name")

    home: type
    name: str

    def __init__(self, make: Callable[[type], object]) -> None:
        self.make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self.home, self.name = owner, name

    def __get__(self, instance: object, owner: type) -> object:
        made = self.make(self.home)
        setattr(self.home, self.name, made)  # threads that come at once make the same thing twice
        bind = getattr(type(made), "__get__", None)
        return made if bind is None else bind(made, instance, owner)


def _lazy(
    *, slots: bool, eq: bool = True, order: bool = False, frozen: bool = False, kw_only: bool = False
) -> Callable[[type], type]:
    """Runs as what type checkers take for ``dataclasses.dataclass``."""
    if not slots or (order and not eq):
        raise TypeError("a dataclass of penstock has slots, and an order only where it has equality")

    def made(kind: type) -> type:
        if {"__setattr__", "__delattr__"} & kind.__dict__.keys():
            raise TypeError(f"{kind.__name__} has its own way to set what a dataclass sets")
        names = [name for name, annotation in kind.__annotations__.items() if _is_field(annotation)]
        body = dict(kind.__dict__)
        defaults = {name: body.pop(name) for name in names if name in body}
        for default in defaults.values():
            if default.__class__.__hash__ is None:
                raise ValueError(f"{kind.__name__}: a default that can be changed belongs into a default_factory")
        body.pop("__dict__", None)
        body.pop("__weakref__", None)
        inherited = {name for base in kind.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
        body["__slots__"] = tuple(name for name in names if name not in inherited)
        body["__qualname__"] = kind.__qualname__
        own = {**_methods(body, eq=eq, order=order, frozen=frozen), **_facts(defaults, frozen=frozen, kw_only=kw_only)}
        return type(kind)(kind.__name__, kind.__bases__, {**own, **body})

    return made


def _is_field(annotation: object) -> bool:
    """Whether an annotation declares one; those of a class do not. Raises TypeError for what is not built."""
    if isinstance(annotation, str):
        if not annotation.startswith(_MARKS):
            return True
        if annotation.startswith(_MARKS[:2]):
            return False
        raise TypeError(f"{annotation} is not known to penstock's dataclasses")
    return annotation is not typing.ClassVar and typing.get_origin(annotation) is not typing.ClassVar


def _methods(body: dict[str, Any], *, eq: bool, order: bool, frozen: bool) -> dict[str, object]:
    """What a class gets unless it has it already; ``__hash__`` as the standard library's table says."""
    found: dict[str, object] = {"__init__": _Later(_init), "__repr__": _Later(_repr)}
    if eq:
        if "__hash__" not in body or (body["__hash__"] is None and "__eq__" in body):
            body.pop("__hash__", None)  # None is what Python puts there for a class with an __eq__ of its own
            found["__hash__"] = _Later(_hash) if frozen else None
        found["__eq__"] = _Later(_EQ)
    if order:
        found.update((name, _Later(_comparing(name, sign))) for name, sign in _ORDER.items())
    if frozen:
        found["__setattr__"] = _Later(_setattr)
        found["__delattr__"] = _Later(_delattr)
        found["__getstate__"] = _getstate
        found["__setstate__"] = _setstate
    return found


def _facts(defaults: Mapping[str, object], *, frozen: bool, kw_only: bool) -> dict[str, object]:
    """What the standard library's functions look for."""
    found: dict[str, object] = {
        "__dataclass_fields__": _Later(lambda kind: _all_fields(kind, defaults, kw_only=kw_only)),
        "__dataclass_params__": _Later(lambda _: _params(frozen=frozen)),
        "__match_args__": _Later(lambda kind: tuple(each.name for each in _of_init(kind) if not each.kw_only)),
    }
    if sys.version_info >= (3, 13):
        found["__replace__"] = dataclasses.replace
    return found


def _all_fields(kind: type, defaults: Mapping[str, object], *, kw_only: bool) -> dict[str, dataclasses.Field[Any]]:
    """Those of its bases, and its own, which the standard library reads from a class without methods."""
    found: dict[str, dataclasses.Field[Any]] = {}
    for base in reversed(kind.__mro__[1:]):
        found.update((base.__dict__.get("__dataclass_fields__") and base.__dataclass_fields__) or {})  # type: ignore[attr-defined]
    shadow = type(kind.__name__, (), {**defaults, "__module__": kind.__module__, "__doc__": "Fields."})
    shadow.__annotations__ = kind.__annotations__
    declare = dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False, kw_only=kw_only)
    return {**found, **{each.name: each for each in dataclasses.fields(declare(shadow))}}


def _params(*, frozen: bool) -> object:
    class Bare:
        """Nothing."""

    return dataclasses.dataclass(frozen=frozen)(Bare).__dataclass_params__  # type: ignore[attr-defined]


def _of_init(kind: type) -> list[dataclasses.Field[Any]]:
    return [each for each in dataclasses.fields(kind) if each.init]


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"


_FACTORY: Final = _Factory()


def _init(kind: type) -> object:
    """A signature of its own, and each field is set by what its slot offers."""
    names: dict[str, object] = {"_factory": _FACTORY}
    taken: list[str] = []
    by_name: list[str] = []
    steps: list[str] = []
    frozen = "__setattr__" in kind.__dict__
    me = "__dataclass_self__" if any(each.name == "self" for each in dataclasses.fields(kind)) else "self"
    for each in dataclasses.fields(kind):
        name, default, value = each.name, "", each.name
        if each.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = each.default
            default = f"=_default_{name}"
        elif each.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"] = each.default_factory
            default = "=_factory"
            value = f"_make_{name}() if {name} is _factory else {name}" if each.init else f"_make_{name}()"
        if each.init:
            (by_name if each.kw_only else taken).append(name + default)
        elif not default:
            continue
        elif each.default is not dataclasses.MISSING:
            value = f"_default_{name}"
        if frozen:
            names[f"_set_{name}"] = getattr(kind, name).__set__
        steps.append(f"_set_{name}({me}, {value})" if frozen else f"{me}.{name} = {value}")
    if hasattr(kind, "__post_init__"):
        steps.append(f"{me}.__post_init__()")
    made = _compiled(kind, "__init__", [me, *taken, *(["*", *by_name] if by_name else [])], steps or ["pass"], names)
    made.__annotations__ = {**{each.name: each.type for each in _of_init(kind)}, "return": None}
    return made


def _compiled(kind: type, name: str, given: Sequence[str], steps: Sequence[str], names: Mapping[str, object]) -> Any:
    """A function that knows the class's module, and ``names``."""
    text = f"def make({', '.join(names)}):\n def {name}({', '.join(given)}):\n  " + "\n  ".join(steps)
    space: dict[str, Any] = {}
    home = sys.modules.get(kind.__module__)
    exec(f"{text}\n return {name}", {} if home is None else home.__dict__, space)
    return _named(space["make"](**names), kind, name)


def _named(made: Any, kind: type, name: str) -> object:
    made.__name__, made.__qualname__, made.__module__ = name, f"{kind.__qualname__}.{name}", kind.__module__
    return made


def _values(of: str, names: Iterable[str]) -> str:
    """All those attributes, as a tuple whatever their number."""
    return f"({''.join([f'{of}.{name}, ' for name in names])})"


def _comparing(name: str, sign: str) -> Callable[[type], object]:
    def make(kind: type) -> object:
        names = [each.name for each in dataclasses.fields(kind) if each.compare]
        compared = f"{_values('self', names)} {sign} {_values('other', names)}"
        steps = ["if other.__class__ is self.__class__:", f" return {compared}", "return NotImplemented"]
        return _compiled(kind, name, ["self", "other"], steps, {})

    return make


_EQ: Final = _comparing("__eq__", "==")


def _hash(kind: type) -> object:
    names = [each.name for each in dataclasses.fields(kind) if (each.compare if each.hash is None else each.hash)]
    return _compiled(kind, "__hash__", ["self"], [f"return hash({_values('self', names)})"], {})


def _repr(kind: type) -> object:
    names = [each.name for each in dataclasses.fields(kind) if each.repr]

    @reprlib.recursive_repr()
    def method(self: object) -> str:
        return f"{self.__class__.__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

    return _named(method, kind, "__repr__")


def _setattr(kind: Any) -> object:
    names = frozenset(each.name for each in dataclasses.fields(kind))

    def method(self: object, name: str, value: object) -> None:
        if type(self) is kind or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(kind, self).__setattr__(name, value)

    return _named(method, kind, "__setattr__")


def _delattr(kind: Any) -> object:
    names = frozenset(each.name for each in dataclasses.fields(kind))

    def method(self: object, name: str) -> None:
        if type(self) is kind or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(kind, self).__delattr__(name)

    return _named(method, kind, "__delattr__")


def _getstate(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _setstate(self: Any, state: list[object]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=False):
        object.__setattr__(self, each.name, value)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _lazy
