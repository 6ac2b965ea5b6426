"""The correction on the residuals and what is claimed for the variances."""

from math import comb
from types import SimpleNamespace

import numpy as np
import pytest

from shapiq_oddshap.gp.correction import Strata, msr_correction, msr_variances
from shapiq_oddshap.gp.intervals import calibrated_variances, sampling_variances
from shapiq_oddshap.gp.kernel import Kernel
from shapiq_oddshap.gp.parts import Hints, Terms
from tests.gp.enumeration import COALITIONS, SHAPLEY, N, draw_pairs, half_of_pairs


def test_correction_at_all_coalitions_is_the_shapley_value():
    rows = half_of_pairs()
    values = np.random.default_rng(3).normal(size=len(COALITIONS))
    values[[0, -1]] = 0.0
    where = {row.tobytes(): value for row, value in zip(COALITIONS, values, strict=True)}
    odd = np.array([where[row.tobytes()] - where[(~row).tobytes()] for row in rows]) / 2
    strata = Strata.of(rows)
    np.testing.assert_allclose(msr_correction(rows, odd, strata), values @ SHAPLEY, atol=1e-12)
    assert not msr_variances(rows, odd, strata).any()


def test_correction_is_unbiased_and_its_variance_is_claimed_right():
    rng = np.random.default_rng(4)
    rows = half_of_pairs()
    values = rng.normal(size=len(rows))
    exact = msr_correction(rows, values, Strata.of(rows))
    small = np.minimum(rows.sum(axis=1), N - rows.sum(axis=1))
    estimates, claims = [], []
    for _ in range(4000):
        drawn = np.concatenate(
            [
                rng.choice(np.flatnonzero(small == s), k, replace=False)
                for s, k in [(1, 4), (2, 8), (3, 6)]
            ]
        )
        strata = Strata.of(rows[drawn])
        estimates.append(msr_correction(rows[drawn], values[drawn], strata))
        claims.append(msr_variances(rows[drawn], values[drawn], strata))
    error = np.std(estimates, axis=0) / 4000**0.5
    assert (np.abs(np.mean(estimates, axis=0) - exact) < 5 * error).all()
    ratio = np.mean(claims, axis=0) / np.var(estimates, axis=0)
    # second moments about zero are too large, divisors of finite populations too small
    assert (ratio > 0.85).all()
    assert (ratio < 1.6).all()


def test_sampling_variances_hold_for_a_player_whom_no_small_coalition_holds():
    rows = half_of_pairs()
    errors = np.random.default_rng(7).normal(size=len(rows))
    small = np.minimum(rows.sum(axis=1), N - rows.sum(axis=1))
    alone = (small == 1) & (rows[:, 0] == (rows.sum(axis=1) == 1))  # the pair ({0}, the others)
    drawn = ~alone & (np.arange(len(rows)) % 5 > 0)
    strata = Strata.of(rows[drawn])
    weights = np.where(2 * strata.sizes == N, 1.0, 2.0) / strata.drawn
    # the mean over the members of a size, of what one of them adds
    share = strata.sizes / N
    squares = share / strata.sizes**2 + (1 - share) / (N - strata.sizes) ** 2
    terms = errors[drawn] ** 2 * strata.unseen * weights**2 * squares
    claimed = sampling_variances(rows[drawn], errors[drawn], strata)
    given = msr_variances(rows[drawn], errors[drawn], strata)
    freedom = terms.sum() ** 2 / (terms**2).sum()
    scale = freedom / max(freedom - 2, freedom / 2)
    np.testing.assert_allclose(claimed, scale * (terms.sum() + given) / 2)
    assert claimed[0] > 2 * given[0]
    assert not sampling_variances(rows, errors, Strata.of(rows)).any()


@pytest.mark.parametrize("noise", [0.0, 0.4, 1e6])
@pytest.mark.parametrize("picked", [False, True])
def test_variances_against_equation_17_written_out(noise, picked):
    """Where the pairs have picked terms, no less than the sampling variance is claimed."""
    n, rng = 5, np.random.default_rng(3)
    rows = draw_pairs(n, 9, rng)
    m = len(rows)
    residuals, posterior = rng.normal(size=m), rng.random(n) + 0.1
    alpha, precisions = rng.normal(size=m + 1), rng.random(m + 1) + 0.5
    process = SimpleNamespace(
        alpha=alpha,
        precisions=precisions[1:],
        shapley_variances=lambda: posterior,
        kernel=Kernel.start(Hints.none(n), (Terms,) if picked else ()).with_noise(noise),
    )
    found = calibrated_variances(
        process, residuals, coalitions=rows, sub=np.arange(m), hyperparameters=2
    )
    share = min(noise * precisions[1:].mean(), 1.0)
    drawn = np.bincount(np.minimum(rows.sum(axis=1), n - rows.sum(axis=1)), minlength=n)
    as_drawn, expected = np.zeros(n), []
    for row, a, c in zip(rows, alpha[1:], precisions[1:], strict=True):
        size = int(row.sum())
        k = drawn[min(size, n - size)]
        term = (a / c) ** 2 * (1 - k / comb(n, size)) ** (2 - share) * (2 / k) ** 2
        as_drawn += term * np.where(row, 1 / size**2, 1 / (n - size) ** 2)
        expected.append(term / (size * (n - size)))
    freedom = sum(expected) ** 2 / sum(e**2 for e in expected)
    sampling = freedom / max(freedom - 2, freedom / 2) * (as_drawn + sum(expected)) / 2
    misfit = max(np.mean(alpha[1:] ** 2) / precisions[1:].mean(), 1.0)
    blend = (1 - share) * misfit * posterior + share * sampling
    expected = np.maximum(blend, sampling) if picked else blend
    np.testing.assert_allclose(found, m / (m - 2) * expected)
