"""Small multiples with one legend: medians with interquartile bands on logarithmic scales."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")  # results are files; no display is needed

from matplotlib import pyplot as plt

from benchmarks.games import game_title, games_of
from benchmarks.methods import METHODS, is_ablation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "band",
    "bound_errors",
    "method_style",
    "panels",
    "ratio_figure",
    "save",
    "scaling_figure",
    "spectrum_figure",
]

_COLUMNS = 4
_OURS = ("oddshap", "oddgp")
_NEGLIGIBLE = 1e-7  # share of the energy
_COLOURS = 10  # of the first palette; the rest is dashed
_EXACT, _HUGE = 1e-11, 1e2  # errors beyond are not drawn, to keep the others apart
_MARKERS = "osD^vP<X>ph*d8"
_RC: Any = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "savefig.dpi": 200,
}


def method_style(name: str) -> dict[str, Any]:
    """Return a method's colour, marker and line, the same in every figure.

    The estimators that the package is about are drawn thick and on top.
    """
    drawn = [method for method in METHODS if not is_ablation(method) and method != "oddshap"]
    index = drawn.index(name) if name in drawn else len(drawn)
    first = index < _COLOURS
    colour = plt.get_cmap("tab10" if first else "Dark2")(index % _COLOURS)
    thick = name in _OURS
    return {
        "color": "black" if name == "oddshap" else colour,
        "marker": _MARKERS[index % len(_MARKERS)],
        "linestyle": "-" if first or thick else "--",
        "linewidth": 2.0 if thick else 1.0,
        "zorder": 4 if thick else 2,
    }


def panels(names: Sequence[str], xlabel: str, ylabel: str) -> tuple[Figure, dict[str, Axes]]:
    """Return a figure with one logarithmic panel per game."""
    with plt.rc_context(_RC):
        columns = min(_COLUMNS, len(names))
        rows = ceil(len(names) / columns)
        figure, axes = plt.subplots(
            rows, columns, figsize=(2.4 * columns + 0.4, 2.1 * rows + 0.9), squeeze=False,
            layout="constrained",
        )  # fmt: skip
        for axis in axes.flat[len(names) :]:
            axis.remove()
        by_name = dict(zip(names, axes.flat, strict=False))
        for index, (name, axis) in enumerate(by_name.items()):
            axis.set(xscale="log", yscale="log", title=game_title(name))
            if index % columns == 0:
                axis.set_ylabel(ylabel)
            if index + columns >= len(names):
                axis.set_xlabel(xlabel)
    return figure, by_name


def band(axis: Axes, rows: pd.DataFrame, x: str, y: str, **style: Any) -> None:  # noqa: ANN401
    """Draw the median of ``y`` over ``x`` and the band between its quartiles."""
    quartiles = rows.groupby(x)[y].quantile([0.25, 0.5, 0.75]).unstack()  # noqa: PD010
    places = (
        rows.groupby(x)[x].first() if "place" not in rows else rows.groupby(x)["place"].median()
    )
    axis.plot(places, quartiles[0.5], markersize=3.5, **style)
    axis.fill_between(
        places, quartiles[0.25], quartiles[0.75],
        color=style["color"], alpha=0.15, linewidth=0, zorder=1,
    )  # fmt: skip


def bound_errors(axes: Mapping[str, Axes]) -> None:
    """Keep the panels to the range where errors tell methods apart."""
    for axis in axes.values():
        low, high = axis.get_ylim()
        axis.set_ylim(max(low, _EXACT), min(high, _HUGE))


def ratio_figure(data: pd.DataFrame, labels: Sequence[str], xlabel: str, file: Path) -> None:
    """Draw ratios of errors over a categorical axis: a panel per budget, a line per game."""
    budgets = sorted(data["budget"].unique())
    figure, axes = panels(
        [f"{budget:,} evaluations" for budget in budgets], xlabel, "ratio of errors"
    )
    games = games_of(data)
    for axis, budget in zip(axes.values(), budgets, strict=True):
        axis.set_xscale("linear")
        axis.set_xticks(range(len(labels)), [label.replace(", ", ",\n") for label in labels])
        axis.axhline(1, color="0.4", linewidth=0.8, zorder=1)
        for index, game in enumerate(games):
            part = data[(data["game"] == game) & (data["budget"] == budget)]
            if len(part):
                part = part.assign(place=part["variant"].map(labels.index))
                style = {"color": f"C{index}", "marker": _MARKERS[index], "linewidth": 1.2}
                band(axis, part, "place", "ratio", label=game_title(game), **style)
    save(figure, file)


def spectrum_figure(rows: pd.DataFrame, file: Path) -> None:
    """Draw the share of energy by order: a panel per method, a line per game."""
    methods = sorted(rows["method"].unique())
    figure, axes = panels(methods, "interaction order", "share of the energy")
    games = games_of(rows)
    for method, axis in axes.items():
        axis.set_xscale("linear")
        axis.set_ylim(_NEGLIGIBLE, 1.5)
        orders = sorted(rows["order"].astype(int).unique())
        axis.set_xticks(orders, [*map(str, orders[:-1]), f"{orders[-1]}+"])
        for index, game in enumerate(games):
            part = rows[(rows["game"] == game) & (rows["method"] == method)]
            if len(part):
                style = {"color": f"C{index}", "marker": _MARKERS[index], "linewidth": 1.2}
                band(axis, part, "order", "value", label=game_title(game), **style)
    save(figure, file)


def scaling_figure(rows: pd.DataFrame, slope: float, file: Path) -> None:
    """Draw seconds and peak memory against the budget."""
    figure, axes = panels(["time", "memory"], "evaluations", "")
    axes["time"].plot(
        rows["budget"], rows["seconds"], color="black", marker="o", label="seconds outside the game"
    )
    last = rows.iloc[-1]
    line = last["seconds"] * (rows["budget"] / last["budget"]) ** slope
    axes["time"].plot(rows["budget"], line, color="C0", linestyle="--", label=f"slope {slope:.2f}")
    axes["memory"].plot(
        rows["budget"], rows["peak_mib"], color="C3", marker="s", label="peak MiB above the start"
    )
    save(figure, file)


def save(figure: Figure, file: Path) -> None:
    """Put one legend of all panels below them, and write the figure."""
    with plt.rc_context(_RC):
        entries = {
            label: handle
            for axis in figure.axes
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            entries.values(), entries.keys(), loc="outside lower center",
            ncols=max(2, int(figure.get_figwidth() / 1.7)), frameon=False, fontsize=8,
        )  # fmt: skip
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file)
        plt.close(figure)
