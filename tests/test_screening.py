"""The screening strategies, a user's own, and the trees that proxies can be."""

from dataclasses import dataclass
from math import comb

import lightgbm
import numpy as np
import pytest
import shapiq
import xgboost
from shapiq.approximator.sampling import CoalitionSampler
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor

from shapiq_oddshap import (
    SCREENERS,
    SPEX,
    FixedOrder,
    GivenTerms,
    NoInteractions,
    OddSHAP,
    PairedAllSHAP,
    ProxySPEX,
    RandomTerms,
    Screener,
    TermUnion,
    UnpairedAllSHAP,
    UnpairedOddSHAP,
)
from shapiq_oddshap.sample import Sample
from shapiq_oddshap.screening.proxyspex import BUTLER_GRID
from shapiq_oddshap.trees import leaves_of_model, predict
from tests.helpers import fourier_game, phi_of, random_game, smooth_game

MODELS = [
    DecisionTreeRegressor(max_depth=8),
    RandomForestRegressor(10, max_depth=8),
    ExtraTreesRegressor(10, max_depth=8),
    GradientBoostingRegressor(),
    xgboost.XGBRegressor(n_estimators=30),
    lightgbm.LGBMRegressor(n_estimators=30),
]
BY_TYPE = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
PARITY = fourier_game([(1, 4, 8)], [1.0])
PARITY_PHI = np.where(np.isin(np.arange(10), (1, 4, 8)), -2 / 3, 0.0)


def refuse(coalitions):
    pytest.fail(f"{len(coalitions)} evaluations were paid for")


def sample_of(game, n, m=300):
    rng = np.random.default_rng(0)
    coalitions = np.concatenate([[[False] * n, [True] * n], rng.random((m, n)) < 0.5])
    return Sample(coalitions, np.asarray(game(coalitions), float), np.ones(m + 2))


@pytest.mark.parametrize("name", sorted(set(SCREENERS) - {"given"}))
@pytest.mark.parametrize("cls", [OddSHAP, UnpairedAllSHAP])
def test_terms_are_distinct_of_use_and_not_too_many(name, cls):
    screener = SCREENERS[name]().prepare(10, 300, np.random.default_rng(0))
    own = screener.coalitions(10)
    assert len(own) <= 300
    assert len({row.tobytes() for row in own}) == len(own)
    assert not (own.all(axis=1) | ~own.any(axis=1)).any()
    game = random_game(10)
    rows = np.concatenate([sample_of(game, 10).coalitions, own])
    sample = Sample(rows, game(rows), np.ones(len(rows)))
    for max_terms in (1, 7, 50):
        terms = screener.screen(sample, max_terms, np.random.default_rng(1), parity=cls.parity)
        assert terms.dtype == bool
        assert terms.shape == (len(terms), 10)
        assert len({row.tobytes() for row in terms}) == len(terms) <= max_terms
        assert (terms.sum(axis=1) >= 2).all()
        assert (terms.sum(axis=1) % 2 == 1).all() or cls.parity == "both"


def test_a_screener_of_ones_own():
    @dataclass(frozen=True)
    class Pivot(Screener):
        """All triples with one player."""

        player: int
        name = "pivot"

        def screen(self, sample, max_terms, rng, *, parity):
            terms = np.zeros((0, sample.n), dtype=bool)
            for first in range(sample.n):
                for second in range(first):
                    row = np.isin(np.arange(sample.n), (self.player, first, second))
                    terms = np.vstack([terms, row]) if row.sum() == 3 else terms
            return terms[:max_terms]

    instance = OddSHAP(10, screener=Pivot(4), random_state=0)
    values, diagnostics = instance.approximate_with_diagnostics(500, PARITY)
    assert diagnostics.screener == "pivot"
    assert diagnostics.n_terms == 10 + comb(9, 2)
    np.testing.assert_allclose(phi_of(values), PARITY_PHI, atol=1e-9)
    assert instance == OddSHAP(10, screener=Pivot(4), random_state=0)
    assert instance != OddSHAP(10, screener=Pivot(3), random_state=0)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [("proxy", ValueError), (SPEX, TypeError), (3, TypeError), ("given", ValueError)],
)
def test_what_is_no_screener_is_refused(wrong, error):
    with pytest.raises(error, match="Received"):
        OddSHAP(5, screener=wrong)


