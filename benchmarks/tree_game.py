"""The interventional game of a tree model, a bit per reference row: about ten times faster.

Also its leaves as products of "present" and "absent", whose Fourier spectrum is known exactly.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shapiq_oddshap.trees import Leaves

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shapiq.tree.base import TreeModel

    Literals = tuple[tuple[int, bool], ...]

__all__ = ["TreeGameValues"]

_BITS = 64


class _Split(NamedTuple):
    """A node where some reference row goes another way than the explained point.

    Attributes:
        player: The feature that is asked for.
        point_left: Whether the explained point goes left.
        rows_left: Which reference rows go left, a bit each.
        left: What follows on the left, a leaf's value or another node.
        right: What follows on the right.
    """

    player: int
    point_left: bool
    rows_left: int
    left: float | _Split
    right: float | _Split


class TreeGameValues:
    """Values of shapiq's ``InterventionalTreeGame``, without a prediction per reference row.

    Below a node, present players follow the explained point and absent ones the reference row, so
    that one integer per coalition tells which of up to 64 reference rows reach the node.
    """

    def __init__(
        self, model: object, references: np.ndarray, point: np.ndarray, class_index: int | None
    ) -> None:
        """Route the explained point and the reference rows through the trees.

        Args:
            model: A fitted model that shapiq can convert to trees.
            references: The reference rows, at most 64.
            point: The explained point.
            class_index: The explained class; ``None`` for regressors.

        Raises:
            ValueError: If there are more than 64 reference rows.
        """
        from shapiq.tree.validation import validate_tree_model

        self._rows, self._n = references.shape
        if self._rows > _BITS:
            msg = f"Received {self._rows} reference rows, but at most {_BITS} fit."
            raise ValueError(msg)
        self._everyone = (1 << self._rows) - 1
        self._roots = [
            _route(tree, int(tree.root_node_id), references, point, self._everyone)
            for tree in validate_tree_model(model, class_label=class_index)
        ]

    def __call__(self, coalitions: np.ndarray) -> np.ndarray:
        """Return the values of boolean rows."""
        columns = np.ascontiguousarray(np.asarray(coalitions, dtype=bool).T)
        total = np.zeros(columns.shape[1])
        everyone = np.full(columns.shape[1], self._everyone, dtype=np.uint64)
        for root in self._roots:
            _add(root, everyone, columns, total)
        total /= self._rows
        return total

    def leaves(self) -> Leaves:
        """Return the game as a sum of products of literals, its constant left out."""
        found: Counter[Literals] = Counter()
        for root in self._roots:
            _collect(root, self._everyone, {}, found)
        del found[()]
        lengths = np.array([len(literals) for literals in found], dtype=int)
        players = np.full((len(found), lengths.max(initial=0)), self._n)
        present = np.zeros(players.shape, dtype=bool)
        for row, literals in enumerate(found):
            players[row, : len(literals)] = [player for player, _ in literals]
            present[row, : len(literals)] = [needed for _, needed in literals]
        values = np.array([*found.values()]) / self._rows
        return Leaves(self._n, players, present, lengths, values)


def _route(
    tree: TreeModel, node: int, references: np.ndarray, point: np.ndarray, alive: int
) -> float | _Split:
    """Return a subtree; nodes where all rows that can get there go the point's way are skipped."""
    if tree.leaf_mask[node]:
        return float(tree.values[node])
    player, threshold = int(tree.features[node]), tree.thresholds[node]
    precision = np.dtype(tree.input_precision)
    compare = np.less if tree.decision_type == "<" else np.less_equal
    point_left = bool(compare(point[player].astype(precision), threshold))
    goes_left = compare(references[:, player].astype(precision), threshold)
    rows_left = sum(1 << int(row) for row in np.flatnonzero(goes_left)) & alive
    left, right = int(tree.children_left[node]), int(tree.children_right[node])
    if rows_left == (alive if point_left else 0):
        return _route(tree, left if point_left else right, references, point, alive)
    # towards the point's side come all rows: of coalitions with the player
    return _Split(
        player,
        point_left,
        rows_left,
        _route(tree, left, references, point, alive if point_left else rows_left),
        _route(tree, right, references, point, alive & ~rows_left if point_left else alive),
    )


def _add(node: float | _Split, rows: np.ndarray, columns: np.ndarray, total: np.ndarray) -> None:
    """Add a subtree's leaves, times the number of rows that reach them, to ``total``."""
    if not isinstance(node, _Split):
        total += node * np.bitwise_count(rows)
        return
    own_way = rows & np.uint64(node.rows_left)
    point_way = rows if node.point_left else np.uint64(0)
    left = np.where(columns[node.player], point_way, own_way)
    _add(node.left, left, columns, total)
    _add(node.right, rows ^ left, columns, total)


def _collect(
    node: float | _Split, rows: int, literals: Mapping[int, bool], found: Counter[Literals]
) -> None:
    """Add a subtree's leaves for the reference rows that get there under some literals.

    The player does not matter to rows that go the point's way. The others split into two leaves,
    or follow the literal where the path has asked for the player before.
    """
    if rows == 0:
        return
    if not isinstance(node, _Split):
        found[tuple(sorted(literals.items()))] += node * rows.bit_count()  # type: ignore[assignment]
        return
    with_point = rows & node.rows_left if node.point_left else rows & ~node.rows_left
    against = rows ^ with_point
    near, far = (node.left, node.right) if node.point_left else (node.right, node.left)
    known = literals.get(node.player)
    if known is None:
        _collect(near, with_point, literals, found)
        _collect(near, against, {**literals, node.player: True}, found)
        _collect(far, against, {**literals, node.player: False}, found)
    else:
        _collect(near, rows if known else with_point, literals, found)
        _collect(far, 0 if known else against, literals, found)
