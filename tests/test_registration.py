import numpy as np
import pytest
import shapiq
from sklearn.linear_model import LinearRegression

import shapiq_oddshap
from shapiq_oddshap.approximators import APPROXIMATORS
from shapiq_oddshap.shapiq_adapter import explainer_approximators


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


def test_tabpfn_explainer():
    """The whole flow of remove and recontextualize, on a model of TabPFN's name and interface."""

    class TabPFNRegressor:
        def fit(self, x, y):
            self.mean_, self.width_ = float(np.mean(y)), x.shape[1]
            return self

        def predict(self, x):
            return self.mean_ + x.sum(axis=1) * self.width_

    TabPFNRegressor.__module__ = "tabpfn.regressor"
    rng = np.random.default_rng(0)
    data, labels = rng.normal(size=(30, 4)), rng.normal(size=30)
    model = TabPFNRegressor().fit(data, labels)
    for approximator in ("oddshap", shapiq_oddshap.OddSHAP(n=4, random_state=0)):
        explainer = shapiq.TabPFNExplainer(
            model=model,
            data=data,
            labels=labels,
            index="SV",
            max_order=1,
            approximator=approximator,
        )
        values = explainer.explain(data[0], budget=16)
        assert np.isfinite(values.values).all()
        assert values.estimation_budget == 16


def test_an_instance_computes_its_own_index_and_the_result_says_so():
    """shapiq tells an instance nothing of the explainer's index; by name, it is refused."""
    data = np.random.default_rng(0).normal(size=(20, 4))
    model = LinearRegression().fit(data, data.sum(axis=1))
    options = {"index": "STII", "max_order": 2, "imputer": "baseline"}
    with pytest.raises(ValueError, match="Received index='STII'"):
        shapiq.TabularExplainer(model, data, approximator="oddshap", **options)
    instance = shapiq_oddshap.OddSHAP(n=4)
    explainer = shapiq.TabularExplainer(model, data, approximator=instance, **options)
    assert explainer.explain(data[0], budget=16).index == "SV"