class TestFixedOrder:
    @pytest.mark.parametrize("cls", [OddSHAP, PairedAllSHAP, UnpairedOddSHAP, UnpairedAllSHAP])
    @pytest.mark.parametrize("order", [1, 2, 3])
    def test_all_terms_up_to_the_order(self, cls, order):
        game = smooth_game(9)
        instance = cls(9, screener=FixedOrder(order), random_state=0)
        budget = max(instance.required_budget(), 20)
        _, diagnostics = instance.approximate_with_diagnostics(budget, game)
        orders = range(1, order + 1, 2 if cls.parity == "odd" else 1)
        assert diagnostics.n_terms == sum(comb(9, k) for k in orders)
        assert diagnostics.path == ("linear" if diagnostics.n_terms == 9 else "regression")

    def test_refusal_by_count_before_anything_is_paid_for(self):
        instance = OddSHAP(20, screener="order")
        assert instance.required_budget() == 2 * (20 + comb(20, 3))
        with pytest.raises(ValueError, match=r"budget=2319.* 2320 evaluations .* 1160 into"):
            instance.approximate(2319, refuse)
        for strategy in (FixedOrder, RandomTerms):
            for order, error in ((0, ValueError), (2.5, TypeError), (True, TypeError)):
                with pytest.raises(error, match=f"order={order}"):
                    strategy(order)
            assert strategy(np.int64(3)) == strategy(3)
        with pytest.raises(TypeError, match="integer"):
            GivenTerms([(0, 1.5)])

    def test_frontier_invariance(self):
        """Orders three and four give one estimate under paired sampling (paper, Theorem 3.2)."""
        game = random_game(8)
        three, four = (PairedAllSHAP(8, screener=FixedOrder(k), random_state=0) for k in (3, 4))
        np.testing.assert_allclose(
            phi_of(three.approximate(200, game)), phi_of(four.approximate(200, game)), atol=1e-9
        )

    @pytest.mark.skipif(
        getattr(shapiq, "PolySHAP", None) is None, reason="PolySHAP came with shapiq 1.8"
    )
    @pytest.mark.parametrize("cls", [OddSHAP, PairedAllSHAP])
    @pytest.mark.parametrize("seed", range(3))
    def test_order_three_is_polyshap_3(self, cls, seed):
        class SameSeed(CoalitionSampler):
            """Draws the same coalitions whatever seed the approximator gives it."""

            def set_random_state(self, random_state=None):
                super().set_random_state(seed)

            def sample(self, sampling_budget):
                self.set_random_state()
                super().sample(sampling_budget)

        game = random_game(10, seed)
        sampler = SameSeed(10, np.ones(11), pairing_trick=True)
        theirs = shapiq.PolySHAP(10, max_order=3, pairing_trick=True, random_state=seed)
        theirs._sampler = SameSeed(10, np.ones(11), pairing_trick=True)
        paper = {"screener": FixedOrder(3), "size_effects": "none"}
        ours = cls(10, **paper, sampler=sampler, random_state=0)
        for budget in (400, 700):
            expected = phi_of(theirs.approximate(budget, game))
            np.testing.assert_allclose(phi_of(ours.approximate(budget, game)), expected, atol=1e-8)


