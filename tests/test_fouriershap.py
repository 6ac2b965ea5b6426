"""FourierSHAP: exact recovery, the budget, and the transform's manners."""

import logging

import numpy as np
import pytest

from shapiq_oddshap import FourierSHAP, OddSHAP
from shapiq_oddshap.approximators.fouriershap import required_budget
from shapiq_oddshap.screening.sparse import HashedDesign, recover
from tests.helpers import fourier_game, phi_of, random_game, smooth_game


def sparse_game(n, count, seed):
    """Random terms of any order, with coefficients that no hash makes cancel."""
    rng = np.random.default_rng(seed)
    terms = np.unique(rng.random((count, n)) < 0.3, axis=0)
    coefficients = rng.normal(size=len(terms))
    phi = np.zeros(n)
    for term, beta in zip(terms, coefficients, strict=True):
        phi[term] -= 2 * beta / max(term.sum(), 1) * (term.sum() % 2)
    return fourier_game([np.flatnonzero(term) for term in terms], coefficients), terms, phi


@pytest.mark.parametrize(("n", "count", "bits"), [(12, 8, 4), (30, 20, 6), (70, 25, 6)])
@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e12])
def test_few_terms_are_recovered_exactly(n, count, bits, scale):
    game, _, phi = sparse_game(n, count, seed=n)
    budget = required_budget(n, bits, 5)
    values = FourierSHAP(n, random_state=0).approximate(budget, lambda c: scale * game(c))
    np.testing.assert_allclose(phi_of(values) / scale, phi, atol=1e-10)


def test_recovered_terms_are_the_games():
    game, terms, _ = sparse_game(20, 10, seed=3)
    design = HashedDesign.draw(20, 5, 5, np.random.default_rng(0))
    coalitions = design.coalitions()
    values = game(coalitions.reshape(-1, 20)).reshape(coalitions.shape[:3])
    found, coefficients = recover(design, values, strict=True)
    assert {row.tobytes() for row in found} == {row.tobytes() for row in terms}
    np.testing.assert_allclose(fourier_value(found, coefficients), game(np.eye(20, dtype=bool)))


def fourier_value(terms, coefficients):
    """The recovered function at the single players."""
    return (1.0 - 2.0 * terms.T) @ coefficients


def test_design_is_hashes_and_shifts():
    design = HashedDesign.draw(6, 3, 2, np.random.default_rng(0))
    coalitions = design.coalitions()
    assert coalitions.shape == (2, 7, 8, 6)
    for hashes, block in zip(design.hashes, coalitions, strict=True):
        bases = {tuple((hashes @ bits) % 2) for bits in np.ndindex(2, 2, 2)}
        assert {tuple(row) for row in block[0].astype(int)} == bases
        for player, shift in enumerate(np.eye(6, dtype=bool)):
            np.testing.assert_array_equal(block[player + 1], block[0] ^ shift)


@pytest.mark.parametrize("rounds", [1, 3, 5])
def test_the_largest_number_of_bins_that_fits(rounds):
    n = 12
    for budget in (200, 700, 1500, 4000):
        if budget < required_budget(n, 1, rounds):
            continue
        game = random_game(n)
        instance = FourierSHAP(n, rounds=rounds, random_state=0)
        _, diagnostics = instance.approximate_with_diagnostics(budget, game)
        bits = int(diagnostics.details["bits"])
        bounds = [required_budget(n, b, rounds) for b in (bits, bits + 1)]
        assert bounds[0] <= budget < bounds[1]
        assert len(game.asked) == len(set(game.asked)) <= bounds[0]


def test_dense_games_get_more_than_nothing():
    """Smooth, so that the main effects stand out of their bins."""
    main = np.random.default_rng(0).normal(size=16)
    game = lambda c: np.tanh(c @ main)  # noqa: E731
    values = FourierSHAP(16, random_state=0).approximate(10_000, game)
    assert np.corrcoef(phi_of(values), main)[0, 1] > 0.8


@pytest.mark.parametrize(
    ("rounds", "error"), [(0, ValueError), (2.5, TypeError), (None, TypeError)]
)
def test_rounds_are_checked(rounds, error):
    with pytest.raises(error, match="Received rounds="):
        FourierSHAP(5, rounds=rounds)


def test_a_smaller_budget_is_refused_by_number():
    with pytest.raises(ValueError, match=r"budget=106.*at least 107"):
        FourierSHAP(10).approximate(106, lambda c: c.sum(axis=1))


def test_logging_is_left_as_it_was(monkeypatch):
    """The transform calls ``logging.info``, which would configure the root logger."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    FourierSHAP(10, random_state=0).approximate(300, random_game(10))
    assert root.handlers == []


@pytest.mark.parametrize("seed", range(3))
def test_a_transform_that_diverges_is_replaced_with_a_warning(seed):
    """300 evaluations of 16 players are two bins a round: errors of a thousand times the values."""
    game = smooth_game(16)
    exact = phi_of(OddSHAP(16).approximate(2**16, game))
    with pytest.warns(UserWarning, match="diverged.*budget of"):
        values, diagnostics = FourierSHAP(16, random_state=seed).approximate_with_diagnostics(
            300, game
        )
    assert diagnostics.path == "linear"
    assert np.sum((phi_of(values) - exact) ** 2) < 0.2 * np.sum(exact**2)


@pytest.mark.parametrize("unit", [2.0**-900, 2.0**900])
def test_a_transform_that_diverges_does_so_in_all_units(unit):
    """Squares of huge or tiny values would leave the range of a double."""
    game = smooth_game(16)
    with pytest.warns(UserWarning, match="diverged"):
        values = FourierSHAP(16, random_state=0).approximate(300, game)
    with pytest.warns(UserWarning, match="diverged"):
        scaled = FourierSHAP(16, random_state=0).approximate(300, lambda c: unit * game(c))
    np.testing.assert_allclose(phi_of(scaled) / unit, phi_of(values))
