"""``suite``: shapiq's precomputed games and games of many players, at 3 to 100 evaluations per player.

The bars are against the best of five of shapiq's estimators, picked per family and budget in
hindsight: OddSHAP, LeverageSHAP, KernelSHAP, and RegressionMSR with XGBoost and with the paper's
LightGBM.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import gmean

from benchmarks.closed_forms import CLOSED_FORMS
from benchmarks.experiment import Experiment, Planned
from benchmarks.figures import band, method_style, panels, save
from benchmarks.games import (
    FLOOR,
    PAPER_GAMES,
    GameUnavailableError,
    Source,
    file_sources,
    resolve_games,
    table_directory,
)
from benchmarks.methods import METHODS, is_ours
from benchmarks.report import number, table
from benchmarks.runner import Task

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "BEST_OF",
    "CLOSED",
    "EXPERIMENT",
    "Bar",
    "add_options",
    "bars",
    "by_family",
    "choose",
    "coverage_bars",
    "domain_of",
    "domain_tables",
    "draw",
    "error_table",
    "mean_and_worst",
    "overall_table",
    "ratios_to_best",
    "relative_errors",
    "seconds_table",
    "sources",
    "tabpfn_bars",
]

BEST_OF = (
    "shapiq-oddshap",
    "leverageshap",
    "kernelshap",
    "regressionmsr",
    "regressionmsr-xgboost",
)
"""The five of shapiq's estimators that ratios are against."""
_OTHERS = ("proxy", "svarm", "permutation")
_OURS = ("oddgp", "oddshap", "fouriershap")
_FACTORS = (3, 4, 6, 10, 30, 100)
_LARGEST_SHARE = 0.8  # of all coalitions
_LARGEST = 20_000  # evaluations
_LARGEST_PLAYERS = 200
_FEW = 10  # evaluations per player of games of more players than that
_TABLES = ("distilbert", "vit16", "estate-tabpfn")
_CHOSEN, _CHOSEN_OF_TABLES, _CHOSEN_SPARSE = 2, 10, 20
_ABOVE_REFERENCE = 10
"""Errors below so many times that of the reference are not told apart."""

_SPARSE = "sparse"
_SPARSE_STEPS = range(-2, 7, 2)
_SPARSE_PEERS = ("shapiq-oddshap", "leverageshap")
_NOISE = 3.0
"""Standard errors of the mean logarithm of the paired ratios."""

_DOMAINS = {
    "TabPFN": ("tabpfn",),
    "text": ("distilbert", "sentiment"),
    "image": ("vit", "image", "resnet"),
    "data valuation": ("datavaluation",),
    "dataset valuation": ("datasetvaluation",),
    "forest selection": ("forestselection", "forestensembleselection"),
    "ensemble selection": ("ensembleselection",),
    "feature selection": ("featureselection",),
    "uncertainty": ("uncertainty",),
    "global explanation": ("globalexplanation", "globalxai"),
    "local explanation": ("localexplanation", "localxai"),
    "clustering": ("cluster",),
    "unsupervised": ("unsupervised",),
    "sums of unanimity": ("soum",),
}
"""Domains by what a file's name holds, in lower case and letters alone; the first match counts."""
CLOSED = tuple(dict.fromkeys(game.domain for game in CLOSED_FORMS.values()))

_PROTOCOL = f"""Errors are squared and relative to the mean of the squared Shapley values; geometric means over the
instances of a family, then over the families. Relative errors below {FLOOR:.0e}, the rounding of models in
single precision, count as {FLOOR:.0e}; errors below {_ABOVE_REFERENCE} times that of an estimated reference count as
that. The best of shapiq's five ({", ".join(BEST_OF)}) is picked per family and budget, in
hindsight. Of the games in `suite/` and of closed forms the first two instances (of tables the first
ten, of sparse games the first twenty) may choose recipes; the others are untouched. A family of one
instance has none that is untouched.
"""


def domain_of(name: str) -> str:
    """Return the domain of a game, from the name of its file."""
    if name in CLOSED_FORMS:
        return CLOSED_FORMS[name].domain
    letters = re.sub("[^a-z]", "", name.lower())
    for domain, parts in _DOMAINS.items():
        if any(part in letters for part in parts):
            return domain
    return "other"


