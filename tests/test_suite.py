"""The suite benchmark: its games against definitions, its instances and budgets, and its bars."""

from __future__ import annotations

import argparse
from fnmatch import fnmatchcase

import numpy as np
import pandas as pd
import pytest
from shapiq import ExactComputer, Game
from shapiq.explainer.product_kernel import ProductKernelComputer
from shapiq.explainer.product_kernel.base import ProductKernelModel

from benchmarks import __main__ as command_line
from benchmarks import active, closed_forms, games, suite
from benchmarks.closed_forms import CLOSED_FORMS
from benchmarks.experiment import Planned
from benchmarks.games import GameUnavailableError, Source, load_instance

N = 7


def exact(instance):
    """Return an instance's Shapley values from all coalitions, by shapiq."""
    values = ExactComputer(instance.value_function, instance.n)("SV", 1)
    return values.get_n_order_values(1)


def write_table(file, seed, instances=3):
    """Write a table of random games whose values jump at the empty coalition."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(instances, 2**N)) + 10.0 * (np.arange(2**N) > 0)
    shapley = [
        exact(games.Instance(N, games.table_lookup(each, N), np.zeros(N))) for each in values
    ]
    np.savez(file, n_players=N, values=values, shapley_values=shapley)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Return a directory of tables, with the folder of the suite beside it."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "tables").mkdir()
    (folder / "suite").mkdir()
    for seed, name in enumerate(("adult-data-valuation-tree-7", "bike-feature-selection-7")):
        write_table(folder / "suite" / f"{name}.npz", seed)
    return folder / "tables"


# Games


@pytest.mark.parametrize("n", [3, 5, 9])  # fewer than, as many as and more than the neighbours
def test_values_of_neighbours_are_exact(n):
    instance = closed_forms.nearest_neighbours(n, 4)
    np.testing.assert_allclose(instance.shapley, exact(instance), atol=1e-12)
    nobody, everyone = instance.value_function(np.array([[False] * n, [True] * n]))
    assert nobody == 0
    assert everyone == pytest.approx(instance.shapley.sum())


@pytest.mark.parametrize("n", [6, 30])
def test_values_of_kernel_machines_are_those_of_shapiqs_computer(n):
    instance = closed_forms.kernel_machine(n, 2)
    row, centres, weights = closed_forms.kernel_parameters(n, 2)
    model = ProductKernelModel(centres, weights, len(centres), n, gamma=1 / n)
    computer = ProductKernelComputer(model)
    vectors = computer.compute_kernel_vectors(centres, row)
    theirs = [computer.compute_shapley_value(vectors, player) for player in range(n)]
    np.testing.assert_allclose(instance.shapley, theirs, atol=1e-9)
    if n == 6:
        np.testing.assert_allclose(instance.shapley, exact(instance), atol=1e-12)


def test_values_of_sparse_games_are_exact():
    instance = closed_forms.sparse_triples(9, 3)
    np.testing.assert_allclose(instance.shapley, exact(instance), atol=1e-12)


def test_references_are_unbiased_and_tell_their_error():
    """Over 300 references, squared errors are the estimated ones on average."""
    rng = np.random.default_rng(0)
    values = games.table_lookup(rng.normal(size=2**5), 5)
    truth = exact(games.Instance(5, values, np.zeros(5)))
    found = [closed_forms.permutation_reference(values, 5, 40, seed) for seed in range(300)]
    errors = np.array([shapley - truth for shapley, _ in found])
    claimed = np.array([error for _, error in found])
    standard = np.sqrt(claimed.mean() / 300)
    assert np.all(np.abs(errors.mean(axis=0)) < 4 * 5**0.5 * standard)
    squared = (errors**2).mean(axis=1)
    spread = squared.std() / np.sqrt(300)
    assert abs(squared.mean() - claimed.mean()) < 4 * spread
    assert spread < 0.1 * claimed.mean()  # so that the line above can fail


def test_references_are_kept_where_the_user_says(tmp_path):
    calls = []

    def compute():
        calls.append(0)
        return np.arange(3.0), 0.25

    file = tmp_path / "folder" / "reference.npz"
    for _ in range(2):
        shapley, error = closed_forms._kept(file, compute)
        np.testing.assert_array_equal(shapley, np.arange(3.0))
        assert error == 0.25
    assert len(calls) == 1
    closed_forms._kept(None, compute)
    assert len(calls) == 2
    assert [path.name for path in file.parent.iterdir()] == ["reference.npz"]


def test_the_network_of_digits_has_a_small_error_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(closed_forms, "_PERMUTATIONS", 500)
    instance = closed_forms.digits_network(0, tmp_path)
    assert 0 < instance.reference_error < 1e-3 * instance.mean_square()
    nobody, everyone = instance.value_function(np.array([[False] * 64, [True] * 64]))
    assert everyone - nobody == pytest.approx(instance.shapley.sum())
    again = closed_forms.digits_network(0, tmp_path)
    np.testing.assert_array_equal(again.shapley, instance.shapley)
    assert len(list(tmp_path.iterdir())) == 1


class Random(Game):
    """A game of random values with a jump, as a user of shapiq would store it."""

    def __init__(self, seed, n=4):
        self.table = np.random.default_rng(seed).normal(size=2**n)
        super().__init__(n, normalization_value=self.table[0])

    def value_function(self, coalitions):
        return self.table[coalitions.astype(int) @ (1 << np.arange(self.n_players))]


@pytest.mark.parametrize("ending", ["npz", "json"])
def test_games_that_shapiq_stored_are_read(tmp_path, ending):
    game = Random(0)
    game.precompute()
    file = tmp_path / f"game.{ending}"
    game.save_values(file)
    (source,) = games.file_sources(file)
    instance = load_instance(source, 0)
    assert (source.name, games.count_instances(source), instance.n) == ("game", 1, 4)
    np.testing.assert_allclose(instance.shapley, game.exact_values("SV", 1).get_n_order_values(1))
    coalitions = np.random.default_rng(1).random((30, 4)) < 0.5
    # with or without the value of the empty coalition, which changes no Shapley value
    there = instance.value_function(coalitions) - instance.value_function(np.zeros((1, 4), bool))
    np.testing.assert_allclose(there, game.value_function(coalitions) - game.table[0])


def test_shapiqs_files_in_a_folder_are_instances_of_families(tmp_path):
    folder = tmp_path / "Bike_FeatureSelection_Game" / "4"
    folder.mkdir(parents=True)
    for seed in (10, 2, 1):
        game = Random(seed)
        game.precompute()
        game.save_values(folder / f"model_name=tree_{seed}.npz")
    game.save_values(folder / "model_name=forest_1.npz")
    found = {source.name: source for source in games.file_sources(folder.parent)}
    family = found["Bike_FeatureSelection_Game-4-model_name=tree"]
    assert [file.stem[-2:] for file in family.stored] == ["_1", "_2", "10"]
    assert len(found) == 2
    assert {suite.domain_of(name) for name in found} == {"feature selection"}
    np.testing.assert_allclose(
        load_instance(family, 2).shapley, Random(10).exact_values("SV", 1).get_n_order_values(1)
    )
    (tmp_path / "empty").mkdir()
    with pytest.raises(GameUnavailableError, match=r"holds no .npz or .json"):
        games.file_sources(tmp_path / "empty")


def test_a_stored_game_without_all_values_is_refused(tmp_path):
    file = tmp_path / "part.npz"
    coalitions = np.array([[False] * 3, [True] * 3])
    np.savez(file, coalitions=coalitions, values=[0.0, 1.0], n_players=3)
    with pytest.raises(GameUnavailableError, match="holds 2 values, but all 8 of 3 players"):
        load_instance(games.file_sources(file)[0], 0)


# Which runs


@pytest.mark.parametrize(
    ("name", "domain"),
    [
        ("adult-data-valuation-decision-tree-15", "data valuation"),
        ("bike-dataset-valuation-gradient-boosting-10", "dataset valuation"),
        ("adult-forest-selection-10", "forest selection"),
        ("AdultCensus_RandomForestEnsembleSelection_Game-10", "forest selection"),
        ("california-ensemble-selection-10", "ensemble selection"),
        ("bike-feature-selection-decision-tree-12", "feature selection"),
        ("adult-uncertainty-explanation-total-marginal-14", "uncertainty"),
        ("AdultCensus_GlobalXAI_Game", "global explanation"),
        ("adult-local-explanation-random-forest-marginal-14", "local explanation"),
        ("ImageClassifier_LocalXAI_Game", "image"),
        ("SentimentAnalysis_LocalXAI_Game", "text"),
        ("bike-cluster-explanation-agglomerative-calinski-harabasz-score-12", "clustering"),
        ("bike-unsupervised-data-12", "unsupervised"),
        ("soum-30-order15-15", "sums of unanimity"),
        ("estate-tabpfn", "TabPFN"),
        ("vit16", "image"),
        ("distilbert", "text"),
        ("sparse-triples-20", "sparse"),
        ("neighbours-50", "nearest neighbours"),
        ("anything", "other"),
    ],
)
def test_domains_come_from_the_name(name, domain):
    assert suite.domain_of(name) == domain


def test_every_handed_family_has_a_domain():
    folder = games.table_directory(None).parent / "suite"
    files = sorted(folder.glob("*.npz"))
    if not files:
        pytest.skip(f"the suite's tables are not beside the checkout ({folder.name}/ is not there)")
    assert "other" not in {suite.domain_of(file.stem) for file in files}


def options(**given):
    """Return the options that choose instances."""
    return argparse.Namespace(**{"split": "chosen", "instances": 30} | given)


def test_splits_are_disjoint_and_tables_have_been_seen_more_often():
    family, table = Source("adult-forest-selection-10"), Source("vit16")
    sparse = Source("sparse-triples-20")
    chosen, untouched = options(), options(split="untouched")
    assert list(suite.choose(chosen, family, 3)) == [0, 1]
    assert list(suite.choose(untouched, family, 3)) == [2]
    assert list(suite.choose(untouched, family, 2)) == []
    assert list(suite.choose(chosen, table, 15)) == [0, 1]
    assert list(suite.choose(untouched, table, 15)) == [10, 11, 12, 13, 14]
    assert list(suite.choose(chosen, sparse, 40)) == list(range(20))
    assert list(suite.choose(untouched, sparse, 40)) == list(range(20, 40))
    assert list(suite.choose(options(split="all", instances=2), family, 3)) == [0, 1]
    assert list(suite.choose(options(split="untouched", instances=1), table, 15)) == [10]


def budgets(name, n, given=None):
    """Return a game's budgets as the suite plans them."""
    tasks = suite.plan(Planned(Source(name), n, range(1)), ["oddgp"], given)
    return [task.budget for task in tasks]


