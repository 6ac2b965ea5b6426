"""Means over rows, their errors, and shapiq's plots of them."""

import matplotlib as mpl
import numpy as np
import pytest

from shapiq_oddshap import OddGP, OddSHAP, Summary
from tests.helpers import phi_of, smooth_game

mpl.use("Agg")
import matplotlib.pyplot as plt

N = 6


def estimates(approximator, rows=4, n=N):
    games = [smooth_game(n, seed=seed) for seed in range(rows)]
    return approximator(n, random_state=0).estimate_outputs(
        30, lambda c: np.stack([game(c) for game in games], axis=1)
    )


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_means_and_errors():
    rows = estimates(OddGP)
    summary = Summary.of(rows)
    np.testing.assert_allclose(summary.means, np.mean([abs(phi_of(e.values)) for e in rows], 0))
    np.testing.assert_allclose(summary.errors, np.mean([np.sqrt(e.variances) for e in rows], 0))
    assert Summary.of(estimates(OddSHAP)).errors is None


@pytest.mark.parametrize("rows", [1, 4])
def test_the_bar_plot_has_an_interval_on_each_bar(rows):
    summary = Summary.of(estimates(OddGP, rows))
    axes = summary.plot_bar(list("abcdef"), confidence=0.9)
    bars = {round(bar.get_y() + bar.get_height() / 2, 6): bar.get_width() for bar in axes.patches}
    drawn = {}
    for container in axes.containers:
        if isinstance(container, mpl.container.ErrorbarContainer):
            ((left, y), (right, _)) = container.lines[2][0].get_segments()[0]
            assert (left + right) / 2 == pytest.approx(bars[round(y, 6)])
            drawn[round(float(y), 6)] = (right - left) / 2
    assert len(drawn) == N
    ticks = [round(float(y), 6) for y in axes.get_yticks()]
    labels = dict(zip(ticks, [t.get_text() for t in axes.get_yticklabels()], strict=True))
    for y, half in drawn.items():
        player = "abcdef".index(labels[y])
        assert half == pytest.approx(1.6448536 * summary.errors[player])


def test_bars_of_interactions_have_the_players_names():
    rows = [OddGP(N, max_order=2, index="SII", random_state=0).estimate(30, smooth_game(N))] * 2
    axes = Summary.of(rows).plot_bar(list("abcdef"), max_display=None)
    labels = {label.get_text() for label in axes.get_yticklabels()}
    assert "a x b" in labels
    assert not any("player" in label for label in labels)


def test_plots_work_without_variances_and_names():
    rows = estimates(OddSHAP)
    axes = Summary.of(rows).plot_bar(max_display=3)
    assert any("player" in label.get_text() for label in axes.get_yticklabels())
    data = np.random.default_rng(0).normal(size=(len(rows), N))
    assert Summary.of(rows).plot_beeswarm(data) is not None


def test_what_cannot_be_averaged_is_refused():
    with pytest.raises(ValueError, match="0 estimates"):
        Summary.of([])
    with pytest.raises(TypeError, match="a list among the estimates.*one class"):
        Summary.of([[], []])
    with pytest.raises(ValueError, match=r"\[6, 7\] players"):
        Summary.of([*estimates(OddSHAP), *estimates(OddSHAP, n=7)])
