"""The worked examples, run as a reader runs them."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


def run_example(name, *arguments):
    """Run an example with warnings as errors and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", ROOT / "examples" / name, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "example",
    [path for path in sorted((ROOT / "examples").glob("*.py")) if "argparse" in path.read_text()],
    ids=lambda path: path.name,
)
def test_help_says_what_the_example_shows(example, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [example.name, "--help"])
    with pytest.raises(SystemExit) as done:
        runpy.run_path(str(example), run_name="__main__")
    assert done.value.code == 0
    title = example.read_text("utf-8").removeprefix('"""').split("\n", 1)[0]
    assert title in capsys.readouterr().out


def test_data_valuation_is_killed_resumed_and_extended(tmp_path):
    pytest.importorskip("sklearn", reason="retrains a scikit-learn model")
    store = tmp_path / "valuation.sqlite"
    out = run_example("data_valuation.py", "--budget", "150", "--store", str(store), "--jobs", "2")
    stored = int(re.search(r"budget 150: killed when (\d+) values", out)[1])
    assert 50 <= stored <= 150
    # five evaluations more than are missing verify the store
    assert (
        f"budget 150: EvaluationReport(evaluated={155 - stored}, reused={stored}, verified=5)"
        in out
    )
    assert "budget 300: EvaluationReport(evaluated=155, reused=150, verified=5)" in out
    assert out.count("mislabelled") >= 3
    assert [path.name for path in tmp_path.iterdir()] == [store.name]


def test_error_bars_are_grown_to_the_wanted_width_and_drawn(tmp_path):
    plot = tmp_path / "plot.png"
    out = run_example("error_bars.py", "--error", "0.006", "--output", str(plot))
    evaluations, widest = re.search(r"(\d+) evaluations, widest interval ±([\d.]+)", out).groups()
    assert 122 < int(evaluations) < 4000
    assert float(widest) <= 0.006
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_interactions_that_are_certain_are_listed_and_drawn(tmp_path):
    plot = tmp_path / "plot.png"
    out = run_example("interactions.py", "--output", str(plot))
    evaluations, certain = re.search(r"(\d+) evaluations; (\d+) of 66 pairs", out).groups()
    assert int(evaluations) <= 300
    assert 3 <= int(certain) < 66
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_all_classes_share_the_evaluations_of_one(tmp_path):
    plot = tmp_path / "plot.png"
    out = run_example("all_classes.py", "--budget", "100", "--output", str(plot))
    assert "10 classes, 100 evaluations in all" in out
    sums = [float(value) for value in re.findall(r"^ +\d: ([+-][\d.]+),", out, re.MULTILINE)]
    assert len(sums) == 10
    assert abs(sum(sums)) < 0.01  # probabilities add up to one, with the image and without it
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_many_rows_cost_the_fits_of_one(tmp_path):
    plot = tmp_path / "plot.png"
    out = run_example("many_rows.py", "--rows", "20", "--budget", "40", "--output", str(plot))
    assert "20 rows: 39 fits made, 741 fits saved" in out
    assert out.count("±") == 10
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_three_metrics_share_the_trainings():
    out = run_example("three_metrics.py", "--budget", "200")
    trainings = int(re.search(r"3 metrics, (\d+) trainings", out)[1])
    assert 100 < trainings < 200
    assert out.count("of them mislabelled") == 3


def test_an_explainer_of_tabpfn_gets_the_estimator_that_its_price_asks_for(tmp_path):
    plot = tmp_path / "plot.png"
    out = run_example(
        "tabpfn_routing.py",
        *("--rows", "4", "--fits", "40", "--predictions", "200", "--output", str(plot)),
    )
    assert "refitting: 4 rows by OddGP\n  40 fits in all, instead of 160" in out
    assert "imputation: 4 rows by OddSHAP\n  0 fits, 200 predictions a row" in out
    assert out.count("±") == 10
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_chosen_coalitions_have_less_error_for_the_same_money(tmp_path):
    plot = tmp_path / "plot.png"
    out = run_example("error_against_money.py", "--output", str(plot))
    rows = np.array([line.split() for line in out.splitlines()[1:]], dtype=float)
    fits, _, chosen, drawn, width = rows.T
    assert fits.tolist() == [25, 35, 50, 70, 100]
    assert np.all(np.diff(width) < 0)
    assert np.mean(np.log(chosen / drawn)) < 0
    assert plot.read_bytes().startswith(b"\x89PNG")
