"""Which code an error becomes in an answer: the rows of a front's table, and the refusal that carries a code.

What must not live here: any code. The tables are the fronts' own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from penstock.errors import PenstockError

__all__ = ["CodedRefusal", "code_for"]

Code = TypeVar("Code")


class CodedRefusal(PenstockError):
    """A request that is not served: answered with ``code`` and the message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def code_for(error: PenstockError, rows: Iterable[tuple[type[PenstockError], Code]], otherwise: Code) -> Code:
    """Return the code of the first row whose class ``error`` is one of."""
    return next((code for kind, code in rows if isinstance(error, kind)), otherwise)
