"""The benchmarks: games against shapiq's, resumption, reports, and the page that they fill."""

from __future__ import annotations

import csv
import json
import sys
from itertools import combinations
from math import factorial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from shapiq import ExactComputer

from benchmarks import __main__ as command_line
from benchmarks import (
    active_ablation,
    claims,
    experiment,
    games,
    interactions,
    oddgp,
    oddgp_ablation,
    outputs,
    overhead,
    readme,
    runner,
    spectrum,
)
from benchmarks.ablations import DEPTH, ETA, PAIRING, TREES, ratios
from benchmarks.curves import budget_grid
from benchmarks.games import CountedGame, GameUnavailableError, Source, load_instance
from benchmarks.methods import METHODS
from shapiq_oddshap import OddGP, fourier, trees
from shapiq_oddshap.approximators.ffd import required_budget
from shapiq_oddshap.evaluated_game import EvaluationError
from tests.helpers import phi_of

N = 7


@pytest.fixture
def table(tmp_path):
    """Return the file of two random games, their Shapley values by permutations of the definition."""
    values = np.random.default_rng(0).normal(size=(2, 2**N)).cumsum(axis=1)
    shapley = np.zeros((2, N))
    for i in range(N):
        others = [player for player in range(N) if player != i]
        for size in range(N):
            weight = factorial(size) * factorial(N - size - 1) / factorial(N)
            for members in combinations(others, size):
                without = sum(1 << player for player in members)
                shapley[:, i] += weight * (values[:, without | 1 << i] - values[:, without])
    file = tmp_path / "small.npz"
    np.savez(file, n_players=N, values=values, shapley_values=shapley)
    return file


def run(command, table, output, *options):
    """Run a command on the table alone; its games are left out."""
    source = games.table_source(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "resolve_games", lambda *_: [source])
        return command_line.main([command, "--output", str(output), *options])


def rows_without_timings(file):
    """Return a CSV's rows but for what is measured in seconds."""
    with file.open() as stream:
        rows = list(csv.DictReader(stream))
    return [{k: v for k, v in row.items() if k not in runner.TIMINGS} for row in rows]


def test_table_bits_are_players_and_full_budget_is_exact(table):
    instance = load_instance(Source("small", table), 1)
    with np.load(table) as data:
        coalition = np.zeros((1, N), dtype=bool)
        coalition[0, [0, 3]] = True
        assert instance.value_function(coalition) == data["values"][1, 0b1001]
    phi = METHODS["oddshap"].build(n=N, random_state=0).approximate(2**N, CountedGame(instance))
    assert instance.mean_squared_error(phi.get_n_order_values(1)) < 1e-20


@pytest.mark.parametrize("name", ["cancer", "cg60"])
def test_tree_game_is_shapiqs(name):
    pytest.importorskip("shapiq_benchmark.runner", reason="the tree games need shapiq >= 1.8")
    from shapiq_games import InterventionalTreeGame  # noqa: PLC0415 - with shapiq >= 1.8

    instance = load_instance(Source(name), 3)
    model, references, rows, class_index = games._tree_model(name)
    theirs = InterventionalTreeGame(model, references, rows[3], class_index=class_index)
    rng = np.random.default_rng(0)
    coalitions = rng.random((300, instance.n)) < rng.random((300, 1))
    coalitions[:2] = [[False], [True]]
    # XGBoost adds its trees up in single precision
    expected = theirs(coalitions)
    np.testing.assert_allclose(
        instance.value_function(coalitions), expected, atol=1e-5 * np.ptp(expected)
    )
    leaves = instance.value_function.leaves()
    np.testing.assert_allclose(trees.shapley_values(leaves), instance.shapley, atol=1e-10)
    spread = trees.predict(leaves, coalitions[:50]) - instance.value_function(coalitions[:50])
    assert np.ptp(spread) < 1e-5 * np.ptp(expected)


def test_exact_spectrum_is_the_definition(table):
    instance = load_instance(Source("small", table), 0)
    orders, squares = spectrum.exact_spectrum(instance)
    everyone = (np.arange(2**N)[:, None] >> np.arange(N) & 1).astype(bool)
    values = instance.value_function(everyone)
    signs = (-1.0) ** (everyone.astype(int) @ everyone.astype(int).T)
    np.testing.assert_array_equal(orders, everyone.sum(axis=1))
    np.testing.assert_allclose(squares, (signs @ values / 2**N) ** 2, rtol=1e-9)
    assert fourier.singletons(N).shape == (N, N)


