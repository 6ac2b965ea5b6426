import numpy as np
import pytest
import shapiq
from sklearn.linear_model import LinearRegression

import shapiq_oddshap
from shapiq_oddshap.approximators import APPROXIMATORS
from shapiq_oddshap.shapiq_adapter import explainer_approximators
from tests.helpers import phi_of, shapley_by_definition


@pytest.fixture(autouse=True)
def registered():
    yield
    shapiq_oddshap.unregister()
    shapiq_oddshap.register()


def test_unregister_undoes_register():
    shapiq_oddshap.unregister()
    assert not APPROXIMATORS.keys() & explainer_approximators().keys()
    with pytest.raises(ValueError, match="Invalid approximator"):
        shapiq.AgnosticExplainer(len, n_players=4, approximator="oddshap", index="SV", max_order=1)
    shapiq_oddshap.register()
    assert APPROXIMATORS.keys() <= explainer_approximators().keys()


def test_a_name_of_shapiqs_own_is_replaced_on_request_only():
    shapiq_oddshap.unregister()
    theirs = {"SV": shapiq.KernelSHAP}
    table = explainer_approximators()
    table["oddshap"] = theirs
    with pytest.warns(UserWarning, match="overwrite=True"):
        shapiq_oddshap.register()
    assert table["oddshap"] is theirs
    shapiq_oddshap.register(overwrite=True)
    assert table["oddshap"]["SV"] is shapiq_oddshap.OddSHAP
    shapiq_oddshap.register()
    shapiq_oddshap.unregister()
    assert table["oddshap"] is theirs
    del table["oddshap"]


@pytest.mark.parametrize("budget", [14, 16])
def test_tabpfn_explainer(budget):
    """The whole flow of remove and recontextualize, on a model of TabPFN's name and interface."""

    class TabPFNRegressor:
        """Linear on all rows that it sees, so that predictions depend on what it was fitted to."""

        def fit(self, x, y):
            self._model = LinearRegression().fit(x, y)
            return self

        def predict(self, x):
            return self._model.predict(x)

    TabPFNRegressor.__module__ = "tabpfn.regressor"
    rng = np.random.default_rng(0)
    data, labels, test = rng.normal(size=(30, 4)), rng.normal(size=30), rng.normal(size=(5, 4))

    def refitted(coalitions):
        (present,) = coalitions
        if not present.any():
            return [LinearRegression().fit(data, labels).predict(test).mean()]
        model = LinearRegression().fit(data[:, present], labels)
        return model.predict(data[:1, present])

    exact = shapley_by_definition(refitted, 4)
    for approximator in ("oddshap", "oddgp", shapiq_oddshap.OddSHAP(n=4, random_state=0)):
        explainer = shapiq.TabPFNExplainer(
            model=TabPFNRegressor().fit(data, labels),
            data=data,
            labels=labels,
            x_test=test,
            index="SV",
            max_order=1,
            approximator=approximator,
        )
        values = explainer.explain(data[0], budget=budget)
        assert values.estimation_budget == budget
        worst = np.abs(phi_of(values) - exact).max()
        assert worst < (1e-12 if budget == 2**4 else 0.05 * np.abs(exact).max())


def explainers(approximator, index, max_order):
    """Each of the explainers that take an instance, as a function that makes it."""
    data = np.random.default_rng(0).normal(size=(20, 4))
    model = LinearRegression().fit(data, data.sum(axis=1))
    options = {"approximator": approximator, "index": index, "max_order": max_order}
    return {
        "tabular": lambda: shapiq.TabularExplainer(model, data, **options),
        "generic": lambda: shapiq.Explainer(model, data, **options),
        "agnostic": lambda: shapiq.AgnosticExplainer(
            lambda c: c.sum(axis=1), n_players=4, **options
        ),
        "tabpfn": lambda: shapiq.TabPFNExplainer(
            model=model, data=data, labels=data.sum(axis=1), **options
        ),
    }


@pytest.mark.parametrize("kind", ["tabular", "generic", "agnostic", "tabpfn"])
def test_an_instance_of_another_index_is_refused_as_the_name_is(kind):
    """shapiq hands an instance through, whatever index the explainer is asked for."""
    ours = shapiq_oddshap.OddSHAP(n=4)
    both = r"index='k-SII', max_order=2 and OddSHAP of index='SV', max_order=1"
    with pytest.raises(ValueError, match=both):
        explainers(ours, "k-SII", 2)[kind]()
    with pytest.raises(ValueError, match="index='STII'"):
        explainers("oddshap", "STII", 2)[kind]()
    pairs = shapiq_oddshap.OddGP(n=4, index="SII", max_order=2)
    with pytest.raises(ValueError, match="index='SII', max_order=2"):
        explainers(pairs, "SV", 1)[kind]()
    for instance, index, order in [(ours, "SV", 1), (pairs, "SII", 2)]:
        assert explainers(instance, index, order)[kind]().approximator is instance
    theirs = shapiq.KernelSHAPIQ(n=4, index="SII", max_order=2)  # shapiq's own are shapiq's matter
    assert explainers(theirs, "k-SII", 2)[kind]().approximator is theirs


def test_unregister_takes_the_check_of_instances_away():
    shapiq_oddshap.register()  # twice is once
    shapiq_oddshap.unregister()
    for kind in ("tabular", "agnostic"):
        explainers(shapiq_oddshap.OddSHAP(n=4), "k-SII", 2)[kind]()
