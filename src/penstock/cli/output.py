"""How results are printed: a table for people, plain tab-separated lines in a pipe, JSON lines on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence

from penstock.errors import UsageError

Cell = str | int | float | bool | None

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {9: "\\t", 10: "\\n", 13: "\\r"}


def show(
    rows: Iterable[Mapping[str, Cell]],
    columns: Sequence[str],
    *,
    as_json: bool,
    as_csv: bool = False,
    title: str = "",
    header: bool = False,
) -> None:
    """Print ``rows`` (mappings with the keys ``columns``).

    JSON: one object per line. CSV: the columns' names, then a line per row, absent values empty. Terminal: a table.
    Pipe: one tab-separated line per row, absent values as "-", and with ``header`` the columns' names first.
    """
    if as_json and as_csv:
        raise UsageError("--json and --csv contradict each other")
    if as_json:
        for row in rows:
            sys.stdout.write(json.dumps({name: row[name] for name in columns}) + "\n")
    elif as_csv:
        _csv(rows, columns)
    elif sys.stdout.isatty():
        _table(rows, columns, title)
    else:
        if header:
            sys.stdout.write("\t".join(columns) + "\n")
        for row in rows:
            sys.stdout.write("\t".join(text(row[name], name) for name in columns) + "\n")
    sys.stdout.flush()


def with_nodes(rows: Iterable[Mapping[str, Cell]], columns: Sequence[str]) -> Sequence[str]:
    """``columns``, with node before partition if partitions belong to named nodes."""
    if not any(row.get("node") for row in rows):
        return columns
    at = list(columns).index("partition")
    return [*columns[:at], "node", *columns[at:]]


def _csv(rows: Iterable[Mapping[str, Cell]], columns: Sequence[str]) -> None:
    import csv

    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows([_plain(row[name]) for name in columns] for row in rows)


def _plain(cell: Cell) -> Cell:
    return str(cell).lower() if isinstance(cell, bool) else cell


def _table(rows: Iterable[Mapping[str, Cell]], columns: Sequence[str], title: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None)
    for name in columns:
        table.add_column(name)
    for row in rows:
        # Not plain strings: a group named "[red]" is a name, not a colour.
        table.add_row(*(Text(text(row[name], name)) for name in columns))
    Console().print(table)


def text(cell: Cell, column: str) -> str:
    """A cell as people read it; one line, whatever a name contains. True and False become words."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return column if cell else f"not {column}"
    if isinstance(cell, float):
        return f"{cell:.1f}"
    return str(cell).translate(_CONTROLS)


def note(line: str) -> None:
    """Print a remark on standard error, so that a pipe stays clean."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
