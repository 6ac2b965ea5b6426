import numpy as np
import pytest
import shapiq

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


class Recontextualized:
    """TabPFN's interface: a model that is fitted again for every coalition, here by least squares."""

    def fit(self, x, y):
        self.intercept_ = float(np.mean(y))
        self.slopes_ = np.linalg.lstsq(x, y - self.intercept_, rcond=None)[0]
        return self

    def predict(self, x):
        return self.intercept_ + x @ self.slopes_


TabPFNRegressor = type("TabPFNRegressor", (Recontextualized,), {"__module__": "tabpfn.regressor"})


@pytest.mark.parametrize("by_name", [True, False])
def test_tabpfn_is_explained_by_removing_features_and_fitting_again(by_name):
    """The whole flow of shapiq's explainer and imputer, on plain arrays as TabPFN returns them."""
    rng = np.random.default_rng(0)
    data, labels = rng.normal(size=(40, 4)), rng.normal(size=40)

    def refitted(coalitions):
        models = [Recontextualized().fit(data[:32, kept], labels[:32]) for kept in coalitions]
        return np.array(
            [
                model.predict(data[:1, kept])[0] if kept.any() else empty
                for model, kept in zip(models, coalitions, strict=True)
            ]
        )

    model = TabPFNRegressor().fit(data, labels)
    explainer = shapiq.TabPFNExplainer(
        model=model,
        data=data,
        labels=labels,
        index="SV",
        max_order=1,
        approximator="oddshap" if by_name else shapiq_oddshap.OddSHAP(n=4, random_state=0),
    )
    empty = explainer.imputer.empty_prediction
    values = explainer.explain(data[0], budget=16)
    assert values.estimation_budget == 16
    np.testing.assert_allclose(phi_of(values), shapley_by_definition(refitted, 4), atol=1e-9)
