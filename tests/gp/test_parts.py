"""Every part of the kernel against enumeration: a new one joins by its line in CASES."""

import numpy as np
import pytest

from shapiq_oddshap.fourier import subsets
from shapiq_oddshap.gp.kernel import Kernel
from shapiq_oddshap.gp.parts import (
    EVEN_PARTS,
    PARTS,
    SIZE_PARTS,
    ChangingInteractions,
    Constant,
    Hints,
    MainEffects,
    PairEffects,
    Product,
    Terms,
    Unanimity,
)
from tests.gp.enumeration import COALITIONS, INTERACTIONS, ODD, SHAPLEY, N, X

_RATES = np.random.default_rng(1).uniform(0.02, 0.9, N)
_TRIPLES = ODD[ODD.sum(axis=1) >= 3][[1, 5, 18]]
_ANY = COALITIONS[[1, 6, 13, 31, 40]]  # of orders one to five
CASES = [
    MainEffects(0.7),
    Product(0.5, _RATES),
    Product(0.5, _RATES, parity="even"),
    Product(0.5, _RATES, parity="both"),
    Terms(0.3, _TRIPLES, np.array([0.2, 0.7, 0.1])),
    Terms(0.3, _ANY, np.array([0.2, 0.3, 0.1, 0.3, 0.1]), parity="both"),
    Constant(0.4, parity="even"),
    PairEffects(0.4, parity="even"),
    ChangingInteractions(0.6, _RATES),
    Unanimity(0.6, _RATES),
    Unanimity(0.6, _RATES, parity="even"),
    *[
        kind(0.6, parity=parity)
        for kind in SIZE_PARTS
        if kind not in {ChangingInteractions, Unanimity}
        for parity in kind.parities
    ],
]


@pytest.fixture(params=CASES, ids=[f"{type(part).__name__}-{part.parity}" for part in CASES])
def part(request):
    return request.param


def test_every_part_has_a_case():
    assert {type(part) for part in CASES} >= {*PARTS, *EVEN_PARTS, *SIZE_PARTS}


def test_kernel_functions_have_the_parity_and_their_matrix_is_a_covariance(part):
    matrix = part.variance * part.matrix(X, X)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-14)
    if part.parity != "both":
        sign = -1.0 if part.parity == "odd" else 1.0
        opposite = part.variance * part.matrix(-X, X)
        np.testing.assert_allclose(opposite, sign * matrix, atol=1e-13)
    assert np.linalg.eigvalsh(matrix).min() > -1e-12


def test_total_variance_bounds_that_at_a_coalition(part):
    diagonal = np.diag(part.variance * part.matrix(X, X))
    assert diagonal.max() <= part.total_variance * (1 + 1e-12)
    if part.independent_terms:
        np.testing.assert_allclose(diagonal, part.total_variance)


def test_blocks_and_single_precision_agree_with_the_matrix(part):
    expected = part.variance * part.matrix(X, X[:9])
    out = np.zeros((len(X), 9))
    add = part.between(X, X[:9])
    for start in range(0, len(X), 10):
        rows = slice(start, min(start + 10, len(X)))
        add(out[rows, 2:], rows, slice(2, 9))
    np.testing.assert_allclose(out[:, 2:], expected[:, 2:], rtol=1e-12, atol=1e-14)
    single = np.zeros((len(X), len(X)), np.float32)
    x = X.astype(np.float32)
    part.between(x, x)(single, slice(None), slice(None))
    np.testing.assert_allclose(single, part.variance * part.matrix(X, X), atol=2e-6)


def test_functionals_are_the_shapley_values_of_kernel_functions(part):
    out = np.zeros((9, N))
    part.add_functionals(out, X[:9])
    columns = part.variance * part.matrix(X, X[:9])
    np.testing.assert_allclose(out, columns.T @ SHAPLEY, atol=1e-13)


