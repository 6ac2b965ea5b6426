"""The ablation variants against each other and against their definitions."""

import numpy as np
import pytest

from shapiq_oddshap import (
    GivenTerms,
    OddSHAP,
    PairedAllSHAP,
    ProxySPEX,
    UnpairedAllSHAP,
    UnpairedOddSHAP,
)
from tests.helpers import fourier_game, phi_of, random_game, shapley_by_definition, smooth_game

ABLATIONS = [PairedAllSHAP, UnpairedOddSHAP, UnpairedAllSHAP]
ODD = [(0, 1, 2), (3, 4, 5), (1, 5, 8), (2, 3, 4, 6, 7)]
EVEN = [(0, 1), (4, 7), (1, 2, 3, 4), (0, 2, 5, 8)]


@pytest.mark.parametrize("size_effects", ["none", "always"])
@pytest.mark.parametrize("seed", range(5))
def test_even_terms_leave_paired_estimates_alone(seed, size_effects):
    """Theorem 3.2: with the same odd terms, paired-all and paired-odd are one estimator."""
    game, own = random_game(9, seed), {"size_effects": size_effects, "random_state": seed}
    odd = OddSHAP(9, screener=GivenTerms(ODD), **own)
    both = PairedAllSHAP(9, screener=GivenTerms(EVEN + ODD), **own)
    for budget in (60, 150, 400):
        expected = phi_of(odd.approximate(budget, game))
        np.testing.assert_allclose(phi_of(both.approximate(budget, game)), expected, atol=1e-9)


def test_even_terms_do_matter_unpaired():
    game = random_game(9)
    odd = UnpairedAllSHAP(9, screener=GivenTerms(ODD), random_state=0)
    both = UnpairedAllSHAP(9, screener=GivenTerms(EVEN + ODD), random_state=0)
    difference = phi_of(odd.approximate(150, game)) - phi_of(both.approximate(150, game))
    assert np.abs(difference).max() > 1e-3


@pytest.mark.parametrize("cls", ABLATIONS)
@pytest.mark.parametrize("screener", ["proxyspex", "none", "random", "spex"])
def test_exact_at_full_budget_and_efficient_at_any(cls, screener):
    game = random_game(6, seed=1)
    instance = cls(6, screener=screener, random_state=0)
    exact = shapley_by_definition(game, 6)
    np.testing.assert_allclose(phi_of(instance.approximate(64, game)), exact, atol=1e-10)
    for budget in (2, 5, 14, 33, 63):
        total = game.values[-1] - game.values[0]
        assert phi_of(instance.approximate(budget, game)).sum() == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("cls", [PairedAllSHAP, UnpairedAllSHAP])
def test_both_parities_share_the_places(cls):
    game = random_game(9)
    values, diagnostics = cls(9, random_state=0).approximate_with_diagnostics(400, game)
    assert diagnostics.n_terms == 40
    assert diagnostics.evaluations == values.estimation_budget == 400


@pytest.mark.parametrize(("cls", "exact"), [(UnpairedAllSHAP, True), (UnpairedOddSHAP, False)])
def test_unpaired_samples_need_the_even_terms(cls, exact):
    """A game of known terms: exact where both parities are modelled, noisy where one is not."""
    game = fourier_game([*EVEN, *ODD], np.linspace(1, 2, 8))
    expected = np.zeros(9)
    for term, beta in zip(ODD, np.linspace(1, 2, 8)[4:], strict=True):
        expected[list(term)] -= 2 * beta / len(term)
    instance = cls(9, screener=GivenTerms(EVEN + ODD), random_state=0)
    error = np.abs(phi_of(instance.approximate(100, game)) - expected).max()
    assert (error < 1e-9) == exact


def test_samples_are_unpaired():
    seen = []

    def game(coalitions):
        seen.append(coalitions.copy())
        return coalitions.sum(axis=1)

    UnpairedOddSHAP(20, sizes="paper", random_state=0).approximate(200, game)
    rows = {row.tobytes() for row in np.concatenate(seen)}
    assert len(rows) == 200
    assert sum((~row).tobytes() in rows for row in np.concatenate(seen)) < 30


def test_options_reach_the_variants():
    instance = PairedAllSHAP(8, screener=ProxySPEX({"max_depth": 3}), max_interactions=2)
    _, diagnostics = instance.approximate_with_diagnostics(150, smooth_game(8))
    assert diagnostics.n_terms == 10
