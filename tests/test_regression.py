import numpy as np
import pytest

from shapiq_oddshap import regression
from shapiq_oddshap import sample as sample_module
from shapiq_oddshap.regression import (
    constrained_least_squares,
    leave_one_out_error,
    main_effects,
)
from shapiq_oddshap.sample import Sample
from shapiq_oddshap.sampling import PairedCoalitionSampler, row_weights
from tests.helpers import all_coalitions


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
        np.ones((1, n + 30)),
        np.array([-sample.total / 2]),
    )
    slow = constrained_least_squares(*arguments)
    fast = constrained_least_squares(*arguments, corner=whole)
    np.testing.assert_allclose(fast.coefficients, slow.coefficients, atol=1e-10)
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
