"""How an option is declared: its default, how text becomes its value, which values are allowed, and its spellings."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar, cast

import msgspec
from msgspec import Struct

from penstock.errors import ConfigError

__all__ = [
    "BOOTSTRAP",
    "INT32_MAX",
    "TOPICS",
    "Field",
    "Kind",
    "Options",
    "Spelling",
    "choice",
    "fields",
    "flag",
    "kind_of",
    "names",
    "normal",
    "number",
    "optional_flag",
    "optional_number",
    "optional_text",
    "ratio",
    "text",
    "texts",
    "without_brackets",
]

INT32_MAX: Final = 2**31 - 1
_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})

Word = TypeVar("Word", bound=enum.Enum)


class Kind(Struct, frozen=True):
    """``read`` converts a given value to the option's type; ``check`` raises ConfigError for values that are not
    allowed.

    Both get the option's name for their error messages. ``about`` describes the option in half a sentence, ``allowed``
    lists its values; documentation pages and help texts are made of them.
    """

    read: Callable[[str, object], object]
    check: Callable[[str, object], None]
    about: str
    allowed: str


class Field(Struct, frozen=True):
    """An option as a class of options declares it. A ``secret`` is never shown."""

    default: Any
    kind: Kind | None = None
    secret: bool = False
    name: str = ""


class _OptionsType(msgspec.StructMeta):
    """Replaces the Fields of a class by their defaults, and keeps them."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> _OptionsType:
        own = {key: msgspec.structs.replace(value, name=key) for key, value in body.items() if isinstance(value, Field)}
        defaults = {key: value.default for key, value in own.items()}
        made: Any = super().__new__(cls, name, bases, {**body, **defaults}, frozen=True, kw_only=True)
        inherited = {key: value for base in bases for key, value in getattr(base, "__options__", {}).items()}
        made.__options__ = {**inherited, **own}
        kind: _OptionsType = made
        return kind


class Options(Struct, metaclass=_OptionsType):
    """The base of classes whose attributes are options: frozen, made by name, without secrets in their ``repr``."""

    __options__: ClassVar[Mapping[str, Field]] = {}

    def __post_init__(self) -> None:
        """Check every option that has a Kind, then all together. Raises ConfigError for the first that is wrong."""
        for name, option in self.__options__.items():
            if option.kind is not None:
                option.kind.check(name, getattr(self, name))
        self.validate()

    def validate(self) -> None:
        """Raise ConfigError for options that contradict each other."""

    def __repr__(self) -> str:
        shown = (option.name for option in fields(type(self)) if not option.secret)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def fields(config: type[Options]) -> tuple[Field, ...]:
    """All options of a class, also those without a Kind, in order of their declaration."""
    named = zip(config.__struct_fields__, config.__struct_defaults__, strict=True)
    return tuple(config.__options__.get(name) or Field(default, name=name) for name, default in named)


def kind_of(option: Field) -> Kind:
    """The Kind that an option was declared with."""
    assert option.kind is not None
    return option.kind


