import subprocess
import sys
import tracemalloc
import warnings
from importlib.metadata import version

import numpy as np
import pytest
import shapiq
from shapiq.approximator.sampling import CoalitionSampler

import shapiq_oddshap
from shapiq_oddshap import (
    OddGP,
    OddSHAP,
    PairedAllSHAP,
    PairedCoalitionSampler,
    Screener,
    UnpairedAllSHAP,
    UnpairedOddSHAP,
    trees,
)
from shapiq_oddshap.fourier import shapley_values
from shapiq_oddshap.regression import fit_terms
from shapiq_oddshap.sample import Component, Sample
from shapiq_oddshap.sampling import size_weights
from shapiq_oddshap.screening import SPEX, ProxySPEX, TermUnion
from tests.helpers import SHARED_DATA, fourier_game, phi_of, random_game, smooth_game

SHAPIQ = tuple(int(part) for part in version("shapiq").split(".")[:2])
needs_shapiq_1_6 = pytest.mark.skipif(SHAPIQ < (1, 6), reason="shapiq's own OddSHAP came with 1.6")


class Given(Screener):
    name = "given here"

    def __init__(self, terms):
        self.terms = terms

    def screen(self, sample, max_terms, rng, *, parity):
        return self.terms


def uniform_sampler(n):
    mass = np.ones(n + 1)
    mass[[0, n]] = 0
    return CoalitionSampler(n, mass, pairing_trick=True)


class Seeded(CoalitionSampler):
    """shapiq's sampler with a seed of its own, whatever the approximator's."""

    def set_random_state(self, random_state=None):
        super().set_random_state(3)


def seeded_sampler(n):
    mass = np.ones(n + 1)
    mass[[0, n]] = 0
    return Seeded(n, mass, pairing_trick=True)


@needs_shapiq_1_6
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("n", "budget"), [(8, 120), (10, 333), (14, 1000), (20, 801)])
def test_same_support_and_coalitions_as_shapiqs_oddshap(n, budget):
    game = smooth_game(n)
    theirs = shapiq.OddSHAP(n=n, random_state=3)
    expected = phi_of(theirs.approximate(budget, game))
    support = theirs.odd_interaction_matrix_binary[1:]
    higher = support[support.sum(axis=1) > 1]
    ours = OddSHAP(
        n,
        screener=Given(higher),
        sampler=seeded_sampler(n),
        low_budget="linear",
        size_effects="none",
    )
    np.testing.assert_allclose(phi_of(ours.approximate(budget, game)), expected, atol=1e-8)


@pytest.mark.skipif(
    not hasattr(shapiq.approximator, "LeverageSHAP"), reason="shapiq's LeverageSHAP came with 1.7"
)
@pytest.mark.parametrize(("n", "budget"), [(7, 60), (12, 400), (25, 200)])
def test_no_screener_on_the_same_coalitions_is_leverageshap(n, budget):
    game = random_game(n) if n < 20 else smooth_game(n)
    theirs = shapiq.approximator.LeverageSHAP(n=n, random_state=0)
    coalitions = {}

    def recording(rows):
        coalitions["rows"] = rows.copy()
        return game(rows)

    expected = phi_of(theirs.approximate(budget, recording))

    class Fixed(PairedCoalitionSampler):
        def sample(self, sampling_budget):
            self.fill(coalitions["rows"])

    ours = OddSHAP(n, screener="none", sampler=Fixed(n), size_effects="none")
    np.testing.assert_allclose(phi_of(ours.approximate(budget, game)), expected, atol=1e-8)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pairing", [True, False])
def test_shapiqs_sampler_gives_consistent_estimates(pairing):
    """Mean of many runs within its standard error of the exact values."""
    n = 8
    game = random_game(n, seed=5)
    exact = phi_of(OddSHAP(n).approximate(2**n, game))
    sampler = CoalitionSampler(n, np.ones(n + 1), pairing_trick=pairing)
    runs = np.array(
        [
            phi_of(
                OddSHAP(n, sampler=sampler, screener="none", random_state=seed).approximate(
                    150, game
                )
            )
            for seed in range(60)
        ]
    )
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    assert (np.abs(runs.mean(axis=0) - exact) < 5 * error + 0.02).all()