def test_budgets_stay_below_most_of_the_coalitions():
    assert budgets("g", 14) == [42, 56, 84, 140, 420, 1400]
    assert budgets("g", 10) == [30, 40, 60, 100, 300]  # 1000 of 1024 are too many
    assert budgets("g", 10, [500, 1000]) == [500]
    assert budgets("sparse-triples-20", 20) == [38, 40, 42, 44, 46]
    assert budgets("neighbours-1000", 1000) == [3000, 4000, 6000, 10_000]
    assert budgets("neighbours-100", 100) == [300, 400, 600, 1000, 3000, 10_000]


def test_families_are_found_by_patterns(tables):
    def found(*patterns):
        args = argparse.Namespace(tables=tables, references=None, games=patterns, table=[])
        return [source.name for source in suite.sources(args)]

    assert found("adult*") == ["adult-data-valuation-tree-7"]
    assert found("*selection*") == ["bike-feature-selection-7"]
    everything = found("*")
    assert {*CLOSED_FORMS, "vit16", "distilbert", "estate-tabpfn"} <= set(everything)
    assert all(fnmatchcase(name, "*-7") for name in everything[:2])
    with pytest.raises(GameUnavailableError, match="There is no game 'nonsense'"):
        found("nonsense")


# Results


METHODS = ["oddgp", "oddshap", "kernelshap", "permutation"]


