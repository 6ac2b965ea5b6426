"""The paper's empirical claims, each judged by the committed results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import gmean

from benchmarks.ablations import DEPTH, ETA, PAIRING, TREES, Ablation, ratios
from benchmarks.games import game_title, games_of
from benchmarks.methods import PAPER_NAMES
from benchmarks.report import table
from benchmarks.table1 import mean_errors, paper_errors

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CLAIMS", "Claim", "claims_table"]

Results = Mapping[str, "pd.DataFrame"]
Judgement = tuple[Mapping[str, str], Sequence[bool]]
"""What was measured, by game or by figure, and for each whether the claim holds."""

SMALL = ("distilbert", "estate", "vit16")
LARGE = ("cancer", "il60", "cg60", "nhanes", "crime")
TREES_WITH_DESIGN = ("estate", "cancer", "il60", "cg60")
NETWORKS = ("distilbert", "vit16")
PAPER_GAMES = SMALL + LARGE
_FLEXIBLE = ("msr", "svarm", "permutation", "leverageshap", "regressionmsr", "proxy", "fouriershap")
_PAPERS_OWN = "oddshap-paper"
"""The paper's Algorithm 1 to the letter, which table 1 is judged by."""
_ETA = 10
_LARGEST = 20_000
_ABLATION_BUDGET = 10_000


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and how to judge it.

    Attributes:
        text: The claim, shortened.
        needs: The experiment that it is judged by.
        judge: Returns what was measured, and whether the claim holds, game by game.
    """

    text: str
    needs: str
    judge: Callable[[pd.DataFrame], Judgement]


def claims_table(results: Results) -> str:
    """Return claim, measurement and verdict as Markdown; without results the claim is open."""
    lines = []
    for claim in CLAIMS:
        measured, verdict = "not run", "open"
        if claim.needs in results:
            by_game, holds = claim.judge(results[claim.needs])
            measured = ", ".join(f"{game_title(k)} {v}" for k, v in by_game.items())
            verdict = _verdict(holds)
        lines.append([claim.text, f"`{claim.needs}`: {measured}", verdict])
    return table(["the paper's claim", "what we measured", "holds?"], lines)


def _verdict(holds: Sequence[bool]) -> str:
    """Return yes, no, or how often."""
    if not holds:
        return "open"
    if all(holds):
        return "yes"
    return f"{sum(holds)} of {len(holds)}" if any(holds) else "no"


def _judged(
    figures: Mapping[Any, float], holds: Callable[[float], bool], style: str = "{:.2g}"
) -> Judgement:
    """Return the figures as text and whether the claim holds for each; missing ones are left out."""
    known = {str(name): float(figure) for name, figure in figures.items() if not isnan(figure)}
    return {name: style.format(f) for name, f in known.items()}, list(map(holds, known.values()))


def _above_one(factor: float) -> bool:
    return factor > 1


def _below_one(factor: float) -> bool:
    return factor < 1


def _at_most_double(factor: float) -> bool:
    return factor <= 2


def _present(rows: pd.DataFrame, games: Sequence[str]) -> list[str]:
    """Return those of the games that the rows hold."""
    return [game for game in games_of(rows) if game in games]


# Table 1


def _of_the_paper(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean errors of the paper's methods on the paper's games."""
    means = mean_errors(rows)
    return means.loc[means.index.isin(list(PAPER_NAMES)), _present(rows, PAPER_GAMES)]


def lowest_rank(rows: pd.DataFrame) -> Judgement:
    """Judge the average rank."""
    ranks = _of_the_paper(rows).rank().mean(axis=1).nsmallest(3)
    return {str(m): f"{rank:.2f}" for m, rank in ranks.items()}, [ranks.index[0] == _PAPERS_OWN]


def same_errors(rows: pd.DataFrame) -> Judgement:
    """Judge whether OddSHAP's mean error is the paper's within a factor of two."""
    means = _of_the_paper(rows).loc[_PAPERS_OWN]
    factors = means / paper_errors().loc[_PAPERS_OWN, means.index]
    return _judged(factors, lambda factor: 0.5 <= factor <= 2)


def like_regressionmsr(rows: pd.DataFrame) -> Judgement:
    """Judge the small games: OddSHAP's mean error over RegressionMSR's."""
    means = _of_the_paper(rows)[_present(rows, SMALL)]
    return _judged(means.loc[_PAPERS_OWN] / means.loc["regressionmsr"], _at_most_double)


# Curves