def test_sparse_games_are_recovered():
    terms = [(0,), (3,), (7,), (1, 4, 8), (2, 5, 9), (0, 3, 6, 7, 11)]
    coefficients = [1.0, -2.0, 0.5, 1.5, -1.0, 0.7]
    n = 12
    phi = np.zeros(n)
    for term, beta in zip(terms, coefficients, strict=True):
        phi[list(term)] -= 2 * beta / len(term)
    values, diagnostics = OddSHAP(n, random_state=0).approximate_with_diagnostics(
        1500, fourier_game(terms, coefficients)
    )
    np.testing.assert_allclose(phi_of(values), phi, atol=1e-9)
    assert diagnostics.path == "regression"
    assert diagnostics.solver == "cholesky"


@pytest.mark.parametrize("low_budget", ["proxy", "linear"])
def test_low_budget_paths_are_taken_as_asked(low_budget):
    _, diagnostics = OddSHAP(
        20, low_budget=low_budget, random_state=0
    ).approximate_with_diagnostics(150, smooth_game(20))
    assert diagnostics.path == low_budget


def test_low_budgets_are_averaged_by_the_errors_at_pairs_left_out():
    n = 14

    def tree(coalitions):
        return np.where(coalitions[:, 0] & coalitions[:, 1], 3.0 * coalitions[:, 2] - 1.0, 0.0)

    for game in (smooth_game(n), tree):
        _, diagnostics = OddSHAP(n, random_state=0).approximate_with_diagnostics(100, game)
        assert diagnostics.path == "average"
        details = diagnostics.details
        names = ("linear", "proxy", "process")
        errors = np.array([details[f"{name}_error"] ** 2 for name in names])
        # to three digits, so that rounding in the game is not seen in the weights
        shares = np.array([float(f"{share:.3g}") for share in errors.min() / errors])
        found = [details[f"{name}_weight"] for name in names]
        np.testing.assert_allclose(found, shares / shares.sum())
    assert details["linear_weight"] < 0.001  # it misses what the others recover


def test_between_the_factor_and_twenty_per_player_screened_terms_are_averaged_in():
    game = smooth_game(12)
    _, diagnostics = OddSHAP(12, random_state=0).approximate_with_diagnostics(200, game)
    assert diagnostics.path == "average"
    assert diagnostics.screener == "proxyspex"
    assert diagnostics.n_terms == 20
    assert diagnostics.details["regression_weight"] > 0
    _, enough = OddSHAP(12, random_state=0).approximate_with_diagnostics(240, game)
    assert enough.path == "regression"


@pytest.mark.parametrize("cls", [OddSHAP, PairedAllSHAP, UnpairedOddSHAP, UnpairedAllSHAP])
@pytest.mark.parametrize("low_budget", ["auto", "linear"])
def test_additive_games_are_exact_from_two_per_player_on(cls, low_budget):
    n, weights = 9, np.arange(9.0)
    for budget in (2 * n + 2, 2 * n + 6, 5 * n, 15 * n, 30 * n):
        run = cls(n, low_budget=low_budget, random_state=0)
        phi = phi_of(run.approximate(budget, lambda c: c @ weights - 3.0))
        np.testing.assert_allclose(phi, weights, atol=1e-8)


def test_near_two_evaluations_per_player_nothing_blows_up():
    """The 90 % quantile of the relative error, where a regression would interpolate."""
    n, errors = 20, []
    for budget in (2 * n - 2, 2 * n, 2 * n + 2):
        for seed in range(4):
            rng = np.random.default_rng(seed)
            main = rng.normal(size=n)
            triples = [rng.choice(n, 3, replace=False) for _ in range(12)]
            gains = 2 * rng.normal(size=12)

            def game(coalitions, main=main, triples=triples, gains=gains):
                joint = np.array([coalitions[:, triple].all(axis=1) for triple in triples])
                return coalitions @ main + gains @ joint

            exact = main.copy()
            for triple, gain in zip(triples, gains, strict=True):
                exact[triple] += gain / 3
            phi = phi_of(OddSHAP(n, random_state=seed).approximate(budget, game))
            errors.append(np.sum((phi - exact) ** 2) / np.sum(exact**2))
    assert np.quantile(errors, 0.9) <= 1


@pytest.mark.parametrize("size_effects", ["auto", "always"])
def test_games_with_a_learning_curve(size_effects):
    """A jump at the empty coalition and diminishing returns: everyone's share is the same."""
    n = 12

    def curve(coalitions):
        sizes = coalitions.sum(axis=1)
        return np.where(sizes == 0, 0.0, 0.9 - 0.2 / np.maximum(sizes, 1))

    exact = (0.9 - 0.2 / n) / n
    for budget in (60, 400):
        paper = OddSHAP.paper(n, random_state=0).approximate(budget, curve)
        ours = OddSHAP(n, size_effects=size_effects, random_state=0).approximate(budget, curve)
        assert (
            np.abs(phi_of(ours) - exact).max() < 0.05 * np.abs(phi_of(paper) - exact).max() + 1e-9
        )


