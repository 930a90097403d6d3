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
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

__all__ = ["Declared", "dataclass", "fields_of"]

_MARKS: Final = ("ClassVar", "typing.ClassVar", "InitVar", "dataclasses.", "KW_ONLY")
_FEW: Final = 2
"""Objects that are filled sooner than a function is compiled for them."""
_MISSING: Final = dataclasses.MISSING
_ORDER: Final = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


_Own: TypeAlias = "Callable[[], dict[str, Declared]]"


class Declared(NamedTuple):
    """A field as it was declared; ``type`` is the annotation's text, MISSING stands for a default that is not there."""

    name: str
    type: Any
    default: Any
    make: Any
    init: bool
    repr: bool
    compare: bool
    hash: bool
    kw_only: bool


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


class _LaterInit(_Later):
    """Most classes are made once or twice in a short process: the first objects are filled without a function."""

    __slots__ = ("made",)

    def __init__(self) -> None:
        super().__init__(_init)
        self.made = 0

    def __get__(self, instance: object, owner: type) -> object:
        if self.made >= _FEW or not isinstance(instance, self.home):  # else somebody looks at the class
            return super().__get__(instance, owner)
        self.made += 1
        return partial(_fill, self, instance)


def _fill(later: _LaterInit, me: Any, /, *given: object, **named: object) -> None:
    """Do what the compiled function does; that one is asked where something is wrong, for it knows how to say so."""
    fields = fields_of(later.home)
    taken = [each.name for each in fields if each.init and not each.kw_only]
    values = {**dict(zip(taken, given, strict=False)), **named}
    right = len(values) == len(given) + len(named) and values.keys() <= {each.name for each in fields if each.init}
    for each in fields:
        if each.name not in values:
            if each.make is not _MISSING:
                values[each.name] = each.make()
            elif each.default is not _MISSING:
                values[each.name] = each.default
            else:
                right = right and not each.init
    if not right:
        later.made = _FEW
        later.home.__init__(me, *given, **named)  # type: ignore[misc]
        return
    for each in fields:
        if each.name in values:
            getattr(later.home, each.name).__set__(me, values[each.name])
    if hasattr(me, "__post_init__"):
        me.__post_init__()


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
        own["__declared__"] = _declared(kind.__annotations__, defaults, kw_only=kw_only)
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
    found: dict[str, object] = {"__init__": _LaterInit(), "__repr__": _Later(_repr)}
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
        "__match_args__": _Later(
            lambda kind: tuple(each.name for each in fields_of(kind) if each.init and not each.kw_only)
        ),
    }
    if sys.version_info >= (3, 13):
        found["__replace__"] = dataclasses.replace
    return found


def fields_of(kind: type) -> tuple[Declared, ...]:
    """What ``dataclasses.fields`` says, without what it takes to make the standard library's objects of it."""
    found: dict[str, Declared] = {}
    for each in reversed(kind.__mro__):
        own = each.__dict__.get("__declared__")
        found.update(own() if own is not None else _theirs(each))
    return tuple(found.values())


def _declared(annotations: Mapping[str, object], defaults: Mapping[str, object], *, kw_only: bool) -> _Own:
    """Of a class alone, by name."""

    def own() -> dict[str, Declared]:
        fields = ((name, kind, defaults.get(name, _MISSING)) for name, kind in annotations.items() if _is_field(kind))
        return {
            name: _of_field(name, kind, given, kw_only=kw_only)
            if isinstance(given, dataclasses.Field)
            else Declared(name, kind, given, _MISSING, True, True, True, True, kw_only)
            for name, kind, given in fields
        }

    return own


def _of_field(name: str, kind: object, field: dataclasses.Field[Any], *, kw_only: bool) -> Declared:
    by_name = kw_only if field.kw_only is _MISSING else bool(field.kw_only)
    hashed = field.compare if field.hash is None else field.hash
    flags = (field.init, field.repr, field.compare, hashed, by_name)
    return Declared(name, kind, field.default, field.default_factory, *flags)


def _theirs(kind: type) -> dict[str, Declared]:
    """Of a dataclass of the standard library's; nothing of any other class."""
    if "__dataclass_fields__" not in kind.__dict__:
        return {}
    return {each.name: _of_field(each.name, each.type, each, kw_only=False) for each in dataclasses.fields(kind)}


def _all_fields(kind: type, defaults: Mapping[str, object], *, kw_only: bool) -> dict[str, dataclasses.Field[Any]]:
    """Those of its bases, and its own, which the standard library reads from a class without methods."""
    found: dict[str, dataclasses.Field[Any]] = {}
    for base in reversed(kind.__mro__[1:]):
        found.update(getattr(base, "__dataclass_fields__", {}))
    shadow = type(kind.__name__, (), {**defaults, "__module__": kind.__module__, "__doc__": "Fields."})
    shadow.__annotations__ = kind.__annotations__
    declare = dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False, kw_only=kw_only)
    return {**found, **{each.name: each for each in dataclasses.fields(declare(shadow))}}


def _params(*, frozen: bool) -> object:
    class Bare:
        """Nothing."""

    return dataclasses.dataclass(frozen=frozen)(Bare).__dataclass_params__  # type: ignore[attr-defined]


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
    fields = fields_of(kind)
    me = "__dataclass_self__" if any(each.name == "self" for each in fields) else "self"
    for each in fields:
        name, default, value = each.name, "", each.name
        if each.default is not _MISSING:
            names[f"_default_{name}"] = each.default
            default = f"=_default_{name}"
        elif each.make is not _MISSING:
            names[f"_make_{name}"] = each.make
            default = "=_factory"
            value = f"_make_{name}() if {name} is _factory else {name}" if each.init else f"_make_{name}()"
        if each.init:
            (by_name if each.kw_only else taken).append(name + default)
        elif not default:
            continue
        elif each.default is not _MISSING:
            value = f"_default_{name}"
        if frozen:
            names[f"_set_{name}"] = getattr(kind, name).__set__
        steps.append(f"_set_{name}({me}, {value})" if frozen else f"{me}.{name} = {value}")
    if hasattr(kind, "__post_init__"):
        steps.append(f"{me}.__post_init__()")
    made = _compiled(kind, "__init__", [me, *taken, *(["*", *by_name] if by_name else [])], steps or ["pass"], names)
    made.__annotations__ = {**{each.name: each.type for each in fields if each.init}, "return": None}
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
        names = [each.name for each in fields_of(kind) if each.compare]
        compared = f"{_values('self', names)} {sign} {_values('other', names)}"
        steps = ["if other.__class__ is self.__class__:", f" return {compared}", "return NotImplemented"]
        return _compiled(kind, name, ["self", "other"], steps, {})

    return make


_EQ: Final = _comparing("__eq__", "==")


def _hash(kind: type) -> object:
    names = [each.name for each in fields_of(kind) if each.hash]
    return _compiled(kind, "__hash__", ["self"], [f"return hash({_values('self', names)})"], {})


def _repr(kind: type) -> object:
    names = [each.name for each in fields_of(kind) if each.repr]

    @reprlib.recursive_repr()
    def method(self: object) -> str:
        return f"{self.__class__.__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

    return _named(method, kind, "__repr__")


def _setattr(kind: Any) -> object:
    names = frozenset(each.name for each in fields_of(kind))

    def method(self: object, name: str, value: object) -> None:
        if type(self) is kind or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(kind, self).__setattr__(name, value)

    return _named(method, kind, "__setattr__")


def _delattr(kind: Any) -> object:
    names = frozenset(each.name for each in fields_of(kind))

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
