"""``delays.png``: how late flights left, through the year and through the day, one line an airport.

Drawn from the result table alone. What must not live here: pyplot, which keeps global state and may look for a screen.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from pyarrow import compute

__all__ = ["draw_delays"]

_COLOURS = {"EWR": "#c1440e", "JFK": "#1f5f8b", "LGA": "#3b7d4f"}
_SMOOTHED_DAYS = 7
_FEWEST_FLIGHTS = 30  # an hour of the day with fewer flights in a year says nothing


def draw_delays(delays: pa.Table, path: Path) -> None:
    """Draw the table of ``_delays.SCHEMA`` and replace ``path`` in one step."""
    figure = Figure(figsize=(12, 5), layout="constrained")
    through_year, through_day = figure.subplots(1, 2, width_ratios=[3, 2])
    for origin, colour in _COLOURS.items():
        rows = delays.filter(compute.equal(delays["origin"], origin))
        if not rows.num_rows:
            continue
        days, smooth = _by_day(rows)
        through_year.plot(days, smooth, color=colour, label=origin, linewidth=1.4)
        hours, means = _by_hour(rows)
        through_day.plot(hours, means, color=colour, marker="o", markersize=3, label=origin, linewidth=1.4)
    through_year.set_title(f"Through the year (mean of {_SMOOTHED_DAYS} days)", loc="left", fontsize=10)
    through_year.set_ylabel("mean departure delay, minutes")
    through_day.set_title("Through the day (New York time)", loc="left", fontsize=10)
    through_day.set_xlabel("hour of scheduled departure")
    through_day.set_xticks(range(0, 24, 3))
    through_day.set_xlim(4, 24)
    for axes in (through_year, through_day):
        axes.axhline(0, color="#888888", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    through_year.legend(frameon=False)
    figure.suptitle("Departure delays of flights from New York, 2013", fontsize=13)
    FigureCanvasAgg(figure)
    unfinished = path.with_name(f".{path.name}.unfinished")
    figure.savefig(unfinished, format="png", dpi=120)
    unfinished.replace(path)


def _by_day(rows: pa.Table) -> tuple[npt.NDArray[np.datetime64], npt.NDArray[np.float64]]:
    days = _new_york(rows).cast(pa.date32())
    minutes, flights = _sums(rows)
    first = np.datetime64(compute.min(days).as_py())
    index = days.to_numpy().astype("datetime64[D]") - first
    numbers = index.astype(np.int64)
    window = np.ones(min(_SMOOTHED_DAYS, numbers.max() + 1))
    summed = np.convolve(np.bincount(numbers, minutes), window, "same")
    counted = np.convolve(np.bincount(numbers, flights), window, "same")
    return first + np.arange(len(summed)), _mean(summed, counted, 1)


def _by_hour(rows: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    hours = compute.hour(_new_york(rows)).to_numpy()
    minutes, flights = _sums(rows)
    means = _mean(
        np.bincount(hours, minutes, 24).astype(np.float64),
        np.bincount(hours, flights, 24).astype(np.float64),
        _FEWEST_FLIGHTS,
    )
    return np.arange(24), means


def _new_york(rows: pa.Table) -> pa.ChunkedArray:
    return compute.local_timestamp(rows["window_start"].cast(pa.timestamp("us", "America/New_York")))


def _sums(rows: pa.Table) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Minutes of delay and flights that left, by window."""
    flights = compute.subtract(rows["flights"], rows["cancelled"]).to_numpy().astype(np.float64)
    return rows["mean_dep_delay"].fill_null(0.0).to_numpy() * flights, flights


def _mean(summed: npt.NDArray[np.float64], counted: npt.NDArray[np.float64], fewest: int) -> npt.NDArray[np.float64]:
    return np.where(counted >= fewest, summed / np.maximum(counted, 1), np.nan)
