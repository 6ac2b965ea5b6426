"""The demo: explain a gradient-boosted model with OddSHAP and compare with the exact values.

Run ``python -m shapiq_oddshap --help``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shapiq_oddshap import trees

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shapiq import InteractionValues

_BACKGROUND = 50
_TOP = 10


def main(arguments: Sequence[str] | None = None) -> None:
    """Train a model, explain one row and print the largest attributions beside the exact ones.

    Args:
        arguments: Command-line arguments; ``sys.argv`` by default.
    """
    options = _parser().parse_args(arguments)
    if not options.output.parent.is_dir():
        _parser().error(f"--output {options.output}: there is no folder {options.output.parent}.")
    import shapiq
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.model_selection import train_test_split

    data = load_breast_cancer()
    train, test, labels, _ = train_test_split(data.data, data.target, random_state=0)
    if not 0 <= options.row < len(test):
        _parser().error(f"--row {options.row}: the test data has the rows 0 to {len(test) - 1}.")
    if options.budget < 2:
        _parser().error(f"--budget {options.budget}: at least 2 evaluations are required.")
    model = GradientBoostingClassifier(random_state=0).fit(train, labels)
    background, row = train[:_BACKGROUND], test[options.row]

    explainer = shapiq.TabularExplainer(
        model.decision_function,
        background,
        approximator="oddshap",
        index="SV",
        max_order=1,
        sample_size=_BACKGROUND,
        random_state=42,
    )
    values = explainer.explain(row, budget=options.budget)
    exact = exact_shapley_values(model, row, background)

    print(
        f"Explained test row {options.row} of scikit-learn's breast-cancer data with "
        f"{values.estimation_budget} evaluations\n(log-odds of a gradient-boosted model, "
        f"{_BACKGROUND} background rows).\n"
    )
    print(_table(values, exact, data.feature_names))
    _plot(values, data.feature_names, options.output)
    print(f"\nWaterfall plot: {options.output}")


def exact_shapley_values(model: Any, row: np.ndarray, background: np.ndarray) -> np.ndarray:  # noqa: ANN401
    """Return exact interventional Shapley values of scikit-learn's binary gradient boosting.

    For one background row, every condition on a path holds for the explained row, the background
    row, both or neither; a leaf is then a product of literals, whose Shapley values are known.

    Args:
        model: A fitted ``GradientBoostingClassifier`` of two classes.
        row: The explained row, shape ``(n,)``.
        background: Background rows, shape ``(rows, n)``.

    Returns:
        Shapley values of the decision function, shape ``(n,)``.
    """
    reached = [
        leaf
        for estimator in model.estimators_[:, 0]
        for reference in background
        for leaf in _literals(estimator.tree_, row.astype(np.float32), reference.astype(np.float32))
    ]
    n, depth = len(row), max(len(present) + len(absent) for _, present, absent in reached)
    players = np.full((len(reached), depth), n)
    literals = np.zeros((len(reached), depth), dtype=bool)
    lengths = np.zeros(len(reached), dtype=int)
    for leaf, (_, present, absent) in enumerate(reached):
        lengths[leaf] = len(present) + len(absent)
        players[leaf, : lengths[leaf]] = [*present, *absent]
        literals[leaf, : len(present)] = True
    leaf_values = np.array([value for value, _, _ in reached])
    leaves = trees.Leaves(n, players, literals, lengths, leaf_values)
    return trees.shapley_values(leaves) * model.learning_rate / len(background)


def _literals(
    tree: Any,  # noqa: ANN401
    row: np.ndarray,
    reference: np.ndarray,
) -> list[tuple[float, set[int], set[int]]]:
    """Return per reachable leaf its value, the features it takes from row and from reference."""
    stack: list[tuple[int, set[int], set[int]]] = [(0, set(), set())]
    leaves = []
    while stack:
        node, present, absent = stack.pop()
        feature = tree.feature[node]
        if feature < 0:
            if present or absent:
                leaves.append((float(tree.value[node, 0, 0]), present, absent))
            continue
        for child, low in ((tree.children_left[node], True), (tree.children_right[node], False)):
            by_row = (row[feature] <= tree.threshold[node]) == low
            by_reference = (reference[feature] <= tree.threshold[node]) == low
            if by_row and by_reference:
                stack.append((child, present, absent))
            elif by_row and feature not in absent:
                stack.append((child, present | {int(feature)}, absent))
            elif by_reference and feature not in present:
                stack.append((child, present, absent | {int(feature)}))
    return leaves


def _table(values: InteractionValues, exact: np.ndarray, names: np.ndarray) -> str:
    """Return the largest attributions beside the exact ones, and the error over all."""
    phi = values.get_n_order_values(1)
    lines = [f"{'feature':26s}{'OddSHAP':>12s}{'exact':>12s}{'error':>12s}"]
    lines += [
        f"{names[i]:26s}{phi[i]:12.6f}{exact[i]:12.6f}{phi[i] - exact[i]:12.1e}"
        for i in np.argsort(-np.abs(phi))[:_TOP]
    ]
    error = np.mean((phi - exact) ** 2)
    lines.append(f"\nMean squared error over {len(phi)} features: {error:.1e}")
    return "\n".join(lines)


def _plot(values: InteractionValues, names: np.ndarray, output: Path) -> None:
    """Write shapiq's waterfall plot."""
    import matplotlib as mpl

    mpl.use("Agg")
    axes = values.plot_waterfall(feature_names=list(names), show=False, abbreviate=False)
    axes.get_figure().savefig(output, dpi=150, bbox_inches="tight")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m shapiq_oddshap",
        description="Train a model, explain a row and print the largest attributions beside the exact ones.",
    )
    parser.add_argument("--budget", type=int, default=2000, help="evaluations (default: 2000)")
    parser.add_argument("--row", type=int, default=0, help="row of the test data (default: 0)")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("oddshap-waterfall.png"),
        help="where the waterfall plot goes (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    main()
