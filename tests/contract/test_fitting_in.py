"""Contract, fitting in: shapiq's explainers, containers and plots; silence."""

import copy
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace

import matplotlib as mpl
import numpy as np
import pytest
import shapiq

from shapiq_oddshap import Estimate, OddSHAP
from shapiq_oddshap.approximators import APPROXIMATORS
from tests.helpers import phi_of, smooth_game

mpl.use("Agg")
DATA = np.random.default_rng(0).normal(size=(30, 5))
NAMES = pytest.mark.parametrize("name", APPROXIMATORS)


def model(x):
    return x[:, 0] * x[:, 1] + x @ np.arange(5)


@NAMES
@pytest.mark.parametrize("by_name", [True, False])
def test_explainers(name, by_name):
    approximator = name if by_name else APPROXIMATORS[name](5, random_state=1)
    arguments = {"approximator": approximator, "index": "SV", "max_order": 1, "random_state": 1}
    tabular = shapiq.TabularExplainer(model, DATA, **arguments)
    generic = shapiq.Explainer(model, DATA, **arguments)
    game = shapiq.AgnosticExplainer(smooth_game(5), n_players=5, **arguments)
    reference = shapiq.TabularExplainer(
        model, DATA, approximator="regression", index="SV", max_order=1
    )
    exact = reference.explain(DATA[0], budget=32).get_n_order_values(1)
    np.testing.assert_allclose(phi_of(tabular.explain(DATA[0], budget=32)), exact, atol=1e-6)
    np.testing.assert_allclose(phi_of(generic.explain(DATA[0], budget=32)), exact, atol=1e-6)
    assert np.isfinite(game.explain(budget=32).values).all()


@NAMES
def test_an_index_that_is_not_offered_is_refused(name):
    """The refusal lists what is."""
    with pytest.raises(ValueError, match="index='SV'") as refusal:
        shapiq.TabularExplainer(model, DATA, approximator=name, index="STII", max_order=2)
    for order, indices in APPROXIMATORS[name].offered.items():
        for index in indices:
            assert f"index='{index}'" in str(refusal.value)
        assert f"max_order={order}" in str(refusal.value)


@pytest.mark.parametrize("wrong", [{"max_order": 2}, {"index": "SII"}, {"n": 0}, {"n": -3}])
def test_options_out_of_range_are_refused(approximator, wrong):
    with pytest.raises(ValueError, match="Received"):
        approximator(**{"n": 5} | wrong)


@pytest.mark.parametrize("wrong", [{"n": 5.0}, {"n": "5"}, {"random_state": "a"}, {"typo": 1}])
def test_options_of_the_wrong_type_are_refused(approximator, wrong):
    with pytest.raises(TypeError):
        approximator(**{"n": 5} | wrong)


def test_results_survive_shapiqs_tools(approximator, tmp_path):
    values = approximator(5, random_state=0).approximate(32, smooth_game(5))
    assert isinstance(values, shapiq.InteractionValues)
    assert (values.index, values.max_order, values.min_order, values.n_players) == ("SV", 1, 0, 5)
    np.testing.assert_array_equal(copy.deepcopy(values).values, values.values)
    np.testing.assert_allclose((2 * values - values).values, values.values)
    values.to_json_file(tmp_path / "values.json")
    loaded = shapiq.InteractionValues.from_json_file(tmp_path / "values.json")
    np.testing.assert_allclose(loaded.values, values.values)
    values.plot_waterfall(show=False)
    values.plot_force(show=False)
    values.plot_upset(show=False)
    mpl.pyplot.close("all")


def test_the_benchmark_runner_runs_it(approximator):
    pytest.importorskip("shapiq_benchmark.runner", reason="came with shapiq 1.8")
    benchmark = pytest.importorskip("shapiq_benchmark")
    built = benchmark.runner.build_approximator(
        approximator, n_players=5, index="SV", order=1, random_state=0
    )
    assert built == approximator(5, random_state=0)


