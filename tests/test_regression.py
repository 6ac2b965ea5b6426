import numpy as np
import pytest

from shapiq_oddshap import regression
from shapiq_oddshap import sample as sample_module
from shapiq_oddshap.fourier import shapley_values, singletons
from shapiq_oddshap.regression import (
    _RIDGES,
    _Design,
    constrained_least_squares,
    fit_terms,
    leave_one_out_error,
    main_effects,
    ridge_with_sizes,
    size_columns,
)
from shapiq_oddshap.sample import Sample
from shapiq_oddshap.sampling import (
    PairedCoalitionSampler,
    UnpairedCoalitionSampler,
    row_weights,
)
from tests.helpers import all_coalitions, random_game


def dense_twin(terms, coalitions, targets, weights, constraints, totals):
    """Null space of the constraints, then numpy's least squares on the whole design."""
    design = np.array([np.prod(1.0 - 2.0 * coalitions[:, term], axis=1) for term in terms]).T
    _, _, right = np.linalg.svd(constraints)
    free = right[len(constraints) :].T
    start = np.linalg.lstsq(constraints, totals, rcond=None)[0]
    root = np.sqrt(weights)[:, None]
    step = np.linalg.lstsq(
        root * design @ free, root[:, 0] * (targets - design @ start), rcond=None
    )[0]
    return start + free @ step


def problem(n, rows, n_terms, seed=0, groups=1):
    rng = np.random.default_rng(seed)
    coalitions = rng.random((rows, n)) < 0.5
    everything = all_coalitions(n)[1:]
    terms = everything[rng.permutation(len(everything))[:n_terms]]
    constraints = np.eye(groups)[np.arange(n_terms) % groups].T
    return (
        terms,
        coalitions,
        rng.normal(size=rows),
        rng.random(rows) + 0.1,
        constraints,
        rng.normal(size=groups),
    )


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("rows", "n_terms", "solver"),
    [(200, 40, "cholesky"), (20, 60, "lstsq"), (41, 40, None), (0, 7, "lstsq"), (1, 5, "lstsq")],
)
def test_against_the_dense_twin(rows, n_terms, solver, groups):
    arguments = problem(9, rows, n_terms, groups=groups)
    fit = constrained_least_squares(*arguments)
    np.testing.assert_allclose(fit.coefficients, dense_twin(*arguments), atol=1e-8)
    assert solver in (None, fit.solver)
    np.testing.assert_allclose(arguments[4] @ fit.coefficients, arguments[5], atol=1e-12)


def test_rank_deficient_designs_take_the_rank_revealing_solve():
    terms, coalitions, targets, weights, constraints, totals = problem(9, 30, 20)
    coalitions = np.tile(coalitions[:10], (30, 1))
    arguments = (
        terms,
        coalitions,
        np.tile(targets[:10], 30),
        np.tile(weights[:10], 30),
        constraints,
        totals,
    )
    fit = constrained_least_squares(*arguments)
    assert fit.solver == "lstsq"
    np.testing.assert_allclose(fit.coefficients, dense_twin(*arguments), atol=1e-7)


def test_a_known_corner_changes_nothing(monkeypatch):
    n = 9
    sampler = PairedCoalitionSampler(n, random_state=0)
    sampler.sample(200)
    coalitions = sampler.coalitions_matrix
    values = np.random.default_rng(0).normal(size=len(coalitions))
    sample = Sample(coalitions, values, row_weights(sampler))
    rows = sample.component("odd")
    whole = rows.singletons_gram
    signs = 1.0 - 2.0 * rows.coalitions
    np.testing.assert_allclose(whole, signs.T @ (signs * rows.weights[:, None]), atol=1e-12)
    interactions = all_coalitions(n)[all_coalitions(n).sum(axis=1) == 3][:30]
    arguments = (
        np.concatenate([np.eye(n, dtype=bool), interactions]),
        *(rows.coalitions, rows.targets, rows.weights),
    )
    slow = _Design(*arguments[:3], arguments[3] ** 0.5).normal_equations()
    fast = _Design(*arguments[:3], arguments[3] ** 0.5).normal_equations(whole)
    for found, expected in zip(fast, slow, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-10)
    linear = dense_twin(
        np.eye(n, dtype=bool), *arguments[1:4], np.ones((1, n)), np.array([-sample.total / 2])
    )
    np.testing.assert_allclose(main_effects(sample), (1.0 - 2.0 * coalitions) @ linear, atol=1e-10)
    monkeypatch.setattr(sample_module, "BLOCK", 16)
    in_blocks = Sample(coalitions, values, sample.weights).component("odd").singletons_gram
    np.testing.assert_allclose(in_blocks, whole, atol=1e-10)