def add_options(command: argparse.ArgumentParser) -> None:
    """Add which instances run, and where references are kept."""
    command.add_argument(
        "--split",
        choices=("chosen", "untouched", "all"),
        default="chosen",
        help="instances that may choose recipes (the first two of a family), those that are kept for "
        "judging, or all (default: %(default)s)",
    )
    command.add_argument(
        "--references",
        type=Path,
        metavar="DIR",
        help="where the reference values of the network of digits are kept (default: nowhere)",
    )


def sources(args: argparse.Namespace) -> list[Source]:
    """Return the families whose names match a pattern of ``--games``, and those of ``--table``.

    Raises:
        GameUnavailableError: If a pattern matches none.
    """
    directory = table_directory(args.tables)
    folder = directory / "suite" if (directory / "suite").is_dir() else directory.parent / "suite"
    there = file_sources(folder) if folder.is_dir() else [Source("suite", folder / "*.npz")]
    known = there + resolve_games(_TABLES, args.tables, ())
    known += [Source(name, references=args.references) for name in CLOSED_FORMS]
    for pattern in args.games:
        if not any(fnmatchcase(source.name, pattern) for source in known):
            names = ", ".join(source.name for source in known)
            hint = "" if folder.is_dir() else " (suite/ was not found; give --tables DIR beside it)"
            msg = f"There is no game {pattern!r}. Known are {names}{hint}."
            raise GameUnavailableError(msg)
    named = [s for s in known if any(fnmatchcase(s.name, pattern) for pattern in args.games)]
    return named + resolve_games((), None, args.table)


def choose(args: argparse.Namespace, source: Source, count: int) -> range:
    """Return the instances of the split, at most ``--instances`` of them."""
    first = _CHOSEN_OF_TABLES if source.name in PAPER_GAMES else _CHOSEN
    if domain_of(source.name) == _SPARSE:
        first = _CHOSEN_SPARSE
    if args.split == "all":
        return range(min(count, args.instances))
    if args.split == "untouched":
        return range(first, min(count, first + args.instances))
    # of tables two will do
    first = min(first, _CHOSEN) if source.name in PAPER_GAMES else first
    return range(min(count, first, args.instances))


def plan(game: Planned, methods: Sequence[str], budgets: Sequence[int] | None) -> Iterator[Task]:
    """Yield every method at 3 to 100 evaluations per player, of sparse games near two per player.

    Ratios of many players are not run at budgets where single runs take minutes.
    """
    if budgets is None:
        budgets = _own_budgets(game)
    for instance in game.instances:
        for budget in budgets:
            if budget < _LARGEST_SHARE * 2.0**game.n:
                for method in methods:
                    yield Task(game.source, instance, method, budget)


def _own_budgets(game: Planned) -> list[int]:
    """Return a game's budgets."""
    if domain_of(game.source.name) == _SPARSE:
        return [2 * game.n + step for step in _SPARSE_STEPS]
    factors = [f for f in _FACTORS if f <= _FEW or game.n <= _LARGEST_PLAYERS]
    return [f * game.n for f in factors if f * game.n <= _LARGEST]


