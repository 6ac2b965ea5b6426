"""From gradient-boosted trees on coalitions to their exact Fourier spectrum and Shapley values.

Coalitions are 0/1 features, so a leaf is a product of literals: with P the players that its path
needs present and A those absent, leaf(S) = v·1[P ⊆ S, A ∩ S = ∅].
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lightgbm
import numpy as np
from scipy.special import gammaln

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Leaves",
    "Spectrum",
    "checked_params",
    "fit_model",
    "fit_proxy",
    "fourier_spectrum",
    "leaves_of_booster",
    "leaves_of_model",
    "predict",
    "proxy_regressor",
    "shapley_values",
]

_PROXY_DEFAULTS: dict[str, Any] = {
    "objective": "regression",
    "max_depth": 10,  # the paper's only departure from LightGBM's defaults
    "num_threads": 1,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,  # spares the timing of both layouts, whose winner would vary
    "enable_bundle": False,  # coalitions are dense: there is nothing to bundle
    "bin_construct_sample_cnt": 1000,  # a player's two bins are seen in far fewer rows
}
_QUANTISED = {"use_quantized_grad": True}
"""A third of the training time saved, at no loss in the terms found."""

_QUANTISED_BESIDE = {
    "lambda_l1",
    "lambda_l2",
    "learning_rate",
    "max_depth",
    "min_data_in_leaf",
    "min_gain_to_split",
    "min_sum_hessian_in_leaf",
    "num_iterations",
    "num_leaves",
    "seed",
    "verbosity",
}
"""Parameters that quantised gradients are combined with: LightGBM 4 goes wrong where they meet
subsets of rows or columns (its pull request 7397)."""


@dataclass(frozen=True)
class Leaves:
    """The leaves of a tree ensemble over ``n`` players.

    Attributes:
        n: Number of players.
        players: Players on each leaf's path, padded with ``n``, shape ``(leaves, depth)``.
        present: Whether the path needs the player present, shape ``(leaves, depth)``.
        lengths: Path lengths, shape ``(leaves,)``.
        values: Leaf values, shape ``(leaves,)``.
    """

    n: int
    players: np.ndarray
    present: np.ndarray
    lengths: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Spectrum:
    """Fourier coefficients of a function, those that can be non-zero, each term once.

    Attributes:
        n: Number of players.
        coefficients: β_T, shape ``(n_terms,)``.
        players: The players of each term, padded with ``n``, shape ``(n_terms, depth)``.
    """

    n: int
    coefficients: np.ndarray
    players: np.ndarray

    @property
    def orders(self) -> np.ndarray:
        """The interaction orders |T|, shape ``(n_terms,)``."""
        return np.sum(self.players < self.n, axis=1)

    def largest(self, count: int, *, min_order: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return the non-zero terms of the largest |β_T|, largest first.

        Args:
            count: How many terms at most.
            min_order: Smallest interaction order.

        Returns:
            Boolean rows, shape ``(k, n)``, and their coefficients, shape ``(k,)``.
        """
        candidates = np.flatnonzero((self.orders >= min_order) & (self.coefficients != 0))
        ranked = np.argsort(-np.abs(self.coefficients[candidates]), kind="stable")[:count]
        chosen = candidates[ranked]
        return self.terms(chosen), self.coefficients[chosen]

    def terms(self, chosen: np.ndarray) -> np.ndarray:
        """Return the chosen terms as boolean rows of shape ``(len(chosen), n)``."""
        rows = np.zeros((len(chosen), self.n + 1), dtype=bool)
        np.put_along_axis(rows, self.players[chosen], values=True, axis=1)
        return rows[:, : self.n]

    def importance(self) -> np.ndarray:
        """Return per player the root of the summed squared coefficients, shape ``(n,)``."""
        energy = np.zeros(self.n + 1)
        top = np.abs(self.coefficients).max(initial=0.0) or 1.0  # squares might overflow
        np.add.at(energy, self.players, ((self.coefficients / top) ** 2)[:, None])
        return np.sqrt(energy[: self.n]) * top


