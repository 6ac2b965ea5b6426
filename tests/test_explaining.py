"""Rows and classes by shapiq's explainers: the values they give themselves, and the bill."""

import joblib
import numpy as np
import pytest
import shapiq
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shapiq_oddshap import EvaluatedGame, OddGP, OddSHAP, RefitGame, explain
from tests.helpers import phi_of

N = 6


class CountingTabPFN:
    """A ridge regression that answers to TabPFN's interface and counts its fits."""

    def __init__(self):
        self.fits = self.predictions = 0

    def fit(self, data, labels):
        self.fits += 1
        self._weights = Ridge().fit(np.column_stack([data, data**2]), labels).coef_
        return self

    def predict(self, data):
        self.predictions += 1
        # a sum by row, whose rounding does not depend on the number of rows as a product's does
        columns = np.ascontiguousarray(np.column_stack([data, data**2]))
        return np.sin(np.sum(columns * self._weights, axis=1))


CountingTabPFN.__module__ = "tabpfn.regressor"
CountingTabPFN.__qualname__ = CountingTabPFN.__name__ = "TabPFNRegressor"


@pytest.fixture
def data():
    return np.random.default_rng(0).normal(size=(60, N))


@pytest.fixture
def tabpfn(data):
    """A TabPFN explainer with some approximator."""

    def made(approximator):
        labels = data @ np.arange(N) + data[:, 0] * data[:, 1]
        return shapiq.TabPFNExplainer(
            CountingTabPFN().fit(data, labels),
            data,
            labels,
            approximator=approximator,
            index="SV",
            max_order=1,
        )

    return made


def tabular(model, data, approximator, **options):
    return shapiq.TabularExplainer(
        model, data, approximator=approximator, index="SV", max_order=1, **options
    )


def wine():
    data, target = load_wine(return_X_y=True)
    data = data[:, :N]
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(data, target), data


def assert_same(estimate, values):
    np.testing.assert_array_equal(phi_of(estimate.values), phi_of(values))
    assert estimate.values.baseline_value == values.baseline_value
    assert estimate.values[()] == values[()]


@pytest.mark.parametrize("imputer", ["marginal", "baseline", "conditional"])
@pytest.mark.parametrize("approximator", [OddSHAP, OddGP])
def test_a_row_gets_the_values_of_the_explainer(data, imputer, approximator):
    explainer = tabular(
        lambda x: x[:, 0] * x[:, 1] + x[:, 2], data, approximator(N), imputer=imputer
    )
    expected = explainer.explain(data[3], budget=40, random_state=7)
    estimate = explain(explainer, data[3], 40, random_state=7)
    assert_same(estimate, expected)
    assert estimate.diagnostics.evaluations == 40
    assert (estimate.variances is None) == (approximator is OddSHAP)
    rows = explain(explainer, data[2:5], 40, random_state=7)
    assert len(rows) == 3
    assert_same(rows[1], expected)


def test_workers_give_the_serial_rows(data):
    explainer = tabular(lambda x: x[:, 0] * x[:, 1] + x[:, 2], data, OddSHAP(N))
    serial = explain(explainer, data[:4], 40, random_state=1)
    with joblib.parallel_config(backend="threading"):
        parallel = explain(explainer, data[:4], 40, random_state=1, n_jobs=2)
    for one, other in zip(serial, parallel, strict=True):
        assert_same(one, other.values)


def test_a_bar_shows_the_rows(data, capsys):
    explainer = tabular(lambda x: x[:, 0], data, OddSHAP(N, random_state=0))
    explain(explainer, data[:3], 20, progress=True)
    assert "3/3" in capsys.readouterr().err
    explain(explainer, data[:3], 20)
    assert capsys.readouterr().err == ""


def test_ten_rows_of_a_refitted_model_cost_the_fits_of_one(tabpfn, data):
    explainer, rows, budget = tabpfn(OddSHAP(N)), data[:10], 60
    expected = [explainer.explain(row, budget=budget, random_state=3) for row in rows]
    before = explainer.model.fits
    estimates = explain(explainer, rows, budget, random_state=3)
    assert explainer.model.fits - before == budget  # all but that of no features, and a last one
    for estimate, values in zip(estimates, expected, strict=True):
        assert_same(estimate, values)
    fitted_on_all = explainer.model.predict(data[:1])
    assert np.isfinite(fitted_on_all).all()


def test_one_row_of_a_refitted_model_is_the_explainers(tabpfn, data):
    explainer = tabpfn(OddGP(N))
    expected = explainer.explain(data[0], budget=40, random_state=2)
    assert_same(explain(explainer, data[0], 40, random_state=2), expected)
    (only,) = explain(explainer, data[:1], 40, random_state=2)
    assert_same(only, expected)


