"""What ``make dist`` tries where only the wheel or the sdist was installed."""

import sys
from importlib.metadata import files, version
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import shapiq

import shapiq_oddshap
from shapiq_oddshap.__main__ import main
from shapiq_oddshap.approximators import APPROXIMATORS


def game(coalitions):
    return coalitions.sum(axis=1) + 6.0 * coalitions[:, :3].all(axis=1)


def try_everything(folder):
    """Use what was installed as strangers would."""
    installed = Path(shapiq_oddshap.__file__)
    assert installed.is_relative_to(sys.prefix), f"{installed} is not what was installed"
    assert installed.with_name("py.typed").exists()
    assert shapiq_oddshap.__version__ == version("shapiq-oddshap")
    assert not [
        each for each in files("shapiq-oddshap") if each.parts[0] in {"tests", "benchmarks"}
    ]

    exact = np.repeat([3.0, 1.0], [3, 5])
    for approximator in APPROXIMATORS.values():
        values = approximator(n=8, random_state=0).approximate(2**8, game)
        np.testing.assert_allclose(values.get_n_order_values(1), exact, atol=1e-9)
    stored = shapiq_oddshap.EvaluatedGame(game, n=8, n_jobs=2, store=folder / "s.sqlite")
    values, variances = shapiq_oddshap.OddGP(8, random_state=0).approximate_with_variance(
        120, stored
    )
    assert np.all(np.abs(values.get_n_order_values(1) - exact) <= 1e-6 + 4 * np.sqrt(variances))

    data = np.random.default_rng(0).normal(size=(50, 4))
    explainer = shapiq.TabularExplainer(
        lambda rows: rows.sum(axis=1), data, approximator="oddshap", index="SV", max_order=1
    )
    assert explainer.explain(data[0], budget=12).estimation_budget == 12
    main(["--budget", "200", "--output", str(folder / "waterfall.png")])
    assert (folder / "waterfall.png").stat().st_size > 0


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        try_everything(Path(folder))
