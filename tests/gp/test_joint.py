"""Several outputs: one evidence, one factor, and kernels of their own where the evidence asks."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from shapiq_oddshap import OddGP
from shapiq_oddshap.gp import Hints, OddGPRecipe, Pairs, SearchOptions, fit_odd_gp, pooled
from shapiq_oddshap.gp.evidence import Evidence, search_alone, search_hyperparameters
from shapiq_oddshap.gp.joint import fit_outputs
from shapiq_oddshap.gp.kernel import Kernel
from shapiq_oddshap.gp.observations import Observations
from shapiq_oddshap.gp.posterior import Posterior
from shapiq_oddshap.sampling import distinct_rows
from tests.helpers import phi_of, smooth_game


def observed(outputs, m=30, n=6, seed=0):
    rng = np.random.default_rng(seed)
    coalitions = rng.random((m, n)) < 0.5
    one = Observations.of(coalitions, np.zeros(m), 0.0)
    return Observations(one.x, rng.normal(size=(m + 1, outputs)))


@pytest.mark.parametrize("outputs", [2, 5, 31, 100])
def test_the_joint_evidence_is_the_sum_of_single_ones(outputs):
    data = observed(outputs)
    kernel = Kernel.start(Hints.none(6))
    joint = Evidence(kernel, data)
    theta = joint.start + 0.1
    value, gradient = joint(theta)
    single = [Evidence(kernel, Observations(data.x, column))(theta) for column in data.targets.T]
    assert value == pytest.approx(sum(v for v, _ in single), rel=1e-10)
    np.testing.assert_allclose(gradient, sum(g for _, g in single), rtol=1e-8, atol=1e-8)


def test_the_penalised_gradient_is_that_of_the_value():
    evidence, options = Evidence(Kernel.start(Hints.none(6)), observed(4)), SearchOptions()
    theta, step = evidence.start + 0.1, 1e-5
    sides = [
        [evidence.penalised(theta + side * step * row, options)[0] for side in (1, -1)]
        for row in np.eye(len(theta))
    ]
    slopes = -np.diff(sides)[:, 0] / (2 * step)
    np.testing.assert_allclose(slopes, evidence.penalised(theta, options)[1], rtol=1e-4, atol=1e-3)


def test_equal_outputs_are_worth_one():
    data = observed(1)
    kernel, options = Kernel.start(Hints.none(6)), SearchOptions()
    single = Evidence(kernel, Observations(data.x, data.targets[:, 0]))
    many = Evidence(kernel, Observations(data.x, np.repeat(data.targets, 7, axis=1)))
    value, gradient = many.penalised(many.start, options)
    expected = single.penalised(single.start, options)
    assert value == pytest.approx(expected[0], rel=1e-10)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-8)


def test_an_output_keeps_the_joint_kernel_unless_the_evidence_gains(monkeypatch):
    data = observed(4, m=40)
    options = SearchOptions()
    joint = search_hyperparameters([Kernel.start(Hints.none(6))], data, options)
    column = Observations(data.x, data.targets[:, 0])
    assert search_alone(joint, column, replace(options, least_gain=10.0)) is joint
    # the slope alone rules that out, and nothing is searched
    with monkeypatch.context() as patch:
        patch.delattr("shapiq_oddshap.gp.evidence.minimize")
        assert search_alone(joint, column, replace(options, least_gain=1e6)) is joint
    own = search_alone(joint, column, replace(options, least_gain=0.0, own_precision=1e-6))
    evidence = Evidence(joint, column)
    assert evidence(Evidence(own, column).start)[0] < evidence(evidence.start)[0]


def test_without_noise_an_output_goes_further_from_the_joint_kernel():
    data, options = observed(3, m=40), replace(SearchOptions(), least_gain=0.0)
    joint = search_hyperparameters([Kernel.start(Hints.none(6))], data, options)
    column = Observations(data.x, data.targets[:, 0])
    start, gone = Evidence(joint, column).start, []
    for little in (joint.noise / 2, joint.noise):
        own = search_alone(joint, column, replace(options, little_noise=little))
        gone.append(np.linalg.norm(Evidence(own, column).start - start))
    assert gone[0] < gone[1]


def test_a_factor_serves_other_targets():
    data = observed(2)
    first, second = (Observations(data.x, column) for column in data.targets.T)
    kernel = Kernel.start(Hints.none(6))
    shared, alone = Posterior.of(kernel, first), Posterior.of(kernel, second)
    shared.shapley_variances()
    other = shared.with_data(second)
    np.testing.assert_array_equal(other.alpha, alone.alpha)
    np.testing.assert_array_equal(other.shapley_values(), alone.shapley_values())
    np.testing.assert_array_equal(other.shapley_variances(), alone.shapley_variances())
    np.testing.assert_array_equal(other.precisions, alone.precisions)


def test_hints_are_pooled_by_their_squares():
    terms = np.array([[1, 1, 1, 0], [0, 1, 1, 1]], dtype=bool)
    one = Hints(np.array([1.0, 0, 0, 0]), terms, np.array([3.0, 1.0]))
    other = Hints(np.array([0.0, 1, 0, 0]), terms[:1], np.array([4.0]))
    both = pooled([one, other], 2)
    np.testing.assert_array_equal(both.importance, [0.5, 0.5, 0, 0])
    np.testing.assert_array_equal(both.terms, terms)
    np.testing.assert_allclose(both.scores, [5.0, 1.0])
    assert len(pooled([one, other], 1).terms) == 1
    assert len(pooled([Hints.none(4)] * 2, 3).terms) == 0


def test_outputs_that_are_alike_teach_each_other():
    n, budget, rows = 12, 60, 8
    base = smooth_game(n, seed=5)
    others = [smooth_game(n, seed=seed) for seed in range(20, 20 + rows)]
    games = [lambda c, other=o: np.tanh(base(c)) + 0.2 * np.tanh(other(c)) for o in others]
    errors = []
    for seed in range(2):
        # on the same coalitions: alone, every output would choose its own
        gp = OddGP(n, design="paired", random_state=seed)
        joint = gp.estimate_outputs(budget, lambda c: np.stack([g(c) for g in games], axis=1))
        for game, estimate in zip(games, joint, strict=True):
            exact = phi_of(gp.approximate(2**n, game))
            alone = phi_of(gp.approximate(budget, game))
            errors.append([np.mean((phi - exact) ** 2) for phi in (phi_of(estimate.values), alone)])
    joint_error, alone_error = np.exp(np.mean(np.log(errors), axis=0))
    assert joint_error < alone_error


def test_noise_free_outputs_get_terms_of_their_own():
    n, budget = 12, 400
    games = [smooth_game(n, seed=seed) for seed in range(3)]
    estimates = OddGP(n, random_state=0).estimate_outputs(
        budget, lambda c: np.stack([g(c) for g in games], axis=1)
    )
    for game, estimate in zip(games, estimates, strict=True):
        exact = phi_of(OddGP(n).approximate(2**n, game))
        np.testing.assert_allclose(phi_of(estimate.values), exact, atol=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_of_few_outputs_those_without_noise_need_no_teacher(noise):
    """They have the bits of a fit alone, the others those of a search together."""
    n, m, rng = 9, 40, np.random.default_rng(0)
    coalitions = distinct_rows(rng.random((m, n)) < 0.5)
    x = np.where(coalitions, 1.0, -1.0)
    terms = x @ rng.normal(size=(n, 2)) + (x[:, :1] * x[:, 1:2] * x[:, 2:3]) * [1.0, -1.0]
    targets = terms + noise * rng.normal(size=terms.shape)
    pairs = [Pairs(coalitions, column, 1.0) for column in targets.T]
    hints = [Hints.none(n)] * 2

    def together(few):
        options = OddGPRecipe(few_outputs=few), lambda _stage: nullcontext(), [None] * 2
        return list(fit_outputs(pairs, hints, 1, np.random.default_rng(0), *options))

    if noise:
        expected = together(1)
    else:
        expected = [fit_odd_gp(each, hints[0], np.random.default_rng(0)) for each in pairs]
        assert not np.array_equal(together(1)[0].values, expected[0].values)
    for fit, other in zip(together(2), expected, strict=True):
        np.testing.assert_array_equal(fit.values, other.values)
        np.testing.assert_array_equal(fit.variances, other.variances)


@pytest.mark.parametrize("others", [1, 5])
def test_outputs_that_have_nothing_in_common_do_not_hinder_each_other(others):
    """A smooth one beside noise, few of them or many: the joint maximum is all noise."""
    n, budget, ratios = 10, 40, []
    for seed in range(6):
        smooth, rng = smooth_game(n, seed=seed), np.random.default_rng(seed)
        noise = rng.normal(size=(2**n, others))

        def game(coalitions, smooth=smooth, noise=noise):
            return np.column_stack([smooth(coalitions), noise[coalitions @ 2 ** np.arange(n)]])

        gp = OddGP(n, design="paired", random_state=seed)
        exact = phi_of(gp.approximate(2**n, smooth))
        both = gp.estimate_outputs(budget, game)[0].values, gp.approximate(budget, smooth)
        errors = [np.mean((phi_of(values) - exact) ** 2) for values in both]
        ratios.append(np.log(errors[0] / errors[1]))
    assert np.mean(ratios) < np.log(2)


def test_many_outputs_are_screened_by_their_principal_components():
    n, budget, k = 9, 80, 60
    mix = np.random.default_rng(0).normal(size=(4, k))
    games = [smooth_game(n, seed=seed) for seed in range(4)]
    recipe = OddGPRecipe(search=SearchOptions(own_iterations=0))
    values = OddGP(n, recipe=recipe, random_state=0).estimate_outputs(
        budget, lambda c: np.tanh(np.stack([g(c) for g in games], axis=1) @ mix)
    )
    exact = OddGP(n).estimate_outputs(
        2**n, lambda c: np.tanh(np.stack([g(c) for g in games], axis=1) @ mix)
    )
    found = np.array([phi_of(estimate.values) for estimate in values])
    true = np.array([phi_of(estimate.values) for estimate in exact])
    widths = np.sqrt([estimate.variances for estimate in values])
    assert np.mean(np.abs(found - true) <= 1.6449 * widths) > 0.85


def test_the_budget_grows_until_all_outputs_are_known():
    n, games = 10, [smooth_game(10, seed=seed) for seed in (0, 1)]
    asked = []

    def game(coalitions):
        asked.extend(map(bytes, coalitions))
        return np.stack([np.tanh(0.3 * g(coalitions)) for g in games], axis=1)

    found = OddGP(n, random_state=0).estimate_outputs_until(0.02, 800, game)
    spent = found[0].diagnostics.evaluations
    assert len(asked) == len(set(asked)) == spent < 800
    widest = 1.6448536 * np.sqrt(np.max([estimate.variances for estimate in found]))
    assert widest <= 0.02
    with pytest.raises(ValueError, match="target_error=0"):
        OddGP(n).estimate_outputs_until(0, 800, game)