def number(default: int, *, low: int, high: int = INT32_MAX, about: str) -> int:
    """A whole number from ``low`` to ``high``, both included."""

    def check_bounds(name: str, value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ConfigError(f"{name} is {value!r}, expected a whole number")
        if value < low or value > high:
            raise ConfigError(f"{name} is {value}, must be {low} to {high}")

    def read(name: str, given: object) -> object:
        if isinstance(given, str):
            try:
                return int(given.strip().replace("_", ""))
            except ValueError:
                raise ConfigError(f"{name} is {given!r}, expected a whole number") from None
        if isinstance(given, float) and given.is_integer():
            return int(given)
        return given

    allowed = f"{low:,} or more" if high == INT32_MAX else f"{low:,} to {high:,}"
    return cast("int", Field(default, Kind(read, check_bounds, about, allowed)))


def optional_number(*, low: int, high: int = INT32_MAX, about: str) -> int | None:
    """A whole number as in `number`, or None if not given."""
    options = cast("Field", number(low, low=low, high=high, about=about))
    said = kind_of(options)

    def check_bounds(name: str, value: object) -> None:
        if value is not None:
            said.check(name, value)

    return cast("int | None", Field(None, Kind(said.read, check_bounds, about, said.allowed)))


def flag(default: bool, *, about: str) -> bool:
    """True or false; as text also yes/no, on/off, 1/0."""

    def read(name: str, given: object) -> object:
        if isinstance(given, str):
            word = given.strip().lower()
            if word in _TRUE or word in _FALSE:
                return word in _TRUE
        return given

    def check_flag(name: str, value: object) -> None:
        if not isinstance(value, bool):
            raise ConfigError(f"{name} is {value!r}, expected true or false")

    return cast("bool", Field(default, Kind(read, check_flag, about, "true, false")))


def optional_flag(*, about: str) -> bool | None:
    """True or false as in `flag`, or None if not given."""
    options = cast("Field", flag(False, about=about))
    said = kind_of(options)

    def check_flag(name: str, value: object) -> None:
        if value is not None:
            said.check(name, value)

    return cast("bool | None", Field(None, Kind(said.read, check_flag, about, said.allowed)))


def ratio(default: float, *, low: float = 0.0, high: float = 1.0, about: str) -> float:
    """A number from ``low`` to ``high``, both included."""

    def check_bounds(name: str, value: object) -> None:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ConfigError(f"{name} is {value!r}, expected a number")
        if not low <= value <= high:
            raise ConfigError(f"{name} is {value}, must be {low:g} to {high:g}")

    def read(name: str, given: object) -> object:
        if isinstance(given, str):
            try:
                return float(given.strip())
            except ValueError:
                raise ConfigError(f"{name} is {given!r}, expected a number") from None
        return given

    return cast("float", Field(default, Kind(read, check_bounds, about, f"{low:g} to {high:g}")))


def text(default: str, *, about: str, allowed: str = "text") -> str:
    """Any text; ``allowed`` describes the values that the option's owner accepts."""

    def check_text(name: str, value: object) -> None:
        if not isinstance(value, str):
            raise ConfigError(f"{name} is {value!r}, expected text")

    return cast("str", Field(default, Kind(_as_given, check_text, about, allowed)))


def optional_text(*, about: str) -> str | None:
    """Text that is not empty, or None."""

    def check_text(name: str, value: object) -> None:
        if value is not None and not (isinstance(value, str) and value):
            raise ConfigError(f"{name} is {value!r}, expected text that is not empty")

    return cast("str | None", Field(None, Kind(_as_given, check_text, about, "text")))


def secret(*, about: str) -> str | None:
    """Text that is not empty, or None; never shown."""

    def check_text(name: str, value: object) -> None:
        if value is not None and not (isinstance(value, str) and value):
            raise ConfigError(f"{name} is no text, or is empty")

    return cast("str | None", Field(None, Kind(_as_given, check_text, about, "text"), secret=True))


def names(
    default: tuple[str, ...], *, known: tuple[str, ...], about: str, classes: bool = False
) -> tuple[str | type[object], ...]:
    """Some of the ``known`` names, separated by commas; with ``classes`` also classes, which their owner checks."""

    def read(name: str, given: object) -> object:
        if isinstance(given, str):
            given = [part.strip() for part in without_brackets(given).split(",") if part.strip()]
        if isinstance(given, type):
            given = [given]
        if isinstance(given, Sequence):
            return tuple(given)
        return given

    def check_names(name: str, value: object) -> None:
        if not isinstance(value, tuple) or not value:
            raise ConfigError(f"{name} is {value!r}, expected at least one of {', '.join(known)}")
        for part in value:
            if part not in known and not (classes and isinstance(part, type)):
                raise ConfigError(f"{name} has {part!r}, expected some of {', '.join(known)}")

    return cast(
        "tuple[str | type[object], ...]", Field(default, Kind(read, check_names, about, f"some of {', '.join(known)}"))
    )


def texts(*, about: str, allowed: str) -> tuple[str, ...]:
    """Any number of texts, in order; as one text they are separated by blanks."""

    def read(name: str, given: object) -> object:
        if isinstance(given, str):
            return tuple(given.split())
        return tuple(given) if isinstance(given, list) else given

    def check_texts(name: str, value: object) -> None:
        if not isinstance(value, tuple) or not all(isinstance(part, str) and part for part in value):
            raise ConfigError(f"{name} is {value!r}, expected a list of texts: {allowed}")

    return cast("tuple[str, ...]", Field((), Kind(read, check_texts, about, allowed)))


def without_brackets(given: str) -> str:
    """The text of a list without the brackets that Java prints around it."""
    bare = given.strip()
    return bare[1:-1] if bare[:1] == "[" and bare[-1:] == "]" else bare


def choice(
    default: Word | None,
    kind: type[Word],
    aliases: Mapping[str, Word] | None = None,
    *,
    optional: bool = False,
    about: str,
) -> Any:
    """A member of the enum ``kind``, given by its name or value in lower case, or by one of ``aliases``.

    ``optional``: None is allowed, too.
    """
    words = {**{str(word.value).lower(): word for word in kind}, **(aliases or {})}
    shown = ", ".join(word.name.lower() for word in kind)
    words.update({word.name.lower(): word for word in kind})

    def read(name: str, given: object) -> object:
        if isinstance(given, enum.Enum):
            return given
        return words.get(str(given).strip().lower(), given)

    def check_choice(name: str, value: object) -> None:
        if not isinstance(value, kind) and not (optional and value is None):
            raise ConfigError(f"{name} is {value!r}, expected one of {shown}")

    return Field(default, Kind(read, check_choice, about, shown))


def _as_given(name: str, given: object) -> object:
    del name
    return given


# Names of options: the form in which they are compared, and other clients' names for them.
#
# Dots and dashes count as underscores, so ``auto.offset.reset``, ``auto-offset-reset`` and ``auto_offset_reset`` are
# the same option.
BOOTSTRAP: Final = "bootstrap_servers"
TOPICS: Final = "topics"
"""These two are not fields of a config; they become part of the address."""


class Spelling(Struct, frozen=True):
    """Other names of one of our options; ``unit`` is what one of their units is in ours."""

    ours: str
    also: tuple[str, ...] = ()
    unit: int = 1


def normal(name: str) -> str:
    """The form in which names are compared."""
    return name.strip().lower().replace(".", "_").replace("-", "_")