class PaperOddSHAP(OddSHAP):
    """A preset as a class, as the page on benchmarks has it."""

    def __init__(self, n, **options):
        super().__init__(**OddSHAP.paper(n).options() | options)


def test_presets_are_classes_for_the_benchmark_runner():
    """It takes classes alone, and passes what their constructors accept."""
    preset = PaperOddSHAP(6, random_state=3)
    assert preset.options() == OddSHAP.paper(6, random_state=3).options()
    pytest.importorskip("shapiq_benchmark.runner", reason="came with shapiq 1.8")
    benchmark = pytest.importorskip("shapiq_benchmark")
    game = SmoothGame()
    results = benchmark.run(
        benchmark.Benchmark(game), APPROXIMATORS | {"paper": PaperOddSHAP}, [40, 256],
        index="SV", order=1,
    )  # fmt: skip
    enough = results[results["budget"] == 2**8]
    assert set(enough["status"]) == {"ok"}
    assert enough["mse"].max() < 1e-18
    paper = OddSHAP.paper(8, random_state=0).approximate(40, game)
    exact = benchmark.Benchmark(game).exact_values("SV", 1)
    (row,) = results.query("approximator == 'paper' and budget == 40").to_dict("records")
    assert row["mse"] == pytest.approx(np.mean((phi_of(paper) - phi_of(exact)) ** 2))


class SmoothGame(shapiq.Game):
    def __init__(self):
        super().__init__(n_players=8, normalize=False)

    def value_function(self, coalitions):
        return smooth_game(8)(coalitions)


def test_silence_at_the_file_descriptors():
    code = """
import warnings
import shapiq
warnings.simplefilter("default")
# the package's own word to whoever gave the transform too few evaluations; nothing else may be said
warnings.filterwarnings("ignore", "The transform with .* diverged", UserWarning)
from shapiq_oddshap.approximators import APPROXIMATORS
from tests.helpers import smooth_game
for n, least in ((3, 4), (10, 22), (10, 300), (10, 1024)):
    for approximator in APPROXIMATORS.values():
        instance = approximator(n, random_state=0)
        instance.approximate(max(least, min(instance.required_budget(), 2**n)), smooth_game(n))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout + run.stderr == ""


def test_diagnostics_say_what_was_done(approximator):
    instance = approximator(10, random_state=0)
    budget = min(max(300, instance.required_budget()), 2**10)
    values, diagnostics = instance.approximate_with_diagnostics(budget, smooth_game(10))
    assert diagnostics.approximator == approximator.__name__
    assert diagnostics.evaluations == values.estimation_budget
    assert diagnostics.path
    assert diagnostics.seconds["evaluation"] >= 0
    assert diagnostics.overhead > 0
    assert approximator.__name__ in str(diagnostics)


@pytest.mark.parametrize("least", [300, 2**10])
def test_one_result_in_all_shapes(approximator, least):
    instance = approximator(10, random_state=0)
    budget = min(max(least, instance.required_budget()), 2**10)
    estimate = instance.estimate(budget, smooth_game(10))
    assert isinstance(estimate, Estimate)
    np.testing.assert_array_equal(
        instance.approximate(budget, smooth_game(10)).values, estimate.values.values
    )
    values, diagnostics = instance.approximate_with_diagnostics(budget, smooth_game(10))
    np.testing.assert_array_equal(values.values, estimate.values.values)
    assert replace(diagnostics, seconds={}) == replace(estimate.diagnostics, seconds={})
    if hasattr(instance, "approximate_with_variance"):
        _, variances = instance.approximate_with_variance(budget, smooth_game(10))
        np.testing.assert_array_equal(variances, estimate.variances)
        assert variances.shape == (10,)
    if not estimate.values.estimated:
        np.testing.assert_array_equal(estimate.variances, 0)
    with pytest.raises(FrozenInstanceError):
        estimate.variances = None
