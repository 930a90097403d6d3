"""What the demo prints: progress, the delays by airport and carrier, the group's lag, the time of each stage.

What must not live here: deciding whether the result is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyarrow import compute
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from penstock import _clock
from penstock.model import Partition

__all__ = ["Report"]

_NEXT = """\
What to try next:
  penstock snode --store file:{store} --listen kafka://127.0.0.1:9092   # serve these flights
  penstock consume kafka://127.0.0.1:9092/flights --from earliest --max 3
  penstock groups describe kafka://127.0.0.1:9092 {group}
The README shows the same from Python, and from Spark."""


class Report:
    """Prints to standard output and remembers how long each stage took."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._stages: list[tuple[str, float]] = []

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a bar while something is done; what is yielded is told how many of ``total`` are."""
        started = _clock.monotonic()
        counted = (MofNCompleteColumn(),) if total > 1 else ()
        columns = (TextColumn("{task.description:<14}"), BarColumn(), TimeElapsedColumn(), *counted)
        with Progress(*columns, console=self._console) as progress:
            task = progress.add_task(name, total=total)
            yield lambda done: progress.update(task, completed=done)
        self._stages.append((name, _clock.monotonic() - started))

    def say(self, text: str) -> None:
        """One line."""
        self._console.print(text, highlight=False)

    def delays(self, delays: pa.Table) -> None:
        """The year summed up: each airport and all of them, then each carrier, the latest first."""
        for title, name in (("airport", "origin"), ("carrier", "carrier")):
            rows = summed(delays, name)
            table = Table(title=f"Departure delays of the year by {title}", title_justify="left", show_footer=True)
            left = sum(flights - cancelled for _, flights, cancelled, _ in rows)
            late = sum((flights - cancelled) * mean for _, flights, cancelled, mean in rows)
            footers = (
                "all",
                f"{sum(row[1] for row in rows):,}",
                f"{sum(row[2] for row in rows):,}",
                f"{late / max(left, 1):.1f}",
            )
            for heading, footer in zip((title, "flights", "cancelled", "mean delay, min"), footers, strict=True):
                table.add_column(heading, footer, justify="left" if heading == title else "right")
            for row in rows:
                table.add_row(row[0], f"{row[1]:,}", f"{row[2]:,}", f"{row[3]:.1f}")
            self._console.print(table)

    @property
    def watched(self) -> bool:
        """Whether somebody looks on, at a terminal."""
        return self._console.is_terminal

    def what_next(self, group: str, store: Path) -> None:
        """Command lines that show more of what is there now."""
        for line in _NEXT.format(group=group, store=store).splitlines():
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def lag(self, group: str, lags: Mapping[Partition, int]) -> None:
        """Records the group has still to read, in all."""
        self.say(f"lag of group {group}: {sum(lags.values())} records in {len(lags)} partitions")

    def times(self) -> None:
        """How long each stage took, and all of them."""
        table = Table(title="Time", title_justify="left", show_footer=True)
        table.add_column("stage", footer="all")
        table.add_column("seconds", justify="right", footer=f"{sum(seconds for _, seconds in self._stages):.1f}")
        for name, seconds in self._stages:
            table.add_row(name, f"{seconds:.1f}")
        self._console.print(table)


def summed(delays: pa.Table, name: str) -> list[tuple[str, int, int, float]]:
    """(name, flights, cancelled, mean delay) of each value of column ``name``, latest first."""
    left = compute.subtract(delays["flights"], delays["cancelled"])
    minutes = compute.multiply(delays["mean_dep_delay"].fill_null(0.0), left.cast(pa.float64()))
    table = delays.select([name, "flights", "cancelled"]).append_column("left", left).append_column("minutes", minutes)
    sums = table.group_by(name).aggregate([(each, "sum") for each in ("flights", "cancelled", "left", "minutes")])
    rows = [
        (
            str(row[name]),
            int(row["flights_sum"]),
            int(row["cancelled_sum"]),
            row["minutes_sum"] / max(row["left_sum"], 1),
        )
        for row in sums.to_pylist()
    ]
    return sorted(rows, key=lambda row: -row[3])