def test_an_interrupted_run_that_is_resumed_equals_an_uninterrupted_one(table, tmp_path):
    options = ["--methods", "oddshap,permutation,msr", "--budgets", "40,60"]
    run("table1", table, tmp_path / "whole", *options)
    whole = rows_without_timings(tmp_path / "whole" / "results.csv")
    assert len(whole) == 2 * 3 * 2

    calls = 0

    def interrupted(task):
        nonlocal calls
        calls += 1
        if calls == 5:
            raise KeyboardInterrupt
        return runner.approximate(task)

    file = tmp_path / "parts" / "results.csv"
    tasks = [
        runner.Task(
            games.table_source(table), int(row["instance"]), row["method"], int(row["budget"])
        )
        for row in reversed(whole)
    ]
    with pytest.raises(KeyboardInterrupt):
        runner.run_tasks(tasks, file, work=interrupted)
    assert len(rows_without_timings(file)) == 4
    text = file.read_text()
    file.write_text(text[: len(text) - 30])  # as if the last line had been cut short
    run("table1", table, tmp_path / "parts", *options)
    assert rows_without_timings(file) == whole
    assert len(json.loads((tmp_path / "parts" / "runs.json").read_text())) == 1


class Sentiment:
    """Stands in for a pipeline of transformers: words are tokens, and two of them belong together."""

    mask_token_id = 0

    def __init__(self):
        self.words, self.asked, self.tokenizer = ["[MASK]"], [], self
        self.patience = 30

    def __call__(self, texts, **options):
        if "add_special_tokens" in options:  # as the tokenizer
            self.words += [word for word in texts.split() if word not in self.words]
            return {"input_ids": [self.words.index(word) for word in texts.split()]}
        if len(self.asked) > self.patience:
            self.asked, self.patience = [], np.inf
            msg = "the machine was needed"
            raise InterruptedError(msg)
        self.asked += texts
        score = [0.1 + 0.2 * ("good" in t) + 0.5 * ("very" in t and "good" in t) for t in texts]
        return [
            [{"label": "POSITIVE", "score": s}, {"label": "NEGATIVE", "score": 1 - s}]
            for s in score
        ]

    def decode(self, tokens):
        return " ".join(self.words[token] for token in tokens)


def test_precompute_writes_a_table_and_goes_on_after_an_interruption(tmp_path, monkeypatch):
    pytest.importorskip("shapiq_benchmark.runner", reason="language games come with shapiq >= 1.8")
    model = Sentiment()
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(pipeline=lambda **_: model))
    texts, table = tmp_path / "texts.txt", tmp_path / "own.npz"
    texts.write_text("it is very good\na very very good\nso good that very\n")
    command = ["precompute", "--texts", str(texts), "--output", str(table)]
    with pytest.raises(EvaluationError, match="the machine was needed"):
        command_line.main(command)
    assert len(list(tmp_path.glob("own-*.sqlite"))) == 3
    assert command_line.main(command) == 0
    # two for each game, the grand coalition and one of each of the three values to verify each of two
    # filled stores, and the last game
    assert len(model.asked) == 6 + 2 * 4 + 16
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.npz", "texts.txt"]
    first = load_instance(games.table_source(table), 0)
    np.testing.assert_allclose(first.shapley, [0, 0, 0.5, 0.9], atol=1e-12)
    with pytest.raises(SystemExit, match="a new file is required"):
        command_line.main(command)
    texts.write_text("good\nvery good\n")
    command[-1] = str(tmp_path / "other.npz")
    with pytest.raises(SystemExit, match=r"games of \[1, 2\] players"):
        command_line.main(command)


def test_two_processes_give_the_same_rows(table, tmp_path):
    options = ["--methods", "oddshap,svarm", "--budgets", "50"]
    run("table1", table, tmp_path / "one", *options)
    run("table1", table, tmp_path / "two", *options, "--jobs", "2")
    one, two = (rows_without_timings(tmp_path / name / "results.csv") for name in ("one", "two"))
    assert one == two


def test_no_resume_starts_over(table, tmp_path):
    run("table1", table, tmp_path, "--methods", "oddshap", "--budgets", "40")
    run("table1", table, tmp_path, "--methods", "msr", "--budgets", "40", "--no-resume")
    assert {row["method"] for row in rows_without_timings(tmp_path / "results.csv")} == {"msr"}