def _medians(rows: pd.DataFrame, game: str) -> pd.DataFrame:
    """Return the median errors of a game by budget (rows) and method (columns)."""
    part = rows[rows["game"] == game]
    return part.pivot_table(index="budget", columns="method", values="value", aggfunc="median")


def _sufficient(rows: pd.DataFrame, game: str) -> int:
    """Return the budget η·n from which on OddSHAP models interactions."""
    return _ETA * int(rows.loc[rows["game"] == game, "n"].iloc[0])


def best_from_sufficient_budgets(rows: pd.DataFrame) -> Judgement:
    """Judge how often OddSHAP's median error is the smallest above η·n evaluations."""
    measured, holds = {}, []
    for game in _present(rows, LARGE):
        medians = _medians(rows, game).dropna(subset="oddshap")
        medians = medians[medians.index > _sufficient(rows, game)]
        others = medians.reindex(columns=_FLEXIBLE).min(axis=1)
        wins = list(medians["oddshap"] < others)
        measured[game] = f"{sum(wins)} of {len(wins)} budgets"
        holds += wins
    return measured, holds


def low_budgets(rows: pd.DataFrame) -> Judgement:
    """Judge OddSHAP below η·n evaluations against the best of proxies and LeverageSHAP."""
    factors = {}
    for game in _present(rows, PAPER_GAMES):
        medians = _medians(rows, game)
        medians = medians[medians.index < _sufficient(rows, game)]
        best = medians[["proxy", "regressionmsr", "leverageshap"]].min(axis=1)
        factors[game] = gmean(medians["oddshap"] / best, nan_policy="omit")
    return _judged(factors, _at_most_double)


def _design_over_oddshap(rows: pd.DataFrame, games: Sequence[str]) -> dict[str, float]:
    """Return FFD-RD's median error over OddSHAP's at FFD-RD's budget (interpolated)."""
    factors = {}
    for game in _present(rows, games):
        medians = _medians(rows, game).reindex(columns=["ffd-rd", "oddshap"])
        design, ours = medians["ffd-rd"].dropna(), medians["oddshap"].dropna()
        ours = ours[ours > 0]  # zero where all coalitions were evaluated
        for budget, error in design.items():
            there = np.interp(np.log(budget), np.log(ours.index), np.log(ours))
            factors[game] = float(error / np.exp(there))
    return factors


def design_wins_on_trees(rows: pd.DataFrame) -> Judgement:
    """Judge FFD-RD on the tree games."""
    return _judged(_design_over_oddshap(rows, TREES_WITH_DESIGN), _below_one)


def design_fails_on_networks(rows: pd.DataFrame) -> Judgement:
    """Judge FFD-RD on the networks."""
    return _judged(_design_over_oddshap(rows, NETWORKS), _above_one)


def correction_hurts(rows: pd.DataFrame) -> Judgement:
    """Judge the corrected factorial design: better on ViT16 only."""
    measured, holds = {}, []
    for game in _present(rows, PAPER_GAMES):
        medians = _medians(rows, game).reindex(columns=["ffd-rd", "ffd-rd-corrected"])
        factor = medians["ffd-rd-corrected"].min() / medians["ffd-rd"].min()
        if not isnan(factor):
            measured[game] = f"{factor:.2g}"
            holds.append((factor < 1) == (game == "vit16"))
    return measured, holds


def design_budgets(rows: pd.DataFrame) -> Judgement:
    """Judge the growth of FFD-RD's budget: evaluations over n²."""
    design = rows[rows["method"] == "ffd-rd"].groupby("game")[["n", "budget"]].first()
    shares = (design["budget"] / design["n"] ** 2).reindex(_present(rows, PAPER_GAMES))
    return _judged(shares, lambda share: 1 < share < 4, "{:.2g} d²")


# Spectrum


def high_orders(rows: pd.DataFrame) -> Judgement:
    """Judge the exact energy of order 5 and above: little in trees, much in networks."""
    exact = rows[(rows["method"] == "exact") & (rows["order"] >= 5)]
    shares = exact.groupby(["game", "instance"])["value"].sum().groupby("game").mean()
    shares = shares[_present(exact, PAPER_GAMES)]
    measured = {str(game): f"{100 * share:.2g} %" for game, share in shares.items()}
    return measured, [(share > 0.01) == (game in NETWORKS) for game, share in shares.items()]


# Runtime


def _seconds(rows: pd.DataFrame) -> pd.DataFrame:
    """Return median seconds by game and method at the game's largest budget."""
    free = rows[~rows["method"].str.startswith("ffd")]
    largest = free[free["budget"] == free.groupby("game")["budget"].transform("max")]
    seconds = largest.pivot_table(
        index="game", columns="method", values="seconds", aggfunc="median"
    )
    return seconds.loc[_present(rows, PAPER_GAMES)]


