"""The benchmark over domains: its games against enumeration, its ratios against small tables."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import closed_forms, suite
from benchmarks.games import GameUnavailableError, Source, load_instance
from shapiq_oddshap import OddSHAP
from tests.helpers import all_coalitions, phi_of


def exact(values, n):
    return phi_of(OddSHAP(n).approximate(2**n, values))


@pytest.mark.parametrize("n", [4, 8])
@pytest.mark.parametrize(
    "make",
    [closed_forms.nearest_neighbours, closed_forms.kernel_machine, closed_forms.sparse_products],
)
def test_closed_forms_are_the_shapley_values(make, n):
    for seed in range(3):
        values, shapley = make(n, seed)
        np.testing.assert_allclose(shapley, exact(values, n), atol=1e-12)


def test_permutations_come_near_within_their_error():
    values, shapley = closed_forms.kernel_machine(6, 0)
    estimates = [closed_forms.permutation_reference(values, 6, 40, seed) for seed in range(30)]
    error = np.std(estimates, axis=0) / 30**0.5
    assert (np.abs(np.mean(estimates, axis=0) - shapley) < 5 * error + 1e-12).all()


def test_every_family_has_a_domain_and_patterns_choose_families(tmp_path):
    (tmp_path / "suite").mkdir()
    for name in ("adult-feature-selection-decision-tree-14", "soum-30-order15-15"):
        np.savez(tmp_path / "suite" / f"{name}.npz", n_players=1)
    found = suite.sources(["adult-*", "neighbours-50"], tmp_path / "tables", [])
    names = [source.name for source in found]
    assert names == ["adult-feature-selection-decision-tree-14", "neighbours-50"]
    everything = suite.sources(["*"], tmp_path / "tables", [])
    assert all(suite.domain_of(source.name) != source.name for source in everything)
    with pytest.raises(GameUnavailableError, match="no family 'nothing'"):
        suite.sources(["nothing"], tmp_path / "tables", [])


def test_games_as_shapiq_stores_them(tmp_path):
    n, file = 4, tmp_path / "game.npz"
    coalitions = np.random.default_rng(0).permutation(all_coalitions(n))
    values = coalitions @ np.arange(4.0) + coalitions.all(axis=1)
    np.savez(file, values=values, coalitions=coalitions, n_players=n, normalization_value=0.0)
    instance = load_instance(Source("stored", file), 0)
    np.testing.assert_array_equal(instance.value_function(coalitions), values)
    np.testing.assert_allclose(instance.shapley, np.arange(4.0) + 0.25)
    np.savez(file, values=values[:9], coalitions=coalitions[:9], n_players=n)
    with pytest.raises(GameUnavailableError, match="9 coalitions"):
        load_instance(Source("part", file), 0)


def results(errors):
    """Rows of two families of one domain at 4 n, by method: errors by family."""
    return pd.DataFrame(
        {"game": f"adult-feature-selection-{k}", "budget": 40, "n": 10, "method": method,
         "value": value, "scale": 1.0, "covered": 0.9, "instance": 0, "seconds": 0.1}
        for method, values in errors.items()
        for k, value in enumerate(values)
    )  # fmt: skip


def test_ratios_are_to_the_best_of_each_family():
    found = suite.ratios(
        results({"oddgp": [1e-2, 1e-2], "kernelshap": [1e-2, 4e-2], "leverageshap": [4e-2, 1e-1]})
    )
    own = found[found["method"] == "oddgp"].sort_values("game")
    np.testing.assert_allclose(own["best of five"], [1.0, 0.25])
    assert set(own["domain"]) == {"feature selection"}


def test_check_names_what_was_missed():
    good = results({"oddgp": [1e-3, 1e-3], "kernelshap": [1e-2, 1e-2]})
    assert suite.check(good) == []
    bad = results({"oddgp": [1e-2, 2e-1], "kernelshap": [1e-2, 1e-2]}).assign(covered=0.5)
    missed = suite.check(bad)
    assert any("4 n: 4.47 (target 0.5)" in line for line in missed)
    assert any("cover 0.50 in feature selection" in line for line in missed)