def test_blocks_change_nothing(monkeypatch):
    arguments = problem(10, 1000, 60)
    whole = constrained_least_squares(*arguments)
    monkeypatch.setattr(regression, "BLOCK", 64)
    blocks = constrained_least_squares(*arguments)
    np.testing.assert_allclose(blocks.coefficients, whole.coefficients, atol=1e-10)
    monkeypatch.setattr(regression, "_WORST_CONDITION", 0.0)
    triangular = constrained_least_squares(*arguments)
    assert triangular.solver == "lstsq"
    np.testing.assert_allclose(triangular.coefficients, whole.coefficients, atol=1e-10)


@pytest.mark.parametrize("rows", [5, 6, 7, 8, 9, 40])
def test_leave_one_out_by_leaving_one_out(rows):
    n, rng = 8, np.random.default_rng(rows)
    coalitions = rng.random((rows, n)) < 0.5
    targets, weights, total = rng.normal(size=rows), rng.random(rows) + 0.1, 0.3
    singles, one = np.eye(n, dtype=bool), np.ones((1, n))
    errors, informative = np.zeros(rows), np.ones(rows, dtype=bool)
    whole = np.linalg.matrix_rank(np.vstack([one, 1.0 - 2.0 * coalitions]))
    for left in range(rows):
        kept = np.arange(rows) != left
        beta = dense_twin(
            singles, coalitions[kept], targets[kept], weights[kept], one, np.array([total])
        )
        errors[left] = targets[left] - (1.0 - 2.0 * coalitions[left]) @ beta
        rank = np.linalg.matrix_rank(np.vstack([one, 1.0 - 2.0 * coalitions[kept]]))
        informative[left] = rank == whole or whole == rows + 1
    expected = np.sum((weights * errors**2)[informative]) / max(
        np.sum(weights[informative]), 1e-300
    )
    found = leave_one_out_error(coalitions, targets, weights, total)
    if informative.any():
        assert found == pytest.approx(expected)
    else:
        assert found == np.inf


def test_leave_one_out_without_rows():
    assert leave_one_out_error(np.zeros((0, 4), bool), np.zeros(0), np.zeros(0), 1.0) == np.inf


def drawn_sample(game, n, budget, kind=PairedCoalitionSampler):
    sampler = kind(n, random_state=0)
    sampler.sample(budget)
    coalitions = sampler.coalitions_matrix
    return Sample(coalitions, game(coalitions), row_weights(sampler))


def by_size(coalitions, residuals, n):
    """RegressionMSR's estimate of the residuals' Shapley values, one size and player at a time."""
    phi = np.zeros(n)
    sizes = coalitions.sum(axis=1)
    for size in np.unique(sizes):
        here, rest = coalitions[sizes == size], residuals[sizes == size]
        for player in range(n):
            phi[player] += np.mean(rest * np.where(here[:, player], 1 / size, -1 / (n - size)))
    return phi


@pytest.mark.parametrize(
    ("parity", "kind"),
    [
        ("odd", PairedCoalitionSampler),
        ("odd", UnpairedCoalitionSampler),
        ("both", PairedCoalitionSampler),
        ("both", UnpairedCoalitionSampler),
    ],
)
def test_size_effects_against_the_dense_twin(parity, kind):
    """Weighted least squares on all columns at once, then what is left over, then efficiency."""
    n = 9
    sample = drawn_sample(random_game(n), n, 300, kind)
    orders = all_coalitions(n).sum(axis=1)
    extra = all_coalitions(n)[orders == 3][::9]
    if parity == "both":
        extra = np.concatenate([extra, all_coalitions(n)[orders == 2][::5]])
    fit = fit_terms(sample, np.concatenate([singletons(n), extra]), parity, "always")
    if parity == "odd":
        rows = sample.component("odd")
        coalitions, targets, weights = rows.coalitions, rows.targets, rows.weights
    else:
        coalitions, weights = sample.coalitions[2:], sample.weights[2:]
        targets = sample.values[2:] - sample.empty_value
    columns = size_columns(coalitions, parity)
    assert fit.size_columns == len(columns) == (2 if parity == "odd" else 4)
    design = np.array([np.prod(1.0 - 2.0 * coalitions[:, t], axis=1) for t in fit.terms])
    design = np.concatenate([design, columns]).T
    root = np.sqrt(np.sqrt(weights))
    beta = np.linalg.lstsq(design * root[:, None], targets * root, rcond=None)[0]
    left = targets - design @ beta
    if parity == "odd":
        same = sample.coalitions[2:, 0] == coalitions[rows.members, 0]
        left = np.where(same, 1.0, -1.0) * left[rows.members]
    phi = shapley_values(beta[: len(fit.terms)], fit.terms)
    phi = phi + by_size(sample.coalitions[2:], left, n)
    phi = phi + (sample.total - phi.sum()) / n
    np.testing.assert_allclose(shapley_values(fit.coefficients, fit.terms), phi, atol=1e-9)