def fit_proxy(
    coalitions: np.ndarray, values: np.ndarray, params: Mapping[str, Any] | None, seed: int
) -> Leaves:
    """Fit the LightGBM proxy on evaluated coalitions and return its leaves.

    LightGBM keeps labels in single precision, so that they are centred and scaled first; the
    constant is left out of the leaves, since it carries no odd coefficient.

    Args:
        coalitions: Boolean rows, shape ``(m, n)``.
        values: The game's values, shape ``(m,)``.
        params: LightGBM parameters (any alias) that replace the paper's.
        seed: LightGBM's seed.

    Returns:
        The leaves in units of ``values``; none if the proxy is constant.
    """
    n = coalitions.shape[1]
    centre = values.mean()
    scale = np.abs(values - centre).max()
    if scale <= 1e-12 * np.abs(values).max(initial=0.0):
        return _no_leaves(n)
    merged = {"seed": seed} | _proxy_params(params)
    rounds = int(merged.pop("num_iterations", 100))
    data = lightgbm.Dataset(
        coalitions.astype(np.float32), label=(values - centre) / scale, params=merged
    )
    booster = lightgbm.train(merged, data, num_boost_round=rounds)
    leaves = leaves_of_booster(booster, n)
    return Leaves(n, leaves.players, leaves.present, leaves.lengths, leaves.values * scale)


def checked_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return LightGBM parameters by their main names, translated from any alias.

    Raises:
        TypeError: If they are no mapping.
        ValueError: If LightGBM has no parameter of a name.
    """
    if not isinstance(params, Mapping):
        msg = f"Received proxy parameters {params!r}, but a mapping such as {{'max_depth': 5}} is required."
        raise TypeError(msg)
    main = {
        alias: name
        for name, aliases in lightgbm.basic._ConfigAliases._get_all_param_aliases().items()  # noqa: SLF001
        for alias in [name, *aliases]
    }
    unknown = sorted(params.keys() - main.keys())
    if unknown:
        msg = f"Received the proxy parameters {unknown}, but LightGBM has none of these names."
        raise ValueError(msg)
    return {main[name]: value for name, value in params.items()}


def _proxy_params(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the proxy's parameters, those of the user among them."""
    own = checked_params(params or {})
    quantised = _QUANTISED if own.keys() <= _QUANTISED_BESIDE else {}
    return _PROXY_DEFAULTS | quantised | own


def _no_leaves(n: int) -> Leaves:
    empty = np.zeros((0, 0), dtype=int)
    return Leaves(n, empty, empty.astype(bool), np.zeros(0, dtype=int), np.zeros(0))


def leaves_of_booster(booster: lightgbm.Booster, n: int) -> Leaves:
    """Read the leaves of a LightGBM model on 0/1 features from its text form.

    Args:
        booster: The model.
        n: Number of players (features).

    Returns:
        Its leaves; trees without a split have none.
    """
    left, right, feature, value, roots = _forest(booster.model_to_string())
    players, present, lengths, ends = _paths(left, right, feature, roots, n)
    return Leaves(n, players, present, lengths, value[ends])


