"""Contract, budget: what is paid for, and what is refused before anything is."""

import subprocess
import sys

import numpy as np
import pytest

from tests.helpers import phi_of, random_game, smooth_game


def refuse(coalitions):
    raise AssertionError(f"{len(coalitions)} evaluations were paid for")


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_every_budget_works_or_is_refused(approximator, n):
    required = min(approximator(n).required_budget(), 2**n)
    assert required >= 2
    for budget in range(2, 2**n + 6):
        game = random_game(n, seed=budget)
        instance = approximator(n, random_state=budget)
        if budget < required:
            with pytest.raises(ValueError, match=f"budget={budget}.*{required}"):
                instance.approximate(budget, refuse)
            continue
        values, diagnostics = instance.approximate_with_diagnostics(budget, game)
        assert len(game.asked) == len(set(game.asked)) == values.estimation_budget <= budget
        assert diagnostics.evaluations == values.estimation_budget
        assert {0, 2**n - 1} <= set(game.asked)
        assert values.estimated == (len(game.asked) < 2**n)
        assert np.isfinite(phi_of(values)).all()
        total = game.values[-1] - game.values[0]
        if instance.efficient or not values.estimated:
            assert phi_of(values).sum() == pytest.approx(total, abs=1e-9)
    assert not values.estimated


@pytest.mark.parametrize("budget", [0, 1, -5])
def test_too_small_budgets_are_refused_before_the_game_is_called(approximator, budget):
    with pytest.raises(ValueError, match=rf"budget={budget}, .* at least \d+ .* increase"):
        approximator(8).approximate(budget, refuse)


@pytest.mark.parametrize("budget", [None, 100.0, "100", True, np.float64(64), [64]])
def test_budgets_that_are_no_integers_are_refused(approximator, budget):
    with pytest.raises(TypeError, match="budget=.*integer"):
        approximator(8).approximate(budget, refuse)


def test_numpy_integers_odd_and_huge_budgets_work(approximator):
    game = random_game(5)
    least = min(approximator(5).required_budget(), 2**5 - 1)
    for budget in (np.int64(least), np.uint16(2**5), 10**30):
        if budget >= approximator(5).required_budget():
            values = approximator(5, random_state=0).approximate(budget, game)
            assert values.estimation_budget <= budget


def test_binomials_that_overflow(approximator):
    n = 1100  # C(n, n/2) is beyond a double from 1030 on
    instance = approximator(n, random_state=0)
    if instance.required_budget() > 50_000:
        pytest.skip(f"needs {instance.required_budget()} evaluations for {n} players")
    main = np.random.default_rng(0).normal(size=n)
    budget = max(300, instance.required_budget())
    values = instance.approximate(budget, lambda coalitions: coalitions @ main)
    assert np.isfinite(phi_of(values)).all()


MEMORY = """
import sys
import numpy as np
import shapiq_oddshap
from shapiq_oddshap.approximators import APPROXIMATORS
from tests.helpers import peak_memory
main = np.random.default_rng(0).normal(size=1000)
start = peak_memory()
values = APPROXIMATORS[sys.argv[1]](1000, random_state=0).approximate(5_000, lambda c: c @ main)
used = peak_memory() - start
assert np.isfinite(values.values).all()
print(used / 2**30)
"""


@pytest.mark.parametrize("name", ["oddshap"])
def test_many_players_in_bounded_memory(name):
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, name], capture_output=True, text=True, check=True
    )
    # GiB above the start; `benchmarks overhead` measures at three times the size
    assert float(run.stdout) < 0.4


def test_required_budget_is_enough(approximator):
    instance = approximator(9, random_state=1)
    budget = min(instance.required_budget(), 2**9)
    values = instance.approximate(budget, smooth_game(9))
    assert values.estimation_budget <= budget
