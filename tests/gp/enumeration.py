"""Slow twins: the process over all set functions of few players, by enumeration."""

from itertools import combinations, product

import numpy as np

from shapiq_oddshap.gp import Hints, Pairs, fit_odd_gp
from shapiq_oddshap.gp.kernel import Kernel
from shapiq_oddshap.gp.parts import MainEffects, Product, Terms
from shapiq_oddshap.gp.signs import characters, signs
from tests.helpers import interactions_by_definition, shapley_by_definition

N = 6
COALITIONS = np.array(list(product([False, True], repeat=N)))
X = signs(COALITIONS)
ODD = COALITIONS[COALITIONS.sum(axis=1) % 2 == 1]
CHARACTERS = characters(X, ODD)


def _matrix(definition, *arguments):
    """index = values @ matrix for the values of all coalitions in the order of COALITIONS."""
    bits = 1 << np.arange(N)[::-1]
    columns = [
        definition(lambda rows, e=e: e[rows @ bits], N, *arguments) for e in np.eye(len(COALITIONS))
    ]
    return np.array(columns)


SHAPLEY = _matrix(shapley_by_definition)
INTERACTIONS = {order: _matrix(interactions_by_definition, order) for order in (2, 3)}


def make_kernel():
    rng = np.random.default_rng(0)
    terms = ODD[ODD.sum(axis=1) >= 3][[1, 5, 18]]
    rates = rng.uniform(0.02, 0.9, N)
    parts = (MainEffects(0.7), Product(0.5, rates), Terms.of(terms, rng.random(3)))
    return Kernel(N, parts, 1e-2)


def coefficient_variances(kernel):
    """Prior variance of every odd term, by the definition and not by the package's formula."""
    main, smooth, explicit = (kernel.find(kind) for kind in (MainEffects, Product, Terms))
    a = smooth.rates
    constant = smooth.variance / np.sinh(a.sum()) * np.prod(np.cosh(a))
    variances = constant * np.array([np.prod(np.tanh(a)[term]) for term in ODD])
    variances[ODD.sum(axis=1) == 1] += main.variance / N
    for term, variance in zip(explicit.terms, explicit.variances, strict=True):
        variances[(term == ODD).all(axis=1)] += variance
    return variances


def half_of_pairs():
    """One member of each pair, without (empty, grand)."""
    rows = COALITIONS[~COALITIONS[:, -1]]
    return rows[rows.any(axis=1)]


def random_game(n, rng, orders=(1, 3)):
    """A function of the coalitions with random odd terms, and its Shapley values."""
    terms = [t for r in orders for t in combinations(range(n), r)]
    beta = np.array([rng.normal() / len(t) ** 2 for t in terms])
    rows = np.array([[i in t for i in range(n)] for t in terms])
    phi = -2.0 * (beta / rows.sum(axis=1)) @ rows
    return (lambda coalitions: characters(signs(coalitions), rows) @ beta), phi


def draw_pairs(n, count, rng):
    seen = {}
    while len(seen) < count:
        row = np.zeros(n, bool)
        row[rng.choice(n, rng.integers(1, n), replace=False)] = True
        row = row if not row[-1] else ~row
        seen.setdefault(row.tobytes(), row)
    return np.array([row for row in seen.values() if row.any()])


def fit(coalitions, values, total, seed=0, recipe=None):
    n = coalitions.shape[1]
    pairs = Pairs(coalitions, values, total)
    return fit_odd_gp(pairs, Hints.none(n), np.random.default_rng(seed), recipe)