@pytest.mark.parametrize("imputer", ["marginal", "baseline", "conditional"])
def test_all_classes_get_what_each_gets_alone(imputer):
    model, data = wine()
    estimates = explain(
        tabular(model, data, OddSHAP(N), imputer=imputer, class_index=0),
        data[5],
        40,
        class_index="all",
        random_state=4,
    )
    assert len(estimates) == 3
    for each, estimate in enumerate(estimates):
        alone = tabular(model, data, OddSHAP(N), imputer=imputer, class_index=each)
        assert_same(estimate, alone.explain(data[5], budget=40, random_state=4))


def test_all_classes_take_the_model_calls_of_one():
    model, data = wine()
    calls = []

    def counted(x):
        calls.append(len(x))
        return model.predict_proba(x)

    explainer = tabular(counted, data, OddSHAP(N, random_state=4), class_index=0)
    calls.clear()
    explain(explainer, data[5], 40)
    one = len(calls)
    calls.clear()
    by_row = explain(explainer, data[5:7], 40, class_index="all")
    assert len(calls) == 2 * (one + 1)  # and the empty predictions of all classes
    assert [len(row) for row in by_row] == [3, 3]


def test_evaluated_imputers_explain_rows_and_classes():
    model, data = wine()
    options = {"class_index": 1, "random_state": 0}
    plain = tabular(model, data, OddSHAP(N, random_state=0), **options)
    evaluated = tabular(
        model,
        data,
        OddSHAP(N, random_state=0),
        imputer=EvaluatedGame(plain.imputer, batch_size=100),
        **options,
    )
    rows = explain(plain, data[3:5], 30)
    for one, other in zip(explain(evaluated, data[3:5], 30), rows, strict=True):
        np.testing.assert_allclose(phi_of(one.values), phi_of(other.values), atol=1e-12)
    classes = explain(evaluated, data[3], 30, class_index="all")
    np.testing.assert_allclose(phi_of(classes[1].values), phi_of(rows[0].values), atol=1e-12)


def test_agnostic_explainers(data):
    game = lambda c: np.stack([c[:, 0] + 2.0 * c[:, 1], c[:, 2] + 1.0], axis=1)  # noqa: E731
    options = {"n_players": N, "index": "SV", "max_order": 1}
    first = shapiq.AgnosticExplainer(
        lambda c: game(c)[:, 0], approximator=OddSHAP(N, random_state=0), **options
    )
    assert_same(explain(first, None, 40), first.explain(budget=40))
    both = shapiq.AgnosticExplainer(game, approximator=OddSHAP(N, random_state=0), **options)
    estimates = explain(both, None, 40, class_index="all")
    np.testing.assert_allclose(phi_of(estimates[1].values), np.eye(N)[2], atol=1e-9)
    with pytest.raises(ValueError, match="no rows"):
        explain(first, data[0], 40)


def test_what_cannot_be_explained_is_refused(data):
    theirs = tabular(lambda x: x[:, 0], data, shapiq.KernelSHAP(N))
    with pytest.raises(TypeError, match=r"KernelSHAP.*oddgp"):
        explain(theirs, data[0], 40)
    ours = tabular(lambda x: x[:, 0], data, OddSHAP(N))
    with pytest.raises(ValueError, match=r"class_index=1.*'all'"):
        explain(ours, data[0], 40, class_index=1)
    with pytest.raises(ValueError, match=r"shape \(1, 3\).*\(6,\)"):
        explain(ours, data[0, :3], 40)


def test_a_refitting_game_predicts_all_rows_of_one_fit(data):
    target = data @ np.arange(N)
    game = RefitGame(Ridge(alpha=1e-9), data, target, data[:10])
    coalitions = np.array([[False] * N, [True] * N, [True] * 3 + [False] * 3])
    values = game(coalitions)
    assert game.fits == 2
    np.testing.assert_allclose(values[0], target.mean())
    np.testing.assert_allclose(values[1], target[:10], atol=1e-6)
    part = Ridge(alpha=1e-9).fit(data[:, :3], target).predict(data[:10, :3])
    np.testing.assert_allclose(values[2], part, rtol=1e-12)  # memory layouts may differ


def test_a_refitting_game_scores_in_several_ways():
    model, data = wine()
    _, target = load_wine(return_X_y=True)
    game = RefitGame(
        model, data, target, data, target, score=["accuracy", lambda m, x, y: -m.score(x, y)]
    )
    empty, grand = game(np.array([[False] * N, [True] * N]))
    assert empty[0] == pytest.approx(np.bincount(target).max() / len(target))
    assert grand[0] == model.score(data, target) == -grand[1]
    assert RefitGame(model, data, target, data[:4])(np.ones((1, N), bool)).shape == (1, 12)


def test_a_refitting_game_refuses_what_does_not_match(data):
    with pytest.raises(ValueError, match=r"\(60, 6\), 60 targets and rows of shape \(1, 3\)"):
        RefitGame(Ridge(), data, data[:, 0], data[0, :3])
    with pytest.raises(ValueError, match="None labels of 5 rows"):
        RefitGame(Ridge(), data, data[:, 0], data[:5], score="r2")