def test_a_refusal_is_a_row_with_the_reason(table, tmp_path, capsys):
    run("table1", table, tmp_path, "--methods", "oddshap,ffd-rd", "--budgets", "10")
    notes = {row["method"]: row["note"] for row in rows_without_timings(tmp_path / "results.csv")}
    assert "needs at least" in notes["ffd-rd"]
    assert notes["oddshap"] == ""
    assert "needs at least" in capsys.readouterr().out


def test_a_game_that_cannot_be_built_is_skipped_with_the_reason(tmp_path, capsys):
    code = command_line.main(
        ["table1", "--games", "vit16", "--tables", str(tmp_path), "--output", str(tmp_path)]
    )
    assert code != 0
    assert "Skipped vit16: no file vit16.npz" in capsys.readouterr().out


def test_unknown_names_are_refused(tmp_path):
    for option in ("--games", "--methods"):
        with pytest.raises(SystemExit, match=r"There is no .*'nonsense'\. Known are"):
            command_line.main(["table1", option, "nonsense", "--output", str(tmp_path)])
    with pytest.raises(GameUnavailableError, match="Known are"):
        games.resolve_games(["nonsense"], None, [])


@pytest.mark.parametrize(
    ("command", "options", "files"),
    [
        ("table1", ["--methods", "oddshap,msr,permutation"], []),
        ("curves", ["--methods", "oddshap,msr,ffd-rd"], ["curves.png"]),
        ("runtime", ["--methods", "oddshap,msr"], ["cost-0.001.png", "overhead.png", "stages.png"]),
        ("eta", ["--budgets", "100,120"], ["eta.png"]),
        ("pairing", ["--budgets", "100"], ["pairing.png"]),
        ("trees", ["--budgets", "100"], ["depth.png", "trees.png"]),
        ("spectrum", ["--budgets", "100"], ["spectrum.png"]),
    ],
)
def test_every_experiment_writes_its_results(table, tmp_path, capsys, command, options, files):
    assert run(command, table, tmp_path, *options) == 0
    for file in ["results.csv", "README.md", "runs.json", *files]:
        assert (tmp_path / file).stat().st_size > 0
    page = (tmp_path / "README.md").read_text()
    assert f"python -m benchmarks {command}" in page
    assert str(tmp_path) not in page
    assert "small" in capsys.readouterr().out


def test_ratios_are_of_the_same_instance_and_budget():
    rows = pd.DataFrame(
        [
            ["g", 100, instance, "oddshap", options, value]
            for instance, factor in ((0, 1.0), (1, 10.0))
            for options, value in (
                ("{}", factor),
                (json.dumps({"proxy_params": {"max_depth": 1}}), 3 * factor),
            )
        ],
        columns=["game", "budget", "instance", "method", "options", "value"],
    ).assign(repetition=0)
    found = ratios(rows, DEPTH)
    assert found["ratio"].tolist() == [3.0, 3.0]
    assert set(found["variant"]) == {"1"}


def test_claims_are_judged_by_ratios():
    """An ablation in which the paper is right everywhere, but for η = 2 on Estate."""
    rows = pd.DataFrame(
        [
            [game, budget, 0, method, options, error * (20_000 / budget if options == "{}" else 1)]
            for game in ("estate", "cancer")
            for budget in (5_000, 10_000, 20_000)
            for method, options, error in [
                (*ETA.baseline.key, 1.0),
                (*ETA.variants[0].key, 1e-5 if game == "estate" else 0.5),
                (*ETA.variants[2].key, 1000 / budget),
                *[(*variant.key, 0.1) for variant in (*PAIRING.variants, *TREES.variants)],
                *[(*variant.key, 0.7 / depth) for depth, variant in enumerate(DEPTH.variants, 1)],
            ]
        ],
        columns=["game", "budget", "instance", "method", "options", "value"],
    ).drop_duplicates(["game", "budget", "method", "options"])
    rows = rows.assign(repetition=0)
    assert claims.sixfold(rows) == ({"estate": "10x", "cancer": "10x"}, [True, True])
    assert claims.overfitting(rows)[1] == [False, True]
    assert claims.more_budget_more_gain(rows)[0] == {"estate": "4x", "cancer": "4x"}
    assert claims.shallow_trees_hurt(rows)[1] == [True, True]
    judged = claims.claims_table({"eta": rows})
    assert "Estate 0.0001x, Cancer 5x | 1 of 2 |" in judged
    assert judged.count("not run | open") == len(claims.CLAIMS) - 3


