import warnings
from importlib.metadata import version

import numpy as np
import pytest
import shapiq
from shapiq.approximator.sampling import CoalitionSampler

from shapiq_oddshap import OddSHAP, PairedCoalitionSampler, Screener
from shapiq_oddshap.sample import Component
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
    ours = OddSHAP(n, screener=Given(higher), sampler=seeded_sampler(n), low_budget="linear")
    np.testing.assert_allclose(phi_of(ours.approximate(budget, game)), expected, atol=1e-8)


@needs_shapiq_1_6
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

    ours = OddSHAP(n, screener="none", sampler=Fixed(n))
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


def test_low_budget_auto_takes_the_smaller_error():
    n = 14

    def tree(coalitions):
        return np.where(coalitions[:, 0] & coalitions[:, 1], 3.0 * coalitions[:, 2] - 1.0, 0.0)

    for game, path in ((lambda c: c @ np.arange(n), "linear"), (tree, "proxy")):
        _, diagnostics = OddSHAP(n, random_state=0).approximate_with_diagnostics(130, game)
        assert diagnostics.path == path
        errors = diagnostics.details
        assert (errors["linear_error"] <= errors["proxy_error"]) == (path == "linear")


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
        {"screener": "proxyspx"},
        {"sampler": PairedCoalitionSampler(9)},
        {"proxy_params": {"max_dept": 3}},
    ],
)
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="Received"):
        OddSHAP(5, **wrong)


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
    weights = np.random.default_rng(0).normal(size=3000)
    values, diagnostics = OddSHAP(n=3000, random_state=0).approximate_with_diagnostics(
        60, lambda coalitions: np.array([weights[row].sum() for row in coalitions])
    )
    assert diagnostics.path == "linear"
    assert phi_of(values).sum() == pytest.approx(weights.sum())
