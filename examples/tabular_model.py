"""
Explain a prediction of a tabular model
=======================================

A forest predicts how diabetes progresses. Which measurements made the difference for one patient?
shapiq's explainer takes the estimator by its name, and its plots take the result.
"""

import shapiq
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

import shapiq_oddshap

data = load_diabetes()
train, test, labels, _ = train_test_split(data.data, data.target, random_state=0)
model = RandomForestRegressor(100, random_state=0).fit(train, labels)

# %%
# Importing ``shapiq_oddshap`` has made its names known to the explainers. A value is the average
# prediction over background rows whose absent features are replaced: 400 of those are averaged to
# estimate 10 attributions.
explainer = shapiq.TabularExplainer(
    model,
    train[:50],
    approximator="oddshap",
    index="SV",
    max_order=1,
    sample_size=50,
    random_state=0,
)
values = explainer.explain(test[4], budget=400)
print(values)

# %%
values.plot_waterfall(feature_names=data.feature_names, abbreviate=False, show=False)

# %%
# An instance instead of a name has its own options. Its diagnostics say what the run did: which way
# it took, how many interactions the regression held, and how long each stage took.
explainer.imputer.fit(test[4:5])
approximator = shapiq_oddshap.OddSHAP(n=10, interaction_factor=20, random_state=0)
values, diagnostics = approximator.approximate_with_diagnostics(400, explainer.imputer)
print(diagnostics)