@pytest.fixture(scope="module")
def written(tables, tmp_path_factory):
    """Return the output of a run with few methods."""
    output = tmp_path_factory.mktemp("suite")
    names = "bike*,sparse-triples-20"
    command = ["suite", "--tables", str(tables), "--games", names, "--output", str(output)]
    command += ["--methods", ",".join(METHODS), "--instances", "2"]
    assert command_line.main(command) == 0
    return output


def test_suite_writes_its_results(written):
    rows = pd.read_csv(written / "results.csv")
    assert set(rows["instance"]) == {0, 1}
    assert len(rows) == 2 * len(METHODS) * (4 + 5)
    assert rows["value"].notna().all()
    assert (rows["scale"] > 0).all()
    page = (written / "README.md").read_text()
    assert "These are instances 0, 1." in page
    assert "| bike-feature-selection-7 |" in page
    assert "| sparse-triples-20 | 46 | oddgp |" in page
    assert (written / "suite.png").stat().st_size > 0


def test_suite_says_which_of_the_five_are_not_there(written):
    page = (written / "README.md").read_text()
    assert "**Without shapiq-oddshap, leverageshap, regressionmsr, regressionmsr-xgboost**" in page


def test_check_is_the_exit_code(written, tables, monkeypatch):
    command = ["suite", "--tables", str(tables), "--games", "bike*", "--methods", "oddgp,oddshap"]
    command += ["--instances", "2", "--output", str(written)]
    assert command_line.main(command) == 0
    for value, code in ((0.5, 0), (2.0, 1)):
        monkeypatch.setattr(suite, "bars", lambda _, v=value: [suite.Bar("what", v, 1.0)])
        assert command_line.main([*command, "--check"]) == code


