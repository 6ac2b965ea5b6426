"""Readers of fitted models: LightGBM, XGBoost, and the trees of scikit-learn."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from shapiq_oddshap.trees.leaves import Leaves, no_leaves

if TYPE_CHECKING:
    import lightgbm

__all__ = ["leaves_of_booster", "leaves_of_model"]

_FIELDS = {
    "num_leaves": int,
    "split_feature": int,
    "left_child": int,
    "right_child": int,
    "leaf_value": float,
}
"""What is read of a LightGBM model's text."""

_Nodes = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""By node of a tree: left child, right child (-1 at leaves), feature, value (of leaves)."""


def leaves_of_booster(booster: lightgbm.Booster, n: int) -> Leaves:
    """Read the leaves of a LightGBM model on 0/1 features from its text form.

    Args:
        booster: The model.
        n: Number of players (features).

    Returns:
        Its leaves; trees without a split have none.

    Raises:
        TypeError: If there are linear models in the leaves.
    """
    text = booster.model_to_string()
    if "\nis_linear=1" in text:
        msg = "Received trees with linear_tree=True, but constants in the leaves are required."
        raise TypeError(msg)
    left, right, feature, value, roots = _forest(text)
    players, present, lengths, ends = _paths(left, right, feature, roots, n)
    return Leaves(n, players, present, lengths, value[ends])


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


def _forest(text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Parse a model text into arrays over all trees: children, features, leaf values, roots.

    Inner nodes are numbered from zero over the trees; leaf j of the forest is written ``~j``.
    """
    numbers = _numbers(text)
    leaves = numbers["num_leaves"]
    split = leaves > 1
    nodes = (leaves - 1)[split]
    roots, firsts = np.cumsum(nodes) - nodes, np.cumsum(leaves[split]) - leaves[split]
    root, first = np.repeat(roots, nodes), np.repeat(firsts, nodes)
    left, right = numbers["left_child"], numbers["right_child"]
    return (
        np.where(left < 0, left - first, left + root),
        np.where(right < 0, right - first, right + root),
        numbers["split_feature"],
        numbers["leaf_value"][np.repeat(split, leaves)],
        roots,
    )


def _numbers(text: str) -> dict[str, np.ndarray]:
    """Return the numbers that a model text has in the fields that are read, of all trees in a row."""
    lines: dict[str, list[str]] = {field: [] for field in _FIELDS}
    for field, numbers in re.findall(f"\n({'|'.join(_FIELDS)})=(.*)", text):
        lines[field].append(numbers)
    return {
        field: np.fromstring(" ".join(lines[field]), dtype=kind, sep=" ")
        for field, kind in _FIELDS.items()
    }


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
        return no_leaves(n)
    forest = [np.concatenate(column) for column in (lefts, rights, features)]
    players, present, lengths, ends = _paths(forest[0], forest[1], forest[2], np.array(roots), n)
    return Leaves(n, players, present, lengths, np.concatenate(values)[ends])


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
    if not done:
        empty = no_leaves(n)
        return empty.players, empty.present, empty.lengths, np.zeros(0, dtype=int)
    counts = [len(index) for _, _, index in done]
    lengths = np.repeat(np.arange(1, len(done) + 1), counts)
    all_players = np.full((len(lengths), len(done)), n)
    all_present = np.zeros((len(lengths), len(done)), dtype=bool)
    start = 0
    for length, (block, literals, index) in enumerate(done, start=1):
        rows = slice(start, start + len(index))
        all_players[rows, :length], all_present[rows, :length] = block, literals
        start = rows.stop
    return all_players, all_present, lengths, np.concatenate([index for _, _, index in done])