class TestGivenTerms:
    def test_terms_are_used_whatever_the_budget(self):
        instance = OddSHAP(10, screener=GivenTerms([(8, 1, 4)]), random_state=0)
        values, diagnostics = instance.approximate_with_diagnostics(40, PARITY)
        assert diagnostics.n_terms == 11
        np.testing.assert_allclose(phi_of(values), PARITY_PHI, atol=1e-9)

    @pytest.mark.parametrize("wrong", [[], [()], [(3,)], [(0, 0, 1)], [(-1, 2, 3)]])
    def test_wrong_terms_are_refused(self, wrong):
        with pytest.raises(ValueError, match=r"Received .* required"):
            GivenTerms(wrong)

    @pytest.mark.parametrize("union", [False, True])
    def test_players_the_game_has_not_are_refused_before_anything_is_paid_for(self, union):
        given = GivenTerms([(0, 1, 10)])
        with pytest.raises(ValueError, match="0 to 9"):
            OddSHAP(10, screener=TermUnion((given,)) if union else given).approximate(300, refuse)

    def test_equal_terms_are_equal_screeners(self):
        assert GivenTerms([[2, 1, 0]]) == GivenTerms(((0, 1, 2), (1, 0, 2)))


class TestSPEX:
    def test_own_coalitions_are_paired_and_within_the_budget(self):
        seen = []

        def game(coalitions):
            seen.extend(row.tobytes() for row in coalitions)
            return coalitions[:, 0]

        for budget in (100, 301, 2000, 5000):
            seen.clear()
            OddSHAP(16, screener="spex", random_state=0).approximate(budget, game)
            assert len(seen) == len(set(seen)) <= budget
            rows = np.frombuffer(b"".join(seen), dtype=bool).reshape(-1, 16)
            assert {row.tobytes() for row in ~rows} == set(seen)

    @pytest.mark.parametrize("cls", [OddSHAP, UnpairedAllSHAP])
    def test_sparse_games_are_recovered(self, cls):
        rng = np.random.default_rng(0)
        terms = [tuple(rng.choice(30, size=size, replace=False)) for size in (1, 2, 3, 3, 4, 5, 7)]
        game = fourier_game(terms, np.linspace(1, 2, 7))
        expected = np.zeros(30)
        for term, beta in zip(terms, np.linspace(1, 2, 7), strict=True):
            expected[list(term)] -= 2 * beta / len(term) * (len(term) % 2)
        values = cls(30, screener=SPEX(), random_state=0).approximate(3000, game)
        np.testing.assert_allclose(phi_of(values), expected, atol=1e-9)

    def test_the_share_is_kept(self):
        for share in (0.2, 0.5, 1.0):
            own = SPEX(share).prepare(16, 5000, np.random.default_rng(0)).coalitions(16)
            assert 0.2 * share * 5000 < len(own) <= share * 5000
        with pytest.raises(ValueError, match="share=0"):
            SPEX(0)


def test_random_terms_do_no_better_than_chosen_ones():
    game = smooth_game(12)
    exact = phi_of(OddSHAP(12).approximate(2**12, game))
    random, chosen = (
        np.mean(
            [
                np.square(
                    phi_of(OddSHAP(12, screener=s, random_state=r).approximate(600, game)) - exact
                )
                for r in range(5)
            ]
        )
        for s in (RandomTerms(), ProxySPEX())
    )
    assert chosen < random


def test_random_terms_are_all_of_them_when_there_are_few():
    terms = RandomTerms(5).screen(
        sample_of(smooth_game(5), 5), 100, np.random.default_rng(0), parity="odd"
    )
    assert len(terms) == comb(5, 3) + 1


def test_union_merges_ranks():
    first, second = (
        GivenTerms([(0, 1, 2), (0, 1, 3)]),
        GivenTerms([(0, 1, 3), (2, 3, 4), (1, 3, 4)]),
    )
    union = TermUnion((first, second))
    terms = union.screen(sample_of(smooth_game(5), 5), 3, np.random.default_rng(0), parity="odd")
    assert [tuple(np.flatnonzero(term)) for term in terms] == [(0, 1, 2), (0, 1, 3), (2, 3, 4)]
    with pytest.raises(TypeError, match="Received"):
        TermUnion(())