def _forest(text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Parse a model text into arrays over all trees: children, features, leaf values, roots.

    Inner nodes are numbered from zero over the trees; leaf j of the forest is written ``~j``.
    """
    lefts, rights, features, values, roots = [], [], [], [], []
    nodes = leaves = 0
    for tree in text.split("\nTree=")[1:]:
        fields = dict(line.split("=", 1) for line in tree.split("\n") if "=" in line)
        value = np.array(fields["leaf_value"].split(), dtype=float)
        if len(value) < 2:
            continue
        left = np.array(fields["left_child"].split(), dtype=int)
        right = np.array(fields["right_child"].split(), dtype=int)
        lefts.append(np.where(left < 0, left - leaves, left + nodes))
        rights.append(np.where(right < 0, right - leaves, right + nodes))
        features.append(np.array(fields["split_feature"].split(), dtype=int))
        values.append(value)
        roots.append(nodes)
        nodes += len(left)
        leaves += len(value)
    none = np.zeros(0, dtype=int)
    return (
        np.concatenate([none, *lefts]),
        np.concatenate([none, *rights]),
        np.concatenate([none, *features]),
        np.concatenate([np.zeros(0), *values]),
        np.array(roots, dtype=int),
    )


def _paths(
    left: np.ndarray, right: np.ndarray, feature: np.ndarray, roots: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Walk all trees level by level and return players, literals, length and index by leaf.

    On 0/1 features a split sends the absent left and the present right, and no path splits twice
    on a player.
    """
    frontier = roots
    players = np.zeros((len(roots), 0), dtype=int)
    present = np.zeros((len(roots), 0), dtype=bool)
    done: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    while len(frontier):
        split = feature[frontier]
        children = np.concatenate([left[frontier], right[frontier]])
        literal = np.repeat([False, True], len(frontier))
        players = np.column_stack([np.vstack([players, players]), np.concatenate([split, split])])
        present = np.column_stack([np.vstack([present, present]), literal])
        leaf = children < 0
        done.append((players[leaf], present[leaf], ~children[leaf]))
        frontier, players, present = children[~leaf], players[~leaf], present[~leaf]
    depth = len(done)
    pad = [(0, 0), (0, 0)]
    all_players, all_present, lengths, ends = [], [], [], []
    for length, (block, literals, index) in enumerate(done, start=1):
        pad[1] = (0, depth - length)
        all_players.append(np.pad(block, pad, constant_values=n))
        all_present.append(np.pad(literals, pad))
        lengths.append(np.full(len(block), length))
        ends.append(index)
    if not done:
        empty = _no_leaves(n)
        return empty.players, empty.present, empty.lengths, np.zeros(0, dtype=int)
    return (
        np.concatenate(all_players),
        np.concatenate(all_present),
        np.concatenate(lengths),
        np.concatenate(ends),
    )


def predict(leaves: Leaves, coalitions: np.ndarray) -> np.ndarray:
    """Evaluate the ensemble on coalitions, up to its constant.

    Args:
        leaves: The ensemble.
        coalitions: Boolean rows, shape ``(m, n)``.

    Returns:
        Predictions, shape ``(m,)``.
    """
    # A leaf is reached when as many literals hold as its path has: one matrix product tells.
    literals = np.zeros((len(leaves.values), leaves.n + 1), dtype=np.float32)
    np.put_along_axis(literals, leaves.players, np.where(leaves.present, 1.0, -1.0), axis=1)
    literals = literals[:, : leaves.n]
    needed = leaves.present.sum(axis=1)
    reached = coalitions.astype(np.float32) @ literals.T == needed
    return reached @ leaves.values


def shapley_values(leaves: Leaves) -> np.ndarray:
    """Return the ensemble's exact Shapley values (TreeSHAP on present against absent).

    With p present and q absent literals, a leaf of value v gives v(p-1)!q!/(p+q)! to each present
    and -v p!(q-1)!/(p+q)! to each absent player.

    Args:
        leaves: The ensemble.

    Returns:
        Shapley values in units of the leaf values, shape ``(n,)``.
    """
    p = leaves.present.sum(axis=1)
    q = leaves.lengths - p
    log_total = gammaln(p + q + 1)
    # where there are none to get it, their share is never read: 1 instead of 0 keeps it finite
    to_present = np.exp(gammaln(np.maximum(p, 1)) + gammaln(q + 1) - log_total)
    to_absent = np.exp(gammaln(p + 1) + gammaln(np.maximum(q, 1)) - log_total)
    shares = np.where(leaves.present, to_present[:, None], -to_absent[:, None])
    real = leaves.players < leaves.n
    gains = (leaves.values[:, None] * shares)[real]
    return np.bincount(leaves.players[real], gains, minlength=leaves.n)


def fourier_spectrum(leaves: Leaves, *, odd_only: bool = True) -> Spectrum:
    """Expand the ensemble in the parity basis: β_T = v 2^-(p+q) (-1)^|T ∩ P| for T ⊆ P ∪ A.

    Leaves are expanded by path length, each group at once, and terms are added up by key.

    Args:
        leaves: The ensemble.
        odd_only: Whether to leave out the terms of even order.

    Returns:
        The spectrum; without the constant if ``odd_only``, else but for the model's base value.
    """
    n, depth = leaves.n, leaves.players.shape[1]
    code = _player_codes(n)
    keys, coefficients, sources = [], [], []
    for length in np.unique(leaves.lengths).tolist():
        group = np.flatnonzero(leaves.lengths == length)
        subsets = (np.arange(2**length)[:, None] >> np.arange(length) & 1).astype(bool)
        if odd_only:
            subsets = subsets[subsets.sum(axis=1) % 2 == 1]
        flips = leaves.present[group, :length].astype(np.float32) @ subsets.T.astype(np.float32)
        signs = 1.0 - 2.0 * (flips % 2)
        coefficients.append((signs * (leaves.values[group] / 2**length)[:, None]).ravel())
        keys.append((code[leaves.players[group, :length]] @ subsets.T.astype(np.uint64)).ravel())
        members = np.zeros((len(subsets), depth), dtype=bool)
        members[:, :length] = subsets
        sources.append((group, members))
    if not keys:
        return Spectrum(n, np.zeros(0), np.zeros((0, 0), dtype=int))
    _, first, index = np.unique(np.concatenate(keys), return_index=True, return_inverse=True)
    added = np.bincount(index.ravel(), np.concatenate(coefficients))
    return Spectrum(n, added, _players_of(first, sources, leaves))


def _player_codes(n: int) -> np.ndarray:
    """Return one ``uint64`` per player whose sums tell terms apart.

    Up to 64 players these are the bits, beyond they are random: two of a million terms then share
    a sum with a probability below 1e-7.
    """
    if n <= 64:
        return np.uint64(1) << np.arange(n, dtype=np.uint64)
    return np.random.default_rng(0).integers(2**64, size=n, dtype=np.uint64)


def _players_of(
    chosen: np.ndarray, sources: list[tuple[np.ndarray, np.ndarray]], leaves: Leaves
) -> np.ndarray:
    """Return the players of the chosen (leaf, subset) pairs, which are numbered through."""
    players = np.full((len(chosen), leaves.players.shape[1]), leaves.n)
    offset = 0
    for group, members in sources:
        size = len(group) * len(members)
        here = np.flatnonzero((chosen >= offset) & (chosen < offset + size))
        leaf, subset = np.divmod(chosen[here] - offset, len(members))
        players[here] = np.where(members[subset], leaves.players[group[leaf]], leaves.n)
        offset += size
    return players


def proxy_regressor(params: Mapping[str, Any] | None) -> lightgbm.LGBMRegressor:
    """Return the proxy of :func:`fit_proxy` as a regressor of scikit-learn's protocol.

    Args:
        params: LightGBM parameters (any alias) that replace the paper's.
    """
    merged = _proxy_params(params)
    return lightgbm.LGBMRegressor(n_estimators=merged.pop("num_iterations", 100), **merged)


def fit_model(
    coalitions: np.ndarray,
    values: np.ndarray,
    model: Any,  # noqa: ANN401 - any regressor of scikit-learn's protocol
    grid: Mapping[str, Sequence[Any]] | None,
    seed: int,
) -> Leaves:
    """Fit a tree ensemble of scikit-learn's protocol and return its leaves.

    The model itself is left unfitted. Where it leaves them open it gets the seed and one thread, and
    LightGBM's, which would print on stdout, silence.

    Args:
        coalitions: Boolean rows, shape ``(m, n)``.
        values: The game's values, shape ``(m,)``.
        model: The regressor.
        grid: Candidate values by parameter, chosen among by five-fold cross-validation, or ``None``.
        seed: The seed.

    Returns:
        The leaves in units of ``values``; none if the values are constant.

    Raises:
        TypeError: If the model is no tree ensemble that can be read.
    """
    from sklearn.base import clone  # noqa: PLC0415 - needed here alone
    from sklearn.model_selection import GridSearchCV, KFold  # noqa: PLC0415

    n = coalitions.shape[1]
    centre = values.mean()
    scale = np.abs(values - centre).max()
    if scale <= 1e-12 * np.abs(values).max(initial=0.0):
        return _no_leaves(n)
    estimator = clone(model)
    options = estimator.get_params()
    settled = {"random_state": seed, "n_jobs": 1}
    estimator.set_params(
        **{name: value for name, value in settled.items() if options.get(name, 0) is None}
    )
    if isinstance(estimator, lightgbm.LGBMModel) and not {"verbose", "verbosity"} & options.keys():
        estimator.set_params(verbosity=-1)
    if grid is not None:
        folds = KFold(min(5, len(values)), shuffle=True, random_state=seed)
        candidates = {name: list(choices) for name, choices in grid.items()}
        estimator = GridSearchCV(estimator, candidates, cv=folds, scoring="neg_mean_squared_error")
    estimator.fit(coalitions.astype(np.float32), (values - centre) / scale)
    fitted = estimator if grid is None else estimator.best_estimator_
    leaves = leaves_of_model(fitted, n)
    return Leaves(n, leaves.players, leaves.present, leaves.lengths, leaves.values * scale)


def leaves_of_model(model: Any, n: int) -> Leaves:  # noqa: ANN401
    """Read the leaves of a fitted tree ensemble on 0/1 features.

    Args:
        model: LightGBM's or XGBoost's regressor, or scikit-learn's decision tree, random forest,
            extra trees or gradient boosting.
        n: Number of players (features).

    Returns:
        Its leaves; trees without a split have none.

    Raises:
        TypeError: If the model is none of these.
    """
    if hasattr(model, "booster_"):
        return leaves_of_booster(model.booster_, n)
    if hasattr(model, "get_booster"):
        return _leaves_of_nodes(_xgboost_nodes(model.get_booster()), n)
    trees = [model] if hasattr(model, "tree_") else np.ravel(getattr(model, "estimators_", []))
    if len(trees) == 0 or not all(hasattr(tree, "tree_") for tree in trees):
        msg = (
            f"Received a proxy model of type {type(model).__name__}, but a LightGBM or XGBoost "
            "regressor, or scikit-learn's decision tree, random forest, extra trees or gradient "
            "boosting is required."
        )
        raise TypeError(msg)
    # Boosting adds its trees up, shrunken; forests average theirs.
    factor = getattr(model, "learning_rate", 1.0 / len(trees))
    nodes = [tree.tree_ for tree in trees]
    return _leaves_of_nodes(
        [
            (node.children_left, node.children_right, node.feature, factor * node.value[:, 0, 0])
            for node in nodes
        ],
        n,
    )


_Nodes = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""By node of a tree: left child, right child (-1 at leaves), feature, value (of leaves)."""


def _xgboost_nodes(booster: Any) -> list[_Nodes]:  # noqa: ANN401
    """Read the trees of an XGBoost model from its JSON form, where leaves keep their values.

    With dropout the trees have weights, beside the model or, from XGBoost 3.3 on, in it.
    """
    boosting = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]
    model = boosting.get("gbtree", boosting)["model"]
    if "trees" not in model:
        msg = (
            f"Received an XGBoost model of booster={boosting['name']!r}, but trees are required. "
            "Please pass booster='gbtree'."
        )
        raise TypeError(msg)
    trees = model["trees"]
    weights = boosting.get("weight_drop") or model.get("weight_drop") or np.ones(len(trees))
    return [
        (
            np.array(tree["left_children"]),
            np.array(tree["right_children"]),
            np.array(tree["split_indices"]),
            weight * np.array(tree["split_conditions"]),
        )
        for tree, weight in zip(trees, weights, strict=True)
    ]


def _leaves_of_nodes(trees: list[_Nodes], n: int) -> Leaves:
    """Number inner nodes and leaves over all trees and walk the paths."""
    lefts, rights, features, values, roots = [], [], [], [], []
    nodes = leaves = 0
    for left, right, feature, value in trees:
        leaf = left < 0
        if leaf[0]:
            continue
        number = np.where(leaf, ~(leaves + np.cumsum(leaf) - 1), nodes + np.cumsum(~leaf) - 1)
        lefts.append(number[left[~leaf]])
        rights.append(number[right[~leaf]])
        features.append(feature[~leaf])
        values.append(value[leaf])
        roots.append(nodes)
        nodes += int(np.sum(~leaf))
        leaves += int(np.sum(leaf))
    if not roots:
        return _no_leaves(n)
    forest = [np.concatenate(column) for column in (lefts, rights, features)]
    players, present, lengths, ends = _paths(forest[0], forest[1], forest[2], np.array(roots), n)
    return Leaves(n, players, present, lengths, np.concatenate(values)[ends])