def frame(errors, **columns):
    """Return rows of relative errors by game, evaluations per player, instance and method."""
    rows = pd.DataFrame(
        [
            [game, round(factor * n), n, instance, method, 4.0 * error]
            for (game, n, factor, instance, method), error in errors.items()
        ],
        columns=["game", "budget", "n", "instance", "method", "value"],
    )
    given = {
        "scale": 4.0,
        "reference_error": np.nan,
        "covered": np.nan,
        "seconds": 1.0,
        "repetition": 0,
    }
    return rows.assign(**given | columns)


def test_ratios_are_of_geometric_means_to_the_best_in_hindsight():
    """LeverageSHAP wins one instance and KernelSHAP the other; KernelSHAP's mean is the least."""
    errors = {}
    for instance, (ours, leverage, kernel) in enumerate([(1.0, 1.0, 2.0), (4.0, 16.0, 2.0)]):
        for method, error in {
            "oddgp": ours,
            "leverageshap": leverage,
            "kernelshap": kernel,
        }.items():
            errors["adult-data-valuation-x-10", 10, 10, instance, method] = error
    rows = suite.relative_errors(frame(errors))
    assert suite.ratios_to_best(rows)["oddgp"].item() == pytest.approx(1.0)
    assert suite.ratios_to_best(rows, ("leverageshap",))["oddgp"].item() == pytest.approx(0.5)


def test_instances_without_our_rows_do_not_count_and_incomplete_methods_neither():
    name = "adult-data-valuation-x-10"
    errors = {(name, 10, 10, 2, method): e for method, e in (("oddgp", 1.0), ("kernelshap", 2.0))}
    errors[name, 10, 10, 7, "kernelshap"] = 1e-9
    rows = suite.relative_errors(frame(errors))
    assert suite.ratios_to_best(rows)["oddgp"].item() == pytest.approx(0.5)
    errors[name, 10, 10, 3, "oddgp"] = 1.0  # on which KernelSHAP failed
    assert suite.ratios_to_best(suite.relative_errors(frame(errors))).empty


def test_errors_below_rounding_and_below_a_references_own_error_are_not_told_apart():
    errors = {("digits-network-64", 64, 10, 0, "oddgp"): 1e-30}
    assert suite.relative_errors(frame(errors))["error"].item() == games.FLOOR
    referred = suite.relative_errors(frame(errors, reference_error=0.04))
    assert referred["error"].item() == pytest.approx(0.1)


def good_errors():
    """Return errors that meet every bar: a tenth of the best of five, everywhere."""
    peers = dict.fromkeys(suite.BEST_OF, 1.0)
    domains = ("adult-data-valuation-x-14", "bike-global-explanation-x-14", "estate-tabpfn")
    return {
        (game, 14, factor, 0, method): error
        for game in domains
        for factor in (3, 4, 6, 10, 30, 100)
        for method, error in {**peers, "oddgp": 0.1, "oddshap": 0.1}.items()
    }


def judged(errors, **columns):
    """Return whether bars are met, by their text."""
    rows = frame(errors, covered=0.9, **columns)
    return {bar.text: bar.met for bar in suite.bars(rows)}, suite.met(rows)


def test_bars_are_met_by_a_tenth_of_the_best_of_five():
    found, met = judged(good_errors())
    assert met
    assert all(verdict is not False for verdict in found.values())
    assert sum(verdict is None for verdict in found.values()) == 4  # the sparse games


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        (("oddgp", 10, "adult", 40.0), "OddGP over the best of five, 10 n"),
        (("oddgp", 4, "bike", 1.6), "OddGP over the best of five, worst domain"),
        (("oddshap", 3, "adult", 300.0), "OddSHAP over the best of five, 3 n"),
        (("oddshap", 30, "adult", 1.3), "OddSHAP over shapiq's OddSHAP, worst domain"),
        (
            ("oddshap", 6, "estate", 1.5),
            "OddSHAP over the best of five, TabPFN, 3 n to 10 n, worst",
        ),
    ],
)
def test_a_single_bad_family_misses_its_bar(change, missed):
    method, factor, part, error = change
    errors = good_errors()
    for key in errors:
        if key[4] == method and key[2] == factor and key[0].startswith(part):
            errors[key] = error
    found, met = judged(errors)
    assert found[missed] is False
    assert not met