def test_the_papers_algorithm_to_the_letter():
    """LightGBM on the values, the largest odd terms, the regression under its constraint."""
    n, budget = 12, 500
    game = random_game(n)
    paper = OddSHAP.paper(n, random_state=0)
    values, diagnostics = paper.approximate_with_diagnostics(budget, game)
    sampler = PairedCoalitionSampler(n, sizes="paper")
    rng = np.random.default_rng(0)
    sampler.set_random_state(int(rng.integers(2**63)))
    sampler.sample(budget)
    coalitions = sampler.coalitions_matrix
    sizes = np.bincount(coalitions.sum(axis=1))
    assert np.ptp(sizes[2 : n - 1]) <= 2
    data = game(coalitions)
    leaves = trees.fit_proxy(
        coalitions, data, {"use_quantized_grad": False}, int(rng.integers(2**31))
    )
    spectrum = trees.fourier_spectrum(leaves, odd_only=True)
    terms, _ = spectrum.largest(-(-budget // 10) - n, min_order=3)
    support = np.concatenate([np.eye(n, dtype=bool), terms])
    sample = Sample(coalitions, data, size_weights(coalitions))
    fit = fit_terms(sample, support, "odd")
    np.testing.assert_allclose(phi_of(values), shapley_values(fit.coefficients, support), atol=1e-9)
    assert diagnostics.n_terms == len(support) == 50
    assert (
        OddSHAP.paper(n, random_state=0).approximate_with_diagnostics(100, game)[1].path == "proxy"
    )


def test_options_reach_the_stages():
    game = smooth_game(12)
    _, many = OddSHAP(12, random_state=0, interaction_factor=5).approximate_with_diagnostics(
        1000, game
    )
    _, few = OddSHAP(12, random_state=0, max_interactions=7).approximate_with_diagnostics(
        1000, game
    )
    _, flat = OddSHAP(
        12, random_state=0, proxy_params={"max_depth": 1}
    ).approximate_with_diagnostics(1000, game)
    assert many.n_terms > 100
    assert few.n_terms == 12 + 7
    assert flat.n_terms == 12  # trees of depth one hold no interactions


@pytest.mark.parametrize(
    "wrong",
    [
        {"interaction_factor": 0.5},
        {"interaction_factor": float("nan")},
        {"max_interactions": -1},
        {"low_budget": "guess"},
        {"size_effects": "maybe"},
        {"sizes": "uniform"},
        {"sizes": "paper", "sampler": PairedCoalitionSampler(5)},
        {"screener": "proxyspx"},
        {"sampler": PairedCoalitionSampler(9)},
        {"proxy_params": {"max_dept": 3}},
        {"proxy_params": {"num_leaves": 1}},
        {"proxy_params": {"num_iterations": "many"}},
        {"proxy_params": {"objective": "poisson"}},
        {"proxy_params": {"monotone_constraints": [1, -1]}},
        {"proxy_params": {"linear_tree": True}},
        {"screener": ProxySPEX(params={"num_leaves": 1})},
        {"screener": TermUnion((SPEX(), TermUnion((ProxySPEX(params={"num_leaves": 1}),))))},
    ],
)
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="Received"):
        OddSHAP(5, **wrong)


def test_a_proxy_may_have_a_parameter_for_every_player():
    approximator = OddSHAP(5, proxy_params={"monotone_constraints": [1, 1, 1, 1, 0]})
    values = approximator.approximate(32, lambda coalitions: coalitions.sum(axis=1) * 1.0)
    assert values.get_n_order_values(1) == pytest.approx(np.ones(5))


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_interactions": 2.5},
        {"screener": 3},
        {"interaction_factor": "10"},
        {"interaction_factor": True},
        {"sampler": "paired"},
        {"proxy_params": "max_depth"},
    ],
)
def test_options_of_the_wrong_type_are_refused(wrong):
    with pytest.raises(TypeError, match="Received"):
        OddSHAP(5, **wrong)