def relative_errors(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with ``domain``, ``factor`` (evaluations per player) and ``error``.

    Args:
        rows: The results, with values. Games whose Shapley values are all zero are left out.
    """
    rows = rows[rows["scale"] > 0]
    reference = rows["reference_error"].fillna(0.0)
    smallest = np.maximum(FLOOR * rows["scale"], _ABOVE_REFERENCE * reference)
    return rows.assign(
        domain=rows["game"].map(domain_of),
        factor=(rows["budget"] / rows["n"]).round(2),
        error=np.maximum(rows["value"], smallest) / rows["scale"],
        recovered=rows["value"] <= FLOOR * rows["scale"],
    )


def by_family(rows: pd.DataFrame) -> pd.DataFrame:
    """Return geometric means by ``domain, game, factor`` (index) and method (columns).

    Instances without any of the package's methods, such as those of other splits in a file of the
    peers, are left out. A method that lacks a value on some other instance has none: means over
    fewer instances would mislead.
    """
    ours = rows.loc[rows["method"].map(is_ours), ["game", "instance", "factor"]]
    rows = rows.merge(ours.drop_duplicates()) if len(ours) else rows
    groups = rows.groupby(["domain", "game", "factor", "method"])["error"]
    means = groups.agg(gmean).unstack()  # noqa: PD010
    counts = rows.groupby(["domain", "game", "factor", "method"])["instance"].nunique().unstack()  # noqa: PD010
    return means.where(counts.eq(counts.max(axis=1), axis=0))


def ratios_to_best(rows: pd.DataFrame, peers: Iterable[str] = BEST_OF) -> pd.DataFrame:
    """Return the package's errors over those of the best of ``peers``, as :func:`_by_family`."""
    means = by_family(rows)
    best = means.reindex(columns=list(peers)).min(axis=1)
    ours = [name for name in means if is_ours(name)]
    return means[ours].div(best, axis=0).dropna(how="all")


@dataclass(frozen=True)
class Bar:
    """A target.

    Attributes:
        text: What is measured.
        value: The measurement; ``None`` if there are no rows for it.
        least: What it must not be below.
        most: What it must not be above.
        aim: What would be better still.
        where: What the measurement is of, where it is the worst of several.
    """

    text: str
    value: float | None
    most: float
    aim: str = ""
    least: float = -np.inf
    where: str = ""

    @property
    def met(self) -> bool | None:
        """Whether it is met; ``None`` if it was not measured."""
        return None if self.value is None else self.least <= self.value <= self.most

    def line(self) -> list[str]:
        """Return it as a line of the table."""
        value = "-" if self.value is None else f"{self.value:.2g}"
        bar = f"{self.most:g}" if self.least == -np.inf else f"{self.least:g} to {self.most:g}"
        verdict = {None: "open", True: "yes", False: "**no**"}[self.met]
        return [self.text, self.where, value, bar, self.aim, verdict]


def bars(rows: pd.DataFrame) -> list[Bar]:
    """Return the targets with what was reached.

    Args:
        rows: The results, with values.
    """
    rows = relative_errors(rows)
    stored = rows[~rows["domain"].isin(CLOSED)]
    best, same = ratios_to_best(stored), ratios_to_best(stored, ("shapiq-oddshap",))
    five = "the best of five"
    return [
        *mean_and_worst("OddGP", "oddgp", five, best, {4: (0.5, "0.3"), 10: (0.3, "0.15"), 30: (0.35, "0.2"), 100: (0.45, "0.3")}, 1.5),
        *mean_and_worst("OddSHAP", "oddshap", five, best, {3: (0.6, "0.4"), 10: (0.4, "0.2")}, 1.5),
        *mean_and_worst("OddSHAP", "oddshap", "shapiq's OddSHAP", same, {30: (0.3, ""), 100: (0.6, "")}, 1.2),
        *tabpfn_bars("OddSHAP", "oddshap", best, (1.0, "0.8"), (1.4, "1.0")),
        *coverage_bars(stored),
        *_sparse_bars(rows[rows["domain"] == _SPARSE]),
        _time_bar(stored),
    ]  # fmt: skip


def mean_and_worst(
    title: str,
    method: str,
    against: str,
    ratios: pd.DataFrame,
    targets: dict[int, tuple[float, str]],
    worst: float,
) -> Iterator[Bar]:
    """Yield a bar per budget, and one for the worst domain of them."""
    ours = ratios[method].dropna() if method in ratios else pd.Series(dtype=float)
    factors = ours.index.get_level_values("factor") if len(ours) else []
    for factor, (most, aim) in targets.items():
        there = ours[factors == factor] if len(ours) else ours
        value = float(gmean(there)) if len(there) else None
        yield Bar(f"{title} over {against}, {factor} n", value, most, aim)
    judged = ours[np.isin(factors, list(targets))] if len(ours) else ours
    domains = judged.groupby(["domain", "factor"]).agg(gmean) if len(judged) else judged
    where, value = "", None
    if len(domains):
        domain, factor = domains.idxmax()
        where, value = f"{domain}, {factor:g} n", float(domains.max())
    yield Bar(f"{title} over {against}, worst domain", value, worst, "1.0", where=where)


def tabpfn_bars(
    title: str, method: str, ratios: pd.DataFrame, mean: tuple[float, str], worst: tuple[float, str]
) -> Iterator[Bar]:
    """Yield the bars on TabPFN's rows: bar and aim of the geometric mean, and of the worst budget."""
    index = ratios.index
    tabpfn = index.get_level_values("domain") == "TabPFN"
    low = ratios[tabpfn & index.get_level_values("factor").isin([3, 4, 6, 10])]
    ours = low[method].dropna() if method in low else pd.Series(dtype=float)
    text = f"{title} over the best of five, TabPFN, 3 n to 10 n"
    yield Bar(text, float(gmean(ours)) if len(ours) else None, *mean)
    where = f"{ours.idxmax()[2]:g} n" if len(ours) else ""
    yield Bar(f"{text}, worst", float(ours.max()) if len(ours) else None, *worst, where=where)


def coverage_bars(rows: pd.DataFrame) -> Iterator[Bar]:
    """Yield the lowest and the highest coverage of a domain, exact recoveries left out."""
    shares = _coverage(rows).groupby("domain")["covered"].mean()
    for name, value, where in (
        ("lowest", shares.min(), shares.idxmin() if len(shares) else ""),
        ("highest", shares.max(), shares.idxmax() if len(shares) else ""),
    ):
        text = f"OddGP's 90 % intervals cover, {name} domain"
        known = float(value) if len(shares) else None
        yield Bar(text, known, 0.98, "0.85 to 0.95", least=0.8, where=str(where))


def _coverage(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of OddGP that tell how its intervals cover."""
    return rows[(rows["method"] == "oddgp") & rows["covered"].notna() & ~rows["recovered"]]


def _sparse_bars(rows: pd.DataFrame) -> Iterator[Bar]:
    """Yield the bars of sparse games near two evaluations per player."""
    cells = _sparse_cells(rows)
    for name, title in (("oddgp", "OddGP"), ("oddshap", "OddSHAP")):
        ours = cells[cells["method"] == name]
        worst = ours.loc[ours["quantile"].idxmax()] if len(ours) else None
        text = f"{title}, sparse games at 2n - 2 to 2n + 6, 90 % quantile of the error"
        yield _cell_bar(text, worst, "quantile", 1.0)
        worst = ours.loc[ours["excess"].idxmax()] if len(ours["excess"].dropna()) else None
        text = f"{title} there over the better of OddSHAP and LeverageSHAP, in standard errors"
        yield _cell_bar(text, worst, "excess", _NOISE)


def _cell_bar(text: str, cell: pd.Series | None, column: str, most: float) -> Bar:
    """Return the bar of the worst cell, if there is one."""
    if cell is None:
        return Bar(text, None, most)
    return Bar(text, float(cell[column]), most, where=f"{cell['game']}, {cell['budget']}")


def _sparse_cells(rows: pd.DataFrame) -> pd.DataFrame:
    """Return ``game, budget, method, quantile, ratio, excess`` of the package's methods.

    ``ratio`` is to the better of two of shapiq's estimators in that cell, in hindsight, and
    ``excess`` its mean logarithm in standard errors over the instances.
    """
    cells = []
    near = rows[rows["budget"] <= 2 * rows["n"] + max(_SPARSE_STEPS)]
    for (game, budget), part in near.groupby(["game", "budget"]):
        errors = part.pivot_table(
            index=["instance", "repetition"], columns="method", values="error"
        ).dropna()
        peers = [name for name in _SPARSE_PEERS if name in errors]
        better = min(peers, key=lambda name, e=errors: gmean(e[name])) if peers else None  # type: ignore[misc]
        for method in [name for name in errors if is_ours(name)]:
            logs = np.log(errors[method] / errors[better]) if better else pd.Series(dtype=float)
            spread = logs.std(ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else np.nan
            cells.append(
                {
                    "game": game,
                    "budget": int(budget),
                    "method": method,
                    "quantile": errors[method].quantile(0.9),
                    "ratio": float(np.exp(logs.mean())),
                    "excess": 0.0 if spread == 0 and logs.mean() == 0 else logs.mean() / spread,
                }
            )
    columns = ["game", "budget", "method", "quantile", "ratio", "excess"]
    return pd.DataFrame(cells, columns=columns)


def _time_bar(rows: pd.DataFrame) -> Bar:
    """Return OddGP's seconds over those of shapiq's OddSHAP at 14 players and 420 evaluations."""
    there = rows[(rows["n"] == 14) & (rows["budget"] == 420)]
    seconds = there.groupby("method")["seconds"].median()
    known = {"oddgp", "shapiq-oddshap"} <= set(seconds.index)
    value = float(seconds["oddgp"] / seconds["shapiq-oddshap"]) if known else None
    return Bar("OddGP's own seconds over shapiq's OddSHAP's, (14, 420)", value, 4.0, "2")


def met(rows: pd.DataFrame) -> bool:
    """Return whether all bars that can be judged by the rows are met, and there are any."""
    judged = [bar.met for bar in bars(rows) if bar.met is not None]
    return bool(judged) and all(judged)


def summarise(rows: pd.DataFrame, directory: Path) -> str:
    """Return bars, ratios, errors, coverage and seconds, by domain and by family."""
    judged = bars(rows)
    rows = relative_errors(rows)
    sparse = _sparse_cells(rows[rows["domain"] == _SPARSE])
    others = rows[rows["domain"] != _SPARSE]
    instances = ", ".join(str(number) for number in sorted(others["instance"].unique()))
    missing = [name for name in BEST_OF if name not in set(rows["method"])]
    parts = [
        _PROTOCOL,
        f"These are instances {instances}.\n" if instances else "",
        f"**Without {', '.join(missing)}**, of which there are no rows here.\n" if missing else "",
        "## Bars\n",
        table(["what", "where", "value", "bar", "aim", "met"], [bar.line() for bar in judged]),
    ]
    if len(others):
        draw(others, directory / "suite.png")
        parts += [
            "## Error over that of the best of shapiq's five\n",
            "Over the families of shapiq's games; in brackets the worst domain.\n",
            overall_table(ratios_to_best(others[~others["domain"].isin(CLOSED)])),
            *domain_tables(others),
            "## Errors\n\n![Relative squared error by domain](suite.png)\n",
            "Median over the families of a domain, and the band between the quartiles.\n",
            error_table(others),
            "## Seconds\n\nMedian seconds outside the game, shapiq's games.\n",
            seconds_table(others[~others["domain"].isin(CLOSED)]),
            "## By family\n",
            *_family_tables(others),
        ]
    if len(sparse):
        parts += ["## Sparse games near two evaluations per player\n", _sparse_table(sparse)]
    return "\n".join(parts)


def _columns(index: pd.Index) -> list[float]:
    """Return the budgets of an index, in evaluations per player."""
    return sorted(index.unique("factor"))


def overall_table(ratios: pd.DataFrame) -> str:
    """Return a line per method: the geometric mean, and the worst domain."""
    factors, lines = _columns(ratios.index), []
    for method in ratios:
        cells = []
        for factor in factors:
            there = ratios.xs(factor, level="factor")[method].dropna()
            domains = there.groupby("domain").agg(gmean)
            worst = f" ({domains.idxmax()} {domains.max():.2g})" if len(domains) else ""
            cells.append((f"{gmean(there):.2g}" if len(there) else "-") + worst)
        lines.append([str(method), *cells])
    return table(["method", *(f"{factor:g} n" for factor in factors)], lines)


def domain_tables(rows: pd.DataFrame) -> Iterator[str]:
    """Yield a table per method: ratios by domain and budget, with the coverage in brackets."""
    ratios = ratios_to_best(rows)
    covered = rows[rows["covered"].notna() & ~rows["recovered"]]
    shares = covered.groupby(["method", "domain", "factor"])["covered"].mean()
    factors = _columns(ratios.index)
    for method in ratios:
        cells = ratios[method].dropna().groupby(["domain", "factor"]).agg(gmean)
        lines = []
        for domain in cells.index.unique("domain"):
            texts = [
                f"{cells.get((domain, factor), np.nan):.2g}"
                + (f" ({share:.2f})" if (share := shares.get((method, domain, factor))) else "")
                for factor in factors
            ]
            lines.append([str(domain), *(text.replace("nan", "-") for text in texts)])
        note = ", in brackets the share within the 90 % intervals" if method in shares.index else ""
        yield f"### `{method}` by domain{note}\n"
        yield table(["domain", *(f"{factor:g} n" for factor in factors)], lines)


def error_table(rows: pd.DataFrame) -> str:
    """Return the geometric mean errors by domain, budget and method."""
    cells = by_family(rows).groupby(["domain", "factor"]).agg(lambda e: gmean(e.dropna()) if e.notna().any() else np.nan)  # fmt: skip
    methods = [name for name in METHODS if name in cells]
    lines = [
        [str(domain), f"{factor:g} n", *(number(cells.loc[(domain, factor), m]) for m in methods)]
        for domain, factor in cells.index
    ]
    return table(["domain", "budget", *methods], lines)


def seconds_table(rows: pd.DataFrame) -> str:
    """Return the median seconds by method and budget."""
    seconds = rows.groupby(["method", "factor"])["seconds"].median().unstack()  # noqa: PD010
    lines = [
        [method, *("-" if np.isnan(s) else f"{s:.2g}" for s in seconds.loc[method])]
        for method in METHODS
        if method in seconds.index
    ]
    return table(["method", *(f"{factor:g} n" for factor in seconds)], lines)


def _family_tables(rows: pd.DataFrame) -> Iterator[str]:
    """Yield a table per method: its error, and in brackets the ratio, by family and budget."""
    ratios, errors = ratios_to_best(rows), by_family(rows)
    factors = _columns(errors.index)
    for method in ratios:
        lines = []
        for domain, game in errors.index.droplevel("factor").unique():
            keys = [(domain, game, factor) for factor in factors]
            texts = [
                f"{number(errors.loc[key, method])} ({ratios.loc[key, method]:.2g})"
                if key in ratios.index and not np.isnan(ratios.loc[key, method])
                else "-"
                for key in keys
            ]
            lines.append([str(game), *texts])
        yield f"### `{method}`: error (over the best of five)\n"
        yield table(["family", *(f"{factor:g} n" for factor in factors)], lines)


def _sparse_table(cells: pd.DataFrame) -> str:
    """Return a line per game, budget and method."""
    lines = [
        [
            row.game,
            str(row.budget),
            row.method,
            number(row.quantile),
            f"{row.ratio:.2g}",
            f"{row.excess:.1f}",
        ]
        for row in cells.itertuples()
    ]
    header = [
        "game",
        "evaluations",
        "method",
        "90 % quantile of the error",
        "error over the better of OddSHAP and LeverageSHAP",
        "in standard errors",
    ]
    return table(header, lines)


def draw(rows: pd.DataFrame, file: Path) -> None:
    """Draw the errors of all methods against the budget, a panel per domain."""
    means = by_family(rows).stack().rename("error").reset_index()  # noqa: PD013
    domains = [d for d in (*_DOMAINS, "other", *CLOSED) if d in set(means["domain"])]
    figure, axes = panels(domains, "evaluations per player", "relative squared error")
    for domain in domains:
        for method in METHODS:
            part = means[(means["domain"] == domain) & (means["method"] == method)]
            if len(part):
                style = method_style(method)
                band(axes[domain], part, "factor", "error", label=method, **style)
    save(figure, file)


EXPERIMENT = Experiment(
    name="suite",
    question="How large is the error in every domain, at 3 to 100 evaluations per player?",
    plan=plan,
    summarise=summarise,
    methods=(*_OURS, *BEST_OF, *_OTHERS),
    games=("*",),
    add_options=add_options,
    sources=sources,
    choose=choose,
    met=met,
)