def as_fast_as_regressionmsr(rows: pd.DataFrame) -> Judgement:
    """Judge OddSHAP's seconds over RegressionMSR's."""
    seconds = _seconds(rows)
    return _judged(seconds["oddshap"] / seconds["regressionmsr"], _at_most_double)


def others_are_faster(rows: pd.DataFrame) -> Judgement:
    """Judge the seconds of simple estimators over OddSHAP's, geometric mean over games."""
    seconds = _seconds(rows)
    names = ("msr", "leverageshap", "fouriershap", "permutation")
    found = [name for name in names if name in seconds]
    factors = {name: gmean(seconds[name] / seconds["oddshap"], nan_policy="omit") for name in found}
    return _judged(factors, _below_one)


def regression_dominates(rows: pd.DataFrame) -> Judgement:
    """Judge the regression's share of OddSHAP's seconds at 20,000 evaluations."""
    ours = rows[(rows["method"] == "oddshap") & (rows["budget"] == _LARGEST)]
    shares = {}
    for game in _present(ours, PAPER_GAMES):
        runs = [json.loads(text) for text in ours.loc[ours["game"] == game, "stages"]]
        totals = [sum(s for stage, s in run.items() if stage != "evaluation") for run in runs]
        parts = [run.get("regression", 0) for run in runs]
        shares[game] = float(np.median(np.divide(parts, totals)))
    return _judged(shares, lambda share: share > 0.5, "{:.0%}")


def cost_does_not_matter(rows: pd.DataFrame) -> Judgement:
    """Judge whether some baseline has a smaller error in less time, at 0.001 s per evaluation."""
    timed = rows.assign(total=rows["seconds"] + 0.001 * rows["evaluations"])
    measured, holds = {}, []
    for game in _present(rows, LARGE):
        part = timed[(timed["game"] == game) & timed["method"].isin([*_FLEXIBLE, "oddshap"])]
        cells = part.groupby(["method", "budget"])[["value", "total"]].median()
        ours = cells.loc["oddshap"].iloc[-1]
        better = cells[(cells["value"] < ours["value"]) & (cells["total"] < ours["total"])]
        names = better.drop(index="oddshap", level="method", errors="ignore").index.unique("method")
        measured[game] = f"beaten by {', '.join(names)}" if len(names) else "unbeaten"
        holds.append(len(names) == 0)
    return measured, holds


def overhead_vanishes(rows: pd.DataFrame) -> Judgement:
    """Judge OddSHAP's own share of the time where an evaluation takes a second."""
    ours = rows[rows["method"] == "oddshap"]
    share = (ours["seconds"] / (ours["seconds"] + ours["evaluations"])).groupby(ours["game"]).max()
    return _judged(share[_present(ours, PAPER_GAMES)], lambda s: s < 0.01, "{:.2%}")


# Ablations


def _ratio_medians(
    rows: pd.DataFrame, ablation: Ablation, budget: int = _ABLATION_BUDGET
) -> pd.DataFrame:
    """Return the median ratios of an ablation at a budget by game (rows) and variant (columns)."""
    data = ratios(rows, ablation)
    data = data[data["budget"] == budget]
    medians = data.pivot_table(index="game", columns="variant", values="ratio", aggfunc="median")
    labels = [variant.label for variant in ablation.variants]
    return medians.reindex(index=_present(data, PAPER_GAMES), columns=labels)


def sixfold(rows: pd.DataFrame) -> Judgement:
    """Judge η = 10: at least six times less error than without interactions."""
    return _judged(1 / _ratio_medians(rows, ETA)["10"], lambda gain: gain >= 6, "{:.2g}x")


def overfitting(rows: pd.DataFrame) -> Judgement:
    """Judge η = 2 against η = 10."""
    medians = _ratio_medians(rows, ETA)
    return _judged(medians["2"] / medians["10"], _above_one, "{:.2g}x")


def more_budget_more_gain(rows: pd.DataFrame) -> Judgement:
    """Judge the gain of η = 10 at 20,000 evaluations over that at 5,000."""
    small, large = (_ratio_medians(rows, ETA, budget)["10"] for budget in (5_000, _LARGEST))
    return _judged(small / large, _above_one, "{:.2g}x")


def unpaired_is_worse(rows: pd.DataFrame) -> Judgement:
    """Judge unpaired sampling with all terms, the better of the two unpaired variants."""
    return _judged(_ratio_medians(rows, PAIRING)["unpaired, all"], _above_one, "{:.2g}x")