@pytest.mark.parametrize("parity", ["odd", "both"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 9])
def test_size_columns_are_functions_of_the_size_that_singletons_do_not_span(n, parity):
    inner = all_coalitions(n)[1:-1]
    sizes = inner.sum(axis=1)
    columns = size_columns(inner, parity)
    odd, even = max((n - 1) // 2 - 1, 0), max(n // 2 - 1, 0)
    assert len(columns) == min(odd, 2) + (min(even, 2) if parity == "both" else 0)
    for column in columns:
        assert np.mean(column**2) == pytest.approx(1)
        for size in range(1, n):
            assert np.ptp(column[sizes == size]) < 1e-9
    known = [*(1.0 - 2.0 * inner.T), *([np.ones(len(inner))] if parity == "both" and n > 2 else [])]
    if n > 2:
        everything = np.array([*known, *columns])
        assert np.linalg.matrix_rank(everything) == len(everything)


def test_size_columns_of_one_size_are_none():
    assert len(size_columns(np.eye(8, dtype=bool), "both")) == 0


def learning_curve(coalitions):
    """A jump at the empty coalition, then diminishing returns, and two main effects."""
    sizes = coalitions.sum(axis=1)
    curve = np.where(sizes == 0, 0.0, 0.9 - 0.2 / np.maximum(sizes, 1))
    return curve + 0.01 * coalitions[:, 0] - 0.02 * coalitions[:, 3]


def test_functions_of_the_size_are_seen_through():
    n = 12
    exact = np.full(n, (learning_curve(np.ones((1, n), dtype=bool))[0] + 0.01) / n)
    exact[[0, 3]] += [0.01, -0.02]
    sample = drawn_sample(learning_curve, n, 200)
    error = {}
    for size_effects in ("auto", "always", "none"):
        fit = fit_terms(sample, singletons(n), "odd", size_effects)
        error[size_effects] = np.abs(shapley_values(fit.coefficients, fit.terms) - exact).max()
    assert error["always"] < 1e-9
    assert error["auto"] < 1e-9
    assert error["none"] > 1e-4


def test_auto_takes_the_smaller_cross_validated_error():
    """Columns where they help, the constraint where it does."""
    n = 12
    rng = np.random.default_rng(0)
    noise = {}

    def noisy(game):
        def values(coalitions):
            keys = [row.tobytes() for row in coalitions]
            for key in keys:
                noise.setdefault(key, rng.normal())
            return game(coalitions) + 0.02 * np.array([noise[key] for key in keys])

        return values

    curve = fit_terms(drawn_sample(noisy(learning_curve), n, 200), singletons(n), "odd", "auto")
    assert curve.size_columns == 2
    sample = drawn_sample(noisy(lambda c: c @ np.arange(n) / 10), n, 400)
    fits = [fit_terms(sample, singletons(n), "odd", each) for each in ("auto", "always")]
    assert fits[0].error <= fits[1].error


@pytest.mark.parametrize("budget", [22, 24, 26, 60])
def test_ridge_by_leaving_one_out(budget):
    n = 12
    sample = drawn_sample(random_game(n), n, budget)
    rows = sample.component("odd")
    columns = size_columns(rows.coalitions, "odd")
    design = np.concatenate([1.0 - 2.0 * rows.coalitions, columns.T], axis=1)
    count = len(design)

    def solved(kept, ridge):
        gram = design[kept].T @ design[kept] + ridge * count * np.eye(design.shape[1])
        return np.linalg.solve(gram, design[kept].T @ rows.targets[kept])

    errors = {
        ridge: np.mean(
            [
                (rows.targets[i] - design[i] @ solved(np.arange(count) != i, ridge)) ** 2
                for i in range(count)
            ]
        )
        for ridge in _RIDGES
    }
    best = min(errors, key=errors.get)
    fit = ridge_with_sizes(sample)
    assert fit.error == pytest.approx(errors[best])
    beta = solved(np.arange(count) >= 0, best)
    left = rows.targets - design @ beta
    same = sample.coalitions[2:, 0] == rows.coalitions[rows.members, 0]
    left = np.where(same, 1.0, -1.0) * left[rows.members]
    phi = -2 * beta[:n] + by_size(sample.coalitions[2:], left, n)
    phi = phi + (sample.total - phi.sum()) / n
    np.testing.assert_allclose(shapley_values(fit.coefficients, fit.terms), phi, atol=1e-9)