def test_budget_grid_spans_the_papers_range():
    assert budget_grid(14)[0] == 15
    assert budget_grid(14)[-1] == 2**14
    assert budget_grid(60)[-1] == 20_000
    assert len(budget_grid(60)) == 10


@pytest.mark.parametrize("command", ["overhead", "evaluation", "readme", "spectrum", "suite"])
def test_help(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        command_line.main([command, "--help"])
    assert "python -m benchmarks" in capsys.readouterr().out


def test_overhead_judges_ratios_and_memory():
    def row(method, seconds, peak):
        return {"n": 1500, "budget": 20_000, "method": method, "seconds": seconds, "peak_mib": peak}

    met = pd.DataFrame([row("oddshap", 2.0, 900.0), row("shapiq-oddshap", 10.0, 3000.0)])
    assert overhead._ratio_table(met)[1]
    assert overhead._memory_met(met)
    missed = pd.DataFrame([row("oddshap", 6.0, 1500.0), row("shapiq-oddshap", 10.0, 3000.0)])
    assert not overhead._ratio_table(missed)[1]
    assert not overhead._memory_met(missed)


def test_overhead_measures_a_run():
    game = overhead.sparse_game(12)
    measured = overhead._once("oddshap", game, 200, {})
    assert 0 < measured.evaluations <= 200
    assert measured.seconds > 0
    assert overhead._peak_mib() > 10
    scaling = pd.DataFrame({"budget": [10_000, 100_000], "seconds": [1.0, 100.0]})
    assert overhead.scaling_slope(scaling) == pytest.approx(2)


def test_ablation_variants_are_the_estimator_with_one_part_exchanged():
    game = CountedGame(overhead.sparse_game(13))
    found = {}
    for name in ("as it is", "no correction", "no terms of either", "no size parts"):
        variant = oddgp_ablation.VARIANTS[name]
        approximator = variant.approximator(13, recipe=variant.recipe, random_state=0)
        found[name] = approximator.approximate(200, game).get_n_order_values(1)
    ours = OddGP(13, random_state=0).approximate(200, game).get_n_order_values(1)
    np.testing.assert_array_equal(found["as it is"], ours)
    total = float(np.diff(game(np.array([[False] * 13, [True] * 13])))[0])
    np.testing.assert_allclose([values.sum() for values in found.values()], total)
    assert not np.allclose(found["as it is"], found["no terms of either"], rtol=1e-9, atol=0)


def test_the_ablation_on_ffd_rds_coalitions_makes_just_its_evaluations():
    design = oddgp_ablation.VARIANTS["FFD-RD's coalitions, no correction"]
    approximator = design.approximator(13, recipe=design.recipe, random_state=0)
    values = approximator.approximate(required_budget(13), overhead.sparse_game(13).value_function)
    assert values.estimation_budget == required_budget(13)


@pytest.fixture
def paper_table(tmp_path):
    """Return a table under the name of a game of the paper, with instances that chose nothing."""
    values = np.random.default_rng(1).normal(size=(12, 2**N)).cumsum(axis=1)
    shapley = [
        ExactComputer(games.table_lookup(each, N), N)("SV", 1).get_n_order_values(1)
        for each in values
    ]
    file = tmp_path / "vit16.npz"
    np.savez(file, n_players=N, values=values, shapley_values=shapley)
    return file


def test_oddgp_runs_the_instances_that_chose_nothing(paper_table, tmp_path):
    options = ["--methods", "oddgp,kernelshap,leverageshap"]
    assert run("oddgp", paper_table, tmp_path, *options) == 0
    rows = pd.read_csv(tmp_path / "results.csv")
    assert set(rows["instance"]) == {10, 11}
    ours = rows[rows["method"] == "oddgp"]
    assert sorted(ours["budget"].unique()) == [4 * N, 10 * N, games.PAPER_BUDGETS["vit16"]]
    assert ours["covered"].between(0, 1).all()
    assert all("evaluation" in json.loads(text) for text in ours["stages"])
    assert "| oddgp |" in (tmp_path / "README.md").read_text()


def test_oddgps_targets_are_ratios_at_the_papers_and_at_low_budgets():
    """The error of OddGP is a tenth of shapiq's OddSHAP's at the paper's budget, a half below."""
    rows = pd.DataFrame(
        [
            [game, budget, n, instance, method, error, 0.9, 1.0]
            for game, n in (("cancer", 30), ("vit16", 16))
            for budget in (4 * n, 10 * n, games.PAPER_BUDGETS[game])
            for instance in (10, 11)
            for method, error in (
                ("oddgp", 0.1 if budget > 10 * n else 0.5),
                ("shapiq-oddshap", 1.0),
                ("leverageshap", 2.0),
                ("regressionmsr", 0.05 if game == "cancer" else 1.0),
            )
        ],
        columns=["game", "budget", "n", "instance", "method", "value", "covered", "seconds"],
    )
    page = oddgp.summarise(rows, None)
    assert "| shapiq's OddSHAP | geometric mean | 0.1 | 0.35 | 0.2 |" in page
    assert "| the best of shapiq's estimators per game | worst: Cancer | 2 | 1.1 |" in page
    assert "OddSHAP at 4n and 10n | geometric mean | 0.5 |" in page
    assert "| Cancer | 0.90 | 0.90 | 0.90 | 1 |" in page


def test_the_ablation_command_writes_its_results(paper_table, tmp_path):
    options = ["--methods", "as it is,no product part,FFD-RD's budget", "--instances", "1"]
    assert run("oddgp-ablation", paper_table, tmp_path, *options, "--budgets", "60") == 0
    rows = pd.read_csv(tmp_path / "results.csv").set_index("method")
    assert rows["budget"].to_dict() == {
        "as it is": 60,
        "no product part": 60,
        "FFD-RD's budget": required_budget(N),
    }
    instance = load_instance(games.table_source(paper_table), 0)
    ours = OddGP(N, random_state=0).approximate(60, CountedGame(instance)).get_n_order_values(1)
    assert rows.loc["as it is", "value"] == pytest.approx(instance.mean_squared_error(ours))
    assert rows.loc["as it is", "value"] != rows.loc["no product part", "value"]


def test_ablation_ratios_are_to_the_estimator_as_it_is():
    rows = pd.DataFrame(
        [
            ["cancer", 300, 30, instance, method, factor * scale, 0.9, 1.0]
            for instance, scale in ((0, 1.0), (1, 100.0))
            for method, factor in (("as it is", 1.0), ("no correction", 3.0))
        ],
        columns=["game", "budget", "n", "instance", "method", "value", "covered", "seconds"],
    )
    page = oddgp_ablation.summarise(rows, None)
    assert "| no correction | correction | 30 (0.90) | 3.00 | 1 |" in page


def test_interactions_are_measured_where_most_are_none_at_all(tmp_path):
    """Half the pairs and more of a tree game have no interaction, which is no accident."""
    coalitions = (np.arange(2**N)[:, None] >> np.arange(N) & 1).astype(bool)
    values = coalitions @ np.arange(1.0, N + 1) + 3.0 * coalitions[:, :2].all(axis=1)
    source = Source("pair", tmp_path / "pair.npz")
    np.savez(source.table, n_players=N, values=[values], shapley_values=np.ones((1, N)))
    task = runner.Task(source, 0, "", 0)
    exact = interactions._exact(task, N, games.table_lookup(values, N), 2)
    np.testing.assert_allclose(exact, [3.0] + [0.0] * (N * (N - 1) // 2 - 1), atol=1e-12)
    (row,) = interactions.measure(runner.Task(source, 0, "oddgp", 2**N))
    assert row.note == ""
    assert row.value < 1e-20
    assert row.covered == 1
    (refused,) = interactions.measure(runner.Task(source, 0, "oddgp", 1))
    assert "budget=1" in refused.note


def test_rows_name_the_versions_and_older_files_are_read(table, tmp_path):
    run("table1", table, tmp_path, "--methods", "oddshap", "--budgets", "40")
    file = tmp_path / "results.csv"
    rows = pd.read_csv(file)
    assert rows["versions"].str.match(r"\d+\.\d+.* \(\w{10}\), shapiq \d").all()
    older = rows.drop(columns=["versions", "scale", "reference_error", "repetition"])
    older.to_csv(file, index=False)
    run("table1", table, tmp_path, "--methods", "oddshap", "--budgets", "40,60")
    both = pd.read_csv(file)
    assert both["versions"].isna().tolist() == [True, False, True, False]
    np.testing.assert_array_equal(both.loc[both["budget"] == 40, "value"], rows["value"])
    page = (tmp_path / "README.md").read_text()
    assert "## Rows by several versions" in page
    assert "| oddshap | not noted | 2 |" in page


def test_outputs_are_compared_with_runs_of_their_own(table, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(outputs, "sources", lambda _: [games.table_source(table)])
    monkeypatch.setattr(outputs, "TIMED", "small")
    monkeypatch.setattr(outputs, "_COUNTS", (1, 2))
    monkeypatch.setattr(outputs, "_ROWS", 2)
    command = [
        "outputs",
        "--games",
        "small",
        "--many",
        "3",
        "--output",
        str(tmp_path),
        "--seeds",
        "1",
    ]
    for target in ("MOST_ERROR", "WORST_ERROR", "MOST_BYTES"):
        monkeypatch.setattr(outputs, target, np.inf)
    other = pd.DataFrame(
        [["error", "other", "OddGP", 2, 4, 1.0, 2.0, 0.1]], columns=outputs._COLUMNS
    )
    other.to_csv(tmp_path / "results.csv", index=False)
    assert command_line.main([*command, "--check"]) == 0
    monkeypatch.setattr(outputs, "MOST_BYTES", 0.0)
    assert command_line.main([*command, "--check"]) == 1
    assert "Missed: memory of OddGP" in capsys.readouterr().out
    rows = pd.read_csv(tmp_path / "results.csv")
    assert rows["part"].value_counts().to_dict() == {"error": 2, "seconds": 4, "memory": 2}
    assert "0.50 ± 0.05" in (tmp_path / "README.md").read_text()  # of an earlier run
    assert command_line.main([*command, "--factors", "4"]) == 0
    again = pd.read_csv(tmp_path / "results.csv").sort_values(list(rows), ignore_index=True)
    pd.testing.assert_frame_equal(again, rows.sort_values(list(rows), ignore_index=True))
    rows = rows[rows["game"] != "other"]
    instances = [load_instance(games.table_source(table), index) for index in range(2)]
    alone = [
        one.mean_squared_error(
            OddGP(N, random_state=seed).approximate(4 * N, one.value_function).get_n_order_values(1)
        )
        / one.mean_square()
        for one in instances
        for seed in range(outputs._MORE_SEEDS[4])
    ]
    first = rows[(rows["part"] == "error") & (rows["factor"] == 4)]
    assert first["alone"].item() == pytest.approx(np.exp(np.mean(np.log(alone))))
    assert first["together"].item() != first["alone"].item()


def test_repetitions_differ_in_their_seeds(table, tmp_path):
    options = ["--methods", "oddshap", "--budgets", "40"]
    run("table1", table, tmp_path, *options)
    once = rows_without_timings(tmp_path / "results.csv")
    run("table1", table, tmp_path, *options, "--seeds", "2")
    twice = rows_without_timings(tmp_path / "results.csv")
    assert [row for row in twice if row["repetition"] == "0"] == once
    errors = {(row["instance"], row["repetition"]): row["value"] for row in twice}
    assert len(set(errors.values())) == len(errors) == 2 * len(once)
    with pytest.raises(SystemExit):
        run("table1", table, tmp_path, *options, "--seeds", "0")


def test_rows_of_other_runs_come_along(table, tmp_path):
    run("table1", table, tmp_path / "peers", "--methods", "msr,oddshap", "--budgets", "40,50")
    peers = tmp_path / "peers" / "results.csv"
    rows = pd.read_csv(peers)
    rows.loc[rows["method"] == "msr", "value"] = 123.0
    rows.to_csv(peers, index=False)
    options = ["--methods", "permutation", "--budgets", "40", "--reuse", str(peers)]
    run("table1", table, tmp_path / "own", *options)
    found = pd.read_csv(tmp_path / "own" / "results.csv")
    assert set(found["budget"]) == {40}
    assert set(found["method"]) == {"msr", "oddshap", "permutation"}
    assert (found.loc[found["method"] == "msr", "value"] == 123.0).all()
    with pytest.raises(SystemExit, match=r"no .*nowhere.csv to reuse"):
        run("table1", table, tmp_path, "--reuse", str(tmp_path / "nowhere.csv"))


def test_the_page_is_up_to_date():
    page = readme._PAGE.read_text()
    assert readme.filled(page, command_line.EXPERIMENTS) == page


def test_interactions_are_compared_by_their_means_over_seeds():
    """The best of the others is one method over all seeds, not another one per seed."""
    errors = {"oddgp": (2.0, 4.0), "proxyshap": (1.0, 9.0), "svarm-iq": (8.0, 4.0)}
    rows = pd.DataFrame(
        {"game": "a", "n": 10, "budget": 200, "method": m, "repetition": k, "value": value}
        for m, both in errors.items()
        for k, value in enumerate(both)
    )
    (ratio,) = interactions._ratios(rows, 20, "oddgp", ["proxyshap", "svarm-iq"])
    assert ratio == pytest.approx(3.0 / 5.0)


@pytest.mark.parametrize(
    ("command", "methods"),
    [("interactions", ("oddgp", "oddshap", "svarm-iq")), ("triples", ("oddgp", "svarm-iq"))],
)
def test_interactions_are_compared_with_exact_ones(
    command, methods, table, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(interactions, "suite_sources", lambda *_: [games.table_source(table)])
    options = ["--methods", ",".join(methods), "--budgets", f"60,{2**N}"]
    arguments = [command, "--games", "small", "--output", str(tmp_path), *options]
    assert command_line.main(arguments) == 0
    rows = pd.read_csv(tmp_path / "results.csv").set_index(["method", "budget"])
    for method in methods:
        assert rows.loc[(method, 60), "value"] > 1e-6
        assert rows.loc[(method, 2**N), "value"] < 1e-20
    assert 0 <= rows.loc[("oddgp", 60), "covered"] <= 1
    assert "Coverage" in capsys.readouterr().out
    assert command_line.main([*arguments, "--check"]) == 1  # nothing is known at 20 n and 60 n


def test_variants_of_the_choice_are_the_estimator_with_one_option_exchanged():
    n, game = 10, CountedGame(overhead.sparse_game(10))
    found = {}
    for name in ("as it is", "all pairs drawn", "start: 1 pair per player"):
        variant = active_ablation.VARIANTS[name].build(n, random_state=0)
        found[name] = phi_of(variant.approximate(60, game))
    ours = phi_of(OddGP(n, random_state=0).approximate(60, game))
    np.testing.assert_array_equal(found["as it is"], ours)
    drawn = phi_of(OddGP(n, design="paired", random_state=0).approximate(60, game))
    np.testing.assert_array_equal(found["all pairs drawn"], drawn)
    assert not np.array_equal(found["start: 1 pair per player"], ours)


@pytest.mark.parametrize("name", ["pairs: a process on f", "singles: a process on f"])
@pytest.mark.parametrize("budget", [2, 3, 21, 40, 2**6])
def test_a_process_on_the_game_keeps_to_the_budget_and_is_efficient(name, budget):
    n, instance = 6, overhead.sparse_game(6)
    game = CountedGame(instance)
    approximator = active_ablation.VARIANTS[name].build(n, random_state=1)
    values = phi_of(approximator.approximate(budget, game))
    assert game.evaluations <= budget
    singles = name.startswith("singles")
    assert game.evaluations >= budget - (not singles)
    total = float(np.diff(game(np.array([[False] * n, [True] * n])))[0])
    assert values.sum() == pytest.approx(total)


def test_the_ablation_of_the_choice_writes_ratios_to_the_estimator_as_it_is(tmp_path):
    values = np.random.default_rng(1).normal(size=(2, 2**N)).cumsum(axis=1)
    shapley = [
        ExactComputer(games.table_lookup(each, N), N)("SV", 1).get_n_order_values(1)
        for each in values
    ]
    folder = tmp_path / "suite"
    folder.mkdir()
    np.savez(
        folder / "adult-data-valuation-9.npz", n_players=N, values=values, shapley_values=shapley
    )
    command = ["active-ablation", "--tables", str(tmp_path), "--games", "adult-*"]
    command += ["--methods", "as it is,kernel: main effects alone", "--budgets-per-player", "3"]
    assert command_line.main([*command, "--output", str(tmp_path / "out")]) == 0
    rows = pd.read_csv(tmp_path / "out" / "results.csv").pivot_table(
        index="instance", columns="method", values="value"
    )
    ratio = np.exp(np.log(rows["kernel: main effects alone"] / rows["as it is"]).mean())
    page = (tmp_path / "out" / "README.md").read_text()
    assert f"| kernel: main effects alone | parts | {ratio:.2f} |" in page
