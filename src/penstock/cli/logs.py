"""Logging of the command line: to standard error, as text or as JSON, one record per line.

A library must not add handlers; a program must, and penstock's command line does it here.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from datetime import UTC, datetime
from typing import Final

from penstock.errors import ConfigError

__all__ = ["FORMATS", "LEVELS", "VARIABLE", "log_as_asked", "log_to_stderr"]

VARIABLE: Final = "PENSTOCK_LOG"
"""LEVEL, FORMAT, or both with a comma between them; an option overrides it."""
LEVELS: Final = ("debug", "info", "warning", "error", "critical")
FORMATS: Final = ("text", "json")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def log_as_asked() -> None:
    """Configure logging as `VARIABLE` says, if it is set. For short commands, which print plain warnings without it.

    Raises ConfigError.
    """
    if os.environ.get(VARIABLE):
        log_to_stderr(usual_level="warning")


def log_to_stderr(level: str | None = None, form: str | None = None, *, usual_level: str) -> None:
    """Log penstock's records from ``level`` on to standard error, and all other libraries' warnings.

    An argument that is None comes from `VARIABLE`, or has its default. Raises ConfigError if the variable is wrong.
    """
    asked_level, asked_form = _asked()
    level, form = level or asked_level or usual_level, form or asked_form or FORMATS[0]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    logging.raiseExceptions = False  # standard error may be closed, and then errors of logging cannot be shown anywhere
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("penstock").setLevel(level.upper())


def _asked() -> tuple[str | None, str | None]:
    """Level and format of the variable."""
    level = form = None
    for word in filter(None, (part.strip().lower() for part in os.environ.get(VARIABLE, "").split(","))):
        if word in LEVELS and level is None:
            level = word
        elif word in FORMATS and form is None:
            form = word
        else:
            raise ConfigError(
                f"{VARIABLE} has {word!r}",
                hint=f"Write a level ({', '.join(LEVELS)}), a format ({', '.join(FORMATS)}), or both, as in info,json",
            )
    return level, form


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Text(logging.Formatter):
    """``2026-11-27T22:40:05.123Z INFO penstock.node: ready``; a traceback follows on lines of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        # Text from clients, such as their names, must not look like a separate line.
        return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", super().formatMessage(record))

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - logging's name
        del datefmt
        return _time(record)


class _Json(logging.Formatter):
    """One object per line: time, level, logger, message, process; and the traceback as exception, if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)