def unpaired_odd_is_worst(rows: pd.DataFrame) -> Judgement:
    """Judge unpaired sampling with odd terms over unpaired sampling with all terms."""
    medians = _ratio_medians(rows, PAIRING)
    return _judged(medians["unpaired, odd"] / medians["unpaired, all"], _above_one, "{:.2g}x")


def even_terms_cost_places(rows: pd.DataFrame) -> Judgement:
    """Judge paired sampling with all terms: a slight drop."""
    return _judged(_ratio_medians(rows, PAIRING)["paired, all"], _above_one, "{:.2g}x")


def shallow_trees_hurt(rows: pd.DataFrame) -> Judgement:
    """Judge depths 1 and 2, the better of the two."""
    return _judged(_ratio_medians(rows, DEPTH)[["1", "2"]].min(axis=1), _above_one, "{:.2g}x")


def larger_trees_do_not_matter(rows: pd.DataFrame) -> Judgement:
    """Judge depths 5 and 20, and 200 trees: within a third of the default's error."""
    factors = _ratio_medians(rows, DEPTH)[["5", "20"]].join(_ratio_medians(rows, TREES)[["200"]])
    measured = {
        str(game): " / ".join(f"{f:.2f}" for f in each) for game, *each in factors.itertuples()
    }
    return measured, list(factors.apply(lambda each: each.between(3 / 4, 4 / 3)).all(axis=1))


CLAIMS = (
    Claim("OddSHAP has the lowest average rank at about 100 evaluations per player (table 1: 1.50)", "table1", lowest_rank),
    Claim("Table 1's mean errors of OddSHAP (ours over the paper's, within a factor of 2)", "table1", same_errors),
    Claim("DistilBERT, Estate, ViT16: OddSHAP is as good as RegressionMSR (error over its error)", "table1", like_regressionmsr),
    Claim("Cancer, IL60, CG60, NHANES, Crime: OddSHAP beats all flexible-budget baselines once m > η·d", "curves", best_from_sufficient_budgets),
    Claim("With fewer evaluations it compares with Proxy, RegressionMSR or LeverageSHAP (error over the best of them)", "curves", low_budgets),
    Claim("FFD-RD beats OddSHAP at its budget on Estate, Cancer, IL60, CG60 (error over OddSHAP's)", "curves", design_wins_on_trees),
    Claim("FFD-RD degrades substantially on DistilBERT and ViT16 (error over OddSHAP's)", "curves", design_fails_on_networks),
    Claim("FFD-RD (corrected) is worse than FFD-RD, with the sole exception of ViT16 (error over FFD-RD's)", "curves", correction_hurts),
    Claim("FFD's budget grows quadratically", "curves", design_budgets),
    Claim("Orders of 5 and above carry negligible energy in tree games, and significant energy in networks", "spectrum", high_orders),
    Claim("OddSHAP's runtime is similar to RegressionMSR's (seconds over its seconds, largest budget)", "runtime", as_fast_as_regressionmsr),
    Claim("MSR, LeverageSHAP, FourierSHAP and permutation sampling are faster (seconds over OddSHAP's)", "runtime", others_are_faster),
    Claim("Above 10,000 evaluations OddSHAP's runtime is that of its regression (share at 20,000)", "runtime", regression_dominates),
    Claim("At 0.001 s per evaluation OddSHAP stays the best (no baseline with less error in less time)", "runtime", cost_does_not_matter),
    Claim("At 1 s per evaluation, time is evaluations (OddSHAP's own share, at most)", "runtime", overhead_vanishes),
    Claim("At η = 10 and 10,000 evaluations the error is at least 6 times below LeverageSHAP's, up to 62 (Cancer)", "eta", sixfold),
    Claim("Too many interactions (η = 2) reverse gains (error over η = 10)", "eta", overfitting),
    Claim("Larger budgets gain more from interactions (gain at 20,000 over that at 5,000)", "eta", more_budget_more_gain),
    Claim("Unpaired sampling is worse than paired (error over OddSHAP's)", "pairing", unpaired_is_worse),
    Claim("Unpaired sampling with odd terms is worst (error over that with all terms)", "pairing", unpaired_odd_is_worst),
    Claim("Paired sampling with all terms is slightly worse (error over OddSHAP's)", "pairing", even_terms_cost_places),
    Claim("Proxies of a depth below 5 are worse (error over the default's)", "trees", shallow_trees_hurt),
    Claim("From depth 5 on, and beyond 100 trees, little changes (depth 5 / 20 / 200 trees over the default)", "trees", larger_trees_do_not_matter),
)  # fmt: skip