class TestProxies:
    @BY_TYPE
    def test_leaves_are_the_model(self, model):
        rng = np.random.default_rng(0)
        coalitions = rng.random((400, 8)) < 0.5
        values = smooth_game(8)(coalitions)
        model.fit(coalitions.astype(np.float32), values)
        difference = model.predict(coalitions.astype(np.float32))
        difference = difference - predict(leaves_of_model(model, 8), coalitions)
        assert np.ptp(difference) < 1e-5  # up to the constant; XGBoost adds in single precision

    @pytest.mark.filterwarnings("ignore:.*dart:UserWarning")
    def test_weighted_trees(self):
        coalitions = np.random.default_rng(0).random((400, 8)) < 0.5
        features = coalitions.astype(np.float32)
        model = xgboost.XGBRegressor(n_estimators=15, booster="dart", rate_drop=0.5)
        model.fit(features, smooth_game(8)(coalitions))
        leaves = predict(leaves_of_model(model, 8), coalitions)
        assert np.ptp(model.predict(features) - leaves) < 1e-5

    @BY_TYPE
    def test_a_model_of_the_users(self, model, capfd):
        screener = ProxySPEX(model=model)
        instance = OddSHAP(10, screener=screener, random_state=0)
        phi = phi_of(instance.approximate(600, PARITY))
        np.testing.assert_allclose(phi, PARITY_PHI, atol=1e-9)
        again = OddSHAP(10, screener=screener, random_state=0).approximate(600, PARITY)
        np.testing.assert_array_equal(phi_of(again), phi)
        assert capfd.readouterr() == ("", "")

    def test_grid_search(self):
        game = smooth_game(10)
        instance = OddSHAP(10, screener=ProxySPEX(grid=BUTLER_GRID), random_state=0)
        exact = phi_of(instance.approximate(2**10, game))
        phi = phi_of(instance.approximate(400, game))
        linear = phi_of(OddSHAP(10, screener="none", random_state=0).approximate(400, game))
        assert np.square(phi - exact).mean() < np.square(linear - exact).mean() / 10

    def test_grid_search_chooses(self):
        model = DecisionTreeRegressor()
        alone = ProxySPEX(model=DecisionTreeRegressor(max_depth=3))
        among = ProxySPEX(model=model, grid={"max_depth": [3]})
        screened = [
            s.screen(sample_of(PARITY, 10), 5, np.random.default_rng(0), parity="odd")
            for s in (alone, among)
        ]
        np.testing.assert_array_equal(*screened)

    def test_params_reach_lightgbm_under_any_name(self):
        one, other = (
            OddSHAP(10, screener=ProxySPEX(params), random_state=0).approximate(
                400, smooth_game(10)
            )
            for params in ({"n_estimators": 5}, {"num_iterations": 5})
        )
        np.testing.assert_array_equal(one.values, other.values)

    @pytest.mark.parametrize(
        ("model", "match"),
        [
            (HistGradientBoostingRegressor(max_iter=2), "HistGradientBoosting"),
            (xgboost.XGBRegressor(booster="gblinear"), "gbtree"),
        ],
        ids=["histograms", "linear"],
    )
    def test_models_that_cannot_be_read_are_named(self, model, match):
        with pytest.raises(TypeError, match=match):
            OddSHAP(8, screener=ProxySPEX(model=model)).approximate(120, random_game(8))

    def test_models_that_are_too_deep_are_refused(self, monkeypatch):
        monkeypatch.setattr("shapiq_oddshap.proxy._LARGEST_EXPANSION", 1000)
        with pytest.raises(ValueError, match="max_depth"):
            OddSHAP(9, random_state=0).approximate(300, random_game(9))

    def test_params_and_model_exclude_each_other(self):
        with pytest.raises(ValueError, match="Received params"):
            ProxySPEX({"max_depth": 3}, DecisionTreeRegressor())


def test_a_name_whose_strategy_needs_options_asks_for_an_instance(monkeypatch):
    class Needy(NoInteractions):
        def __init__(self, groups):
            self.groups = groups

    monkeypatch.setitem(SCREENERS, "needy", Needy)
    with pytest.raises(
        TypeError, match="screener='needy', which has no defaults.*groups.*instance"
    ):
        OddSHAP(5, screener="needy")
