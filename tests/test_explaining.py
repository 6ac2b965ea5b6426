"""Rows and classes by shapiq's explainers: the values they give themselves, and the bill."""

import sys
import time
from pathlib import Path

import joblib
import numpy as np
import pytest
import shapiq
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shapiq_oddshap import (
    EvaluatedGame,
    FFDRDCorrected,
    OddGP,
    OddSHAP,
    PairedAllSHAP,
    RefitGame,
    explain,
)
from shapiq_oddshap.store import Store
from tests.helpers import assert_stops_promptly, phi_of

ROOT = Path(__file__).parents[1]
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


class SlowTabPFN(CountingTabPFN):
    """One that leaves time for another fit before it predicts."""

    def predict(self, data):
        time.sleep(0.002)
        return super().predict(data)


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


class Interrupting:
    """A model that counts the rows it is asked for, and is interrupted at some call."""

    def __init__(self, at=None):
        self.at, self.calls, self.rows = at, 0, 0

    def __call__(self, x):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        self.rows += len(x)
        return np.stack([x[:, 0] * x[:, 1] + x[:, 2], x[:, 3] - x[:, 4] * x[:, 1]], axis=1)


@pytest.mark.parametrize("classes", [None, "all"])
def test_half_done_rows_are_resumed_from_a_store(data, classes, tmp_path):
    def run(model, budget=40, store=None, rows=data[:4], **options):
        explainer = tabular(model, data, PairedAllSHAP(N), class_index=0)
        model.calls = model.rows = 0
        found = explain(
            explainer, rows, budget, class_index=classes, random_state=1, store=store, **options
        )
        return [
            phi_of(estimate.values) for row in found for estimate in (row if classes else [row])
        ]

    store = tmp_path / "s.sqlite"
    whole, interrupted = Interrupting(), Interrupting()
    expected = run(whole)
    run(interrupted, store=tmp_path / "whole.sqlite")
    paid = interrupted.rows
    interrupted = Interrupting(at=interrupted.calls // 2)
    with pytest.raises(KeyboardInterrupt):
        run(interrupted, store=store)
    resumed = Interrupting()
    np.testing.assert_allclose(run(resumed, store=store), expected, atol=1e-12)
    assert resumed.rows < 0.75 * paid
    again = Interrupting()
    np.testing.assert_allclose(run(again, store=store, n_jobs=2), expected, atol=1e-12)
    one, both = Interrupting(), slice(None, None, -1)
    backwards = run(one, store=store, rows=data[3::-1])
    classes_each = len(expected) // 4
    np.testing.assert_allclose(
        np.reshape(backwards, (4, classes_each, N))[both],
        np.reshape(expected, (4, classes_each, N)),
        atol=1e-12,
    )
    assert one.rows < 0.3 * paid  # five coalitions a row of forty, and the empty predictions
    larger = run(Interrupting(), budget=50, store=store)
    np.testing.assert_allclose(larger, run(Interrupting(), budget=50), atol=1e-12)
    assert len(Store(store, n=N)) == 4 * 50


def test_rows_that_share_fits_are_resumed_from_a_store(tabpfn, data, tmp_path):
    counts, values = [], []
    for budget in (30, 40, 40):
        explainer = tabpfn(OddSHAP(N))
        before = explainer.model.fits
        found = explain(explainer, data[:3], budget, random_state=0, store=tmp_path / "s.sqlite")
        counts.append(explainer.model.fits - before)
        values.append([phi_of(estimate.values) for estimate in found])
    assert counts == [30, 10 + 5 + 1, 5]  # of five that check the store, the last has all features
    np.testing.assert_array_equal(values[1], values[2])
    alone = explain(tabpfn(OddSHAP(N)), data[:3], 40, random_state=0)
    np.testing.assert_array_equal(values[1], [phi_of(estimate.values) for estimate in alone])


def test_the_seed_of_an_imputer_is_told_apart_in_a_store(data, tmp_path):
    def run(seed, store):
        explainer = tabular(lambda x: x[:, 0] * x[:, 1], data, OddSHAP(N), sample_size=5)
        return explain(explainer, data[0], 40, random_state=seed, store=store)

    for seed in (1, 2, 1, 2):
        np.testing.assert_allclose(
            phi_of(run(seed, tmp_path / "s.sqlite").values),
            phi_of(run(seed, None).values),
            atol=1e-12,
        )


def test_an_agnostic_game_is_resumed_from_a_store(data, tmp_path):
    asked = []

    def game(coalitions):
        asked.append(len(coalitions))
        return coalitions @ np.arange(N) + 0.0

    explainer = shapiq.AgnosticExplainer(
        game, n_players=N, approximator=OddSHAP(N, random_state=0), index="SV", max_order=1
    )
    for paid in (40, 5):
        asked.clear()
        found = explain(explainer, None, 40, store=tmp_path / "s.sqlite")
        assert sum(asked) == paid
        np.testing.assert_allclose(phi_of(found.values), np.arange(N), atol=1e-9)


def test_a_store_wants_a_seed_and_no_other_store(data, tmp_path):
    explainer = tabular(lambda x: x[:, 0], data, OddSHAP(N))
    with pytest.raises(ValueError, match=r"without a seed.*random_state=42"):
        explain(explainer, data[0], 40, store=tmp_path / "s.sqlite")
    drawing = shapiq.TabularExplainer(
        lambda x: x[:, 0], data, approximator=OddSHAP(N, random_state=0),
        index="SV", max_order=1, sample_size=10,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"draw other background rows.*random_state=42"):
        explain(drawing, data[0], 40, store=tmp_path / "s.sqlite")
    ours = tabular(
        lambda x: x[:, 0], data, OddSHAP(N, random_state=0),
        imputer=EvaluatedGame(explainer.imputer),
    )  # fmt: skip
    with pytest.raises(TypeError, match="give the store to the EvaluatedGame"):
        explain(ours, data[0], 40, store=tmp_path / "s.sqlite")
    assert not list(tmp_path.iterdir())


INTERRUPTED = """
import sys, time
import numpy as np, shapiq
from shapiq_oddshap import OddSHAP, explain

log, store, n_jobs = sys.argv[1:]

def model(x):
    if (x[:, 0] == 99).any():  # of the third row alone
        with open(log, "a") as file:
            file.write("x")
        time.sleep(60)
    return x[:, 0] * x[:, 1]

if __name__ == "__main__":
    data = np.random.default_rng(0).normal(size=(20, 4))
    explainer = shapiq.TabularExplainer(
        model, data, approximator=OddSHAP(4), index="SV", max_order=1, sample_size=20
    )
    data[2, 0] = 99
    explain(explainer, data[:4], 12, random_state=0, n_jobs=int(n_jobs), store=store)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a process group")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_stops_rows_promptly_and_keeps_them(n_jobs, tmp_path):
    (tmp_path / "script.py").write_text(INTERRUPTED)
    log, store = tmp_path / "log", tmp_path / "s.sqlite"
    script = tmp_path / "script.py"
    assert_stops_promptly([script, log, store, str(n_jobs)], log.exists)
    assert len(Store(store, n=4)) >= 12 * (3 - n_jobs)


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


@pytest.mark.parametrize("in_place", [False, True])
def test_threads_do_not_mix_up_fits(data, in_place):
    model = SlowTabPFN()
    game = RefitGame(model, data, data[:, 0], data[:3], in_place=in_place)
    coalitions = np.random.default_rng(1).random((30, N)) < 0.5
    coalitions = np.unique(coalitions, axis=0)[1:]
    alone, fits = game(coalitions), game.fits
    with joblib.parallel_config(backend="threading", n_jobs=4):
        together = EvaluatedGame(game)(coalitions)
    np.testing.assert_array_equal(together, alone)
    assert game.fits == 2 * fits
    game.restore()
    assert (model.fits == game.fits == 2 * fits + 1) == in_place


def test_threads_do_not_mix_up_rows_of_a_refitted_model(tabpfn, data):
    explainer = tabpfn(FFDRDCorrected(N, random_state=0))
    explainer.imputer.model.__class__ = SlowTabPFN
    serial = explain(explainer, data[:4], 2**N)
    with joblib.parallel_config(backend="threading"):
        threads = explain(explainer, data[:4], 2**N, n_jobs=4)
    for one, other in zip(serial, threads, strict=True):
        assert_same(one, other.values)


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