def test_coverage_is_judged_by_domain_without_exact_recoveries():
    errors = good_errors()
    rows = frame(errors, covered=0.9)
    low = rows["game"].str.startswith("bike") & (rows["method"] == "oddgp")
    rows.loc[low, "covered"] = 0.7
    bars = {bar.text: bar for bar in suite.bars(rows)}
    lowest = bars["OddGP's 90 % intervals cover, lowest domain"]
    assert (lowest.where, lowest.met) == ("global explanation", False)
    rows.loc[low, "value"] = 1e-20
    bars = {bar.text: bar for bar in suite.bars(rows)}
    assert bars["OddGP's 90 % intervals cover, lowest domain"].met


def test_check_needs_something_to_judge():
    rows = frame({("adult-data-valuation-x-14", 14, 5, 0, "oddgp"): 1.0})
    assert not suite.met(rows)


def sparse_errors(ours):
    """Return errors on sparse games; shapiq's OddSHAP is at 0.1 but for noise, LeverageSHAP at 1."""
    rng = np.random.default_rng(0)
    return {
        ("sparse-triples-20", 20, 2.1, instance, method): error * np.exp(0.5 * rng.normal())
        for instance in range(20)
        for method, error in (("oddshap", ours), ("shapiq-oddshap", 0.1), ("leverageshap", 1.0))
    }


@pytest.mark.parametrize(
    ("ours", "quantile", "excess"), [(0.1, True, True), (0.3, True, False), (2.0, False, False)]
)
def test_sparse_games_are_judged_by_quantile_and_noise(ours, quantile, excess):
    bars = {bar.text: bar.met for bar in suite.bars(frame(sparse_errors(ours)))}
    assert bars["OddSHAP, sparse games at 2n - 2 to 2n + 6, 90 % quantile of the error"] is quantile
    text = "OddSHAP there over the better of OddSHAP and LeverageSHAP, in standard errors"
    assert bars[text] is excess


def test_a_family_without_untouched_instances_is_named(tables, tmp_path, capsys):
    write_table(tmp_path / "single-unsupervised-7.npz", 5, instances=1)
    command = ["suite", "--tables", str(tables), "--games", "bike*", "--split", "untouched"]
    command += ["--table", str(tmp_path / "single-unsupervised-7.npz"), "--methods", "oddgp"]
    assert command_line.main([*command, "--output", str(tmp_path / "out")]) == 0
    expected = "single-unsupervised-7: none of its instances is asked for (it has 1)"
    assert expected in capsys.readouterr().out
    assert set(pd.read_csv(tmp_path / "out" / "results.csv")["instance"]) == {2}


def test_chosen_coalitions_are_judged_beside_drawn_ones_and_shapleig():
    name = "adult-data-valuation-x-10"
    errors = {
        (name, 10, factor, 2, method): error
        for factor in (3, 10)
        for method, error in (
            ("oddgp", 0.2),
            ("oddgp-paired", 0.4),
            ("kernelshap", 2.0),
            ("shapleig", 1.0),
        )
    }
    rows = frame(errors)
    bars = {bar.text: bar for bar in active.bars(rows)}
    assert bars["OddGP over the best of five, 3 n"].value == pytest.approx(0.1)
    paired = "OddGP over OddGP with design='paired', shapiq's games, 10 n and above"
    assert bars[paired].value == pytest.approx(0.5)
    assert bars["OddGP over ShaplEIG, error, 3 n, 5 n and 8 n"].value == pytest.approx(0.2)
    assert bars["OddGP over ShaplEIG, seconds, 3 n, 5 n and 8 n"].met is False  # as long as it
    assert bars["OddGP over the best of five, TabPFN, 3 n to 10 n"].met is None
    assert not active.met(rows)


def test_active_writes_designs_beside_each_other(tables, tmp_path, capsys):
    command = ["active", "--tables", str(tables), "--games", "adult-*", "--split", "all"]
    command += ["--methods", "oddgp,oddgp-paired,kernelshap,shapleig", "--budgets-per-player", "3"]
    command += ["--instances", "1", "--output", str(tmp_path)]
    assert command_line.main(command) == 0
    page = (tmp_path / "README.md").read_text()
    assert "oddgp-paired" in page
    assert (tmp_path / "active.png").exists()