def test_prior_variances_are_those_of_the_functional(part):
    out = np.zeros(N)
    part.add_prior_variances(out)
    covariance = SHAPLEY.T @ (part.variance * part.matrix(X, X)) @ SHAPLEY
    np.testing.assert_allclose(out, np.diag(covariance), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("order", [2, 3])
def test_interactions_are_those_of_kernel_functions(part, order):
    players = subsets(N, order)
    expected = (part.variance * part.matrix(X, X[1:10])).T @ INTERACTIONS[order]
    out = np.zeros(expected.shape)
    part.add_interactions(out, X[1:10], players)
    np.testing.assert_allclose(out, expected, atol=1e-13)
    few = np.zeros((9, 5))
    part.add_interactions(few, X[1:10], tuple(each[[0, 2, 3, 9, 14]] for each in players))
    np.testing.assert_allclose(few, expected[:, [0, 2, 3, 9, 14]], atol=1e-13)
    weights, means = np.random.default_rng(0).normal(size=9), np.zeros(len(players[0]))
    part.add_interaction_means(means, X[1:10], weights, players)
    np.testing.assert_allclose(means, weights @ expected, atol=1e-12)


@pytest.mark.parametrize("order", [2, 3])
def test_prior_variances_of_interactions_are_those_of_the_functional(part, order):
    out = np.zeros((N,) * order)
    part.add_interaction_variances(out)
    exact = INTERACTIONS[order]
    covariance = exact.T @ (part.variance * part.matrix(X, X)) @ exact
    np.testing.assert_allclose(out[subsets(N, order)], np.diag(covariance), rtol=1e-10, atol=1e-12)


def test_term_variances_are_the_coefficients_variances(part):
    """Where there are any: beta_T is the mean of f chi_T over all coalitions."""
    if not part.independent_terms:
        assert not part.term_variances(COALITIONS).any()
        return
    characters = np.array([X[:, term].prod(axis=1) for term in COALITIONS]) / len(COALITIONS)
    expected = np.diag(characters @ (part.variance * part.matrix(X, X)) @ characters.T)
    np.testing.assert_allclose(part.term_variances(COALITIONS), expected, rtol=1e-9, atol=1e-15)


def test_part_on_the_rows_of_a_search(part, monkeypatch):
    """The matrix at other hyperparameters, and the gradient by differences; in one block or several."""
    monkeypatch.setattr("shapiq_oddshap.gp.parts.base._BLOCK", 8)
    x, rng = X[1:20], np.random.default_rng(2)
    weights = rng.normal(size=(19, 19))
    weights = weights + weights.T
    rows = part.on(x)

    def value(log_variance, log_shape):
        matrix = np.zeros((19, 19))
        rows.add(matrix, np.exp(log_variance), np.exp(log_shape))
        lower = np.tril(matrix)
        return lower + np.tril(lower, -1).T

    variance, shape = 0.4, 1.3 * part.shape
    other = part.tuned(variance, shape)
    at = value(np.log(variance), np.log(shape))
    np.testing.assert_allclose(at, variance * other.matrix(x, x), rtol=1e-12, atol=1e-14)
    # a triangle that holds both halves, as the search gives it
    triangle = np.tril(weights) * (2.0 - np.eye(19))
    by_variance, by_shape = rows.gradient(triangle, variance, shape)
    step = 1e-6
    moved = [value(np.log(variance) + s * step, np.log(shape)) for s in (1, -1)]
    assert by_variance == pytest.approx(np.vdot(weights, moved[0] - moved[1]) / (2 * step))
    for k, unit in enumerate(np.eye(len(shape))):
        moved = [value(np.log(variance), np.log(shape) + s * step * unit) for s in (1, -1)]
        expected = np.vdot(weights, moved[0] - moved[1]) / (2 * step)
        assert by_shape[k] == pytest.approx(expected, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("kind", [*PARTS, *SIZE_PARTS, *EVEN_PARTS[:2]])
def test_start_lies_within_the_bounds_whatever_the_proxy_says(kind):
    for hints in (Hints.none(N), Hints(np.arange(float(N)), _TRIPLES, np.array([1.0, -2.0, 0.5]))):
        part = kind.start(hints)
        assert kind.bounds[0] < part.variance < kind.bounds[1]
        assert ((kind.shape_bounds[0] < part.shape) & (part.shape < kind.shape_bounds[1])).all()


@pytest.mark.parametrize("kind", [Product, Unanimity])
def test_products_do_not_overflow_with_many_players(kind):
    n = 1500
    part = kind(1.0, np.full(n, 1.9))
    x = np.where(np.random.default_rng(0).random((5, n)) < 0.5, -1.0, 1.0)
    x[0] = -1.0
    assert part.matrix(x, x)[0, 0] == pytest.approx(1.0)
    functionals, variances = np.zeros((5, n)), np.zeros(n)
    part.add_functionals(functionals, x)
    part.add_prior_variances(variances)
    assert np.isfinite(functionals).all()
    assert np.isfinite(variances).all()


@pytest.mark.parametrize(("parity", "sign"), [("odd", -1.0), ("even", 1.0)])
def test_unanimity_is_a_half_of_sums_of_unanimity_games(parity, sign):
    """Each with the product of its players' growths as variance; divided by the grand coalition's."""
    z = (X < 0).astype(float)
    unanimity = (z @ COALITIONS.T == COALITIONS.sum(axis=1)).astype(float)
    whole = unanimity * np.prod(np.where(COALITIONS, np.expm1(_RATES), 1.0), axis=1) @ unanimity.T
    half = (whole + sign * whole[::-1] + sign * whole[:, ::-1] + whole[::-1, ::-1]) / 4.0
    np.testing.assert_array_equal(X[::-1], -X)
    matrix = Unanimity(0.6, _RATES, parity=parity).matrix(X, X)
    np.testing.assert_allclose(matrix, half / half.max(), atol=1e-13)


def test_variances_of_triples_by_their_players():
    part = Product(0.5, _RATES)
    triples = np.array([[0, 1, 2], [1, 3, 5]])
    rows = np.zeros((2, N), dtype=bool)
    np.put_along_axis(rows, triples, values=True, axis=1)
    np.testing.assert_allclose(part.variances_by_players(triples), part.term_variances(rows))


def test_interactions_that_change_with_the_size_are_stable_with_many_players():
    """Where the covariance of sizes is one they are the product part's, by another way."""
    n = 60
    rng = np.random.default_rng(3)
    x = np.where(rng.random((4, n)) < 0.5, -1.0, 1.0)

    class Same(ChangingInteractions):
        def covariance(self, n):
            return np.ones((n + 1, n + 1))

    for rates in (rng.uniform(1e-4, 2.0, n), np.full(n, 1e-4), np.full(n, 2.0)):
        found, expected = np.zeros((2, 4, n))
        Same(0.7, rates).add_functionals(found, x)
        Product(0.7, rates).add_functionals(expected, x)
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
        found, expected = np.zeros((2, n))
        Same(0.7, rates).add_prior_variances(found)
        Product(0.7, rates).add_prior_variances(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        players = tuple(each[::40] for each in subsets(n, 3))
        found, expected = np.zeros((2, 4, len(players[0])))
        Same(0.7, rates).add_interactions(found, x, players)
        Product(0.7, rates).add_interactions(expected, x, players)
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
        found, expected = np.zeros((2, n, n, n))
        Same(0.7, rates).add_interaction_variances(found)
        Product(0.7, rates).add_interaction_variances(expected)
        np.testing.assert_allclose(found[players], expected[players], rtol=1e-6)


def test_parts_that_would_take_too_long_are_left_out():
    kernel = Kernel.start(Hints.none(200), SIZE_PARTS)
    assert ChangingInteractions not in {type(part) for part in kernel.parts}
    assert len(kernel.parts) == len(SIZE_PARTS) - 1


@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1e160, 1e300])
def test_terms_start_alike_in_all_units(unit):
    scores = np.array([0.5, -0.25, 0.1])
    found, scaled = (
        Terms.start(Hints(np.ones(N), _TRIPLES, scores * factor)) for factor in (1.0, unit)
    )
    np.testing.assert_allclose(scaled.relative, found.relative, rtol=1e-12)