@pytest.mark.parametrize(
    ("table", "budget"), [("vit16", 1705), ("distilbert14", 1440), ("estate_tabpfn15", 1722)]
)
def test_error_on_real_games_against_shapiqs_oddshap(table, budget):
    path = SHARED_DATA / "tables" / f"{table}.npz"
    if not path.exists():
        pytest.skip(f"the precomputed games {table}.npz are not on this machine")
    if SHAPIQ < (1, 6):
        pytest.skip("shapiq's own OddSHAP came with 1.6")
    data = np.load(path)
    n, bits = int(data["n_players"]), 1 << np.arange(int(data["n_players"]))
    ours, theirs = [], []
    for seed, (values, exact) in enumerate(
        zip(data["values"], data["shapley_values"], strict=True)
    ):
        for cls, errors in ((OddSHAP, ours), (shapiq.OddSHAP, theirs)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                estimate = cls(n=n, random_state=seed).approximate(
                    budget, lambda c, values=values: values[c.astype(int) @ bits]
                )
            errors.append(np.mean((phi_of(estimate) - exact) ** 2))
    assert np.mean(ours) <= 1.25 * np.mean(theirs)


def test_very_many_players_form_no_square_matrix(monkeypatch):
    """Where rows are too few for normal equations, their matrix is not summed either."""
    monkeypatch.setattr(Component, "singletons_gram", property(lambda self: pytest.fail("formed")))
    weights = np.random.default_rng(0).normal(size=1500)
    values = OddSHAP(n=1500, random_state=0).approximate(
        60, lambda coalitions: np.array([weights[row].sum() for row in coalitions])
    )
    assert phi_of(values).sum() == pytest.approx(weights.sum())


@pytest.mark.parametrize(
    ("option", "instead"), [("tree_params", "proxy_params"), ("sampling_weights", "sampler=")]
)
def test_options_of_shapiqs_oddshap_are_answered_with_ours(option, instead):
    with pytest.raises(TypeError, match=f"{option}.*{instead}"):
        OddSHAP(5, **{option: None})


@pytest.mark.parametrize("kind", [OddSHAP, OddGP])
def test_what_approximate_would_ignore_is_refused_before_evaluations(kind):
    game = random_game(5)
    with pytest.raises(TypeError, match="no option 'n_jobs'"):
        kind(5).approximate(20, game, n_jobs=2)
    assert not game.asked


def test_without_lightgbm_what_needs_none_works_and_the_rest_says_so_first():
    """In a process of its own, where LightGBM cannot be imported."""
    code = """
import sys
sys.modules["lightgbm"] = None
import shapiq_oddshap
asked = []
def game(coalitions):
    asked.extend(coalitions)
    return coalitions @ range(12)
for works in (
    shapiq_oddshap.FFDRD(12),
    shapiq_oddshap.FourierSHAP(12),
    shapiq_oddshap.OddSHAP(12, screener="none", low_budget="linear"),
):
    works.approximate(max(500, works.required_budget()), game)
asked.clear()
for kind in (shapiq_oddshap.OddSHAP, shapiq_oddshap.OddGP, shapiq_oddshap.OddSHAP.paper):
    try:
        kind(12).approximate(60, game)
    except ImportError as error:
        print(error)
print(len(asked))
"""
    lines = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(lines) == 4
    assert all("pip install lightgbm" in line for line in lines[:3])
    assert lines[3] == "0"


def test_every_name_of_the_explainers_is_public():
    assert shapiq_oddshap.APPROXIMATORS["oddshap"] is OddSHAP
    assert {cls.__name__ for cls in shapiq_oddshap.APPROXIMATORS.values()} <= set(
        shapiq_oddshap.__all__
    )


@pytest.mark.parametrize(
    ("kind", "options", "mebibytes"),
    [
        (OddSHAP, {"low_budget": "linear"}, 80),
        (UnpairedAllSHAP, {"low_budget": "linear"}, 80),
        (
            OddSHAP,
            {"proxy_params": {"num_iterations": 5}},
            400,
        ),  # mostly the sizes' prior variances, for the intervals
    ],
)
def test_memory_of_thousands_of_players_follows_what_is_drawn(kind, options, mebibytes):
    """The n x n singletons alone would be 95 MiB as bytes, and eight times as much as floats."""
    n, budget = 10_000, 200
    weights = np.random.default_rng(0).normal(size=n)
    estimator = kind(n, random_state=0, **options)
    tracemalloc.start()
    phi = phi_of(estimator.approximate(budget, lambda coalitions: coalitions @ weights))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert phi.sum() == pytest.approx(weights.sum())
    assert peak < mebibytes * 2**20
