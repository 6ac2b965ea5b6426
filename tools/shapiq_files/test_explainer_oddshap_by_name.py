"""Tests of ``approximator="oddshap"`` and of the automatic choice for Shapley values."""

from __future__ import annotations

import numpy as np
import pytest

from shapiq.approximator import KernelSHAP, OddSHAP
from shapiq.explainer import AgnosticExplainer, TabularExplainer, configuration


@pytest.mark.parametrize(("available", "expected"), [(True, OddSHAP), (False, KernelSHAP)])
def test_shapley_values_are_estimated_by_what_is_installed(monkeypatch, available, expected):
    monkeypatch.setattr(configuration, "_lightgbm_available", lambda: available)
    approximator = configuration.setup_approximator_automatically("SV", 1, 10)
    assert type(approximator) is expected


def test_a_tabular_explainer_takes_the_name():
    data = np.random.default_rng(0).normal(size=(40, 5))
    explainer = TabularExplainer(
        model=lambda rows: rows @ np.arange(5.0),
        data=data,
        imputer="baseline",
        approximator="oddshap",
        random_state=0,
    )
    assert isinstance(explainer.approximator, OddSHAP)
    values = explainer.explain(data[0], budget=32)
    baseline = explainer.imputer.baseline_values.ravel().astype(float)
    expected = (data[0] - baseline) * np.arange(5.0)
    np.testing.assert_allclose(values.get_n_order_values(1), expected, atol=1e-6)


def test_an_agnostic_explainer_takes_the_name():
    explainer = AgnosticExplainer(
        lambda coalitions: coalitions.sum(axis=1),
        n_players=6,
        approximator="oddshap",
        random_state=0,
    )
    values = explainer.explain(budget=64)
    np.testing.assert_allclose(values.get_n_order_values(1), np.ones(6), atol=1e-8)


def test_other_indices_are_not_offered():
    with pytest.raises(KeyError):
        configuration.setup_approximator("oddshap", "FSII", 2, 6)
