"""What the estimates of many rows say of the model as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import shapiq
from scipy.special import ndtri

from shapiq_oddshap.diagnostics import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

__all__ = ["Summary"]


@dataclass(frozen=True, eq=False)
class Summary:
    """Mean absolute Shapley values over rows, with what is known of their errors, and their plots.

    Attributes:
        estimates: The estimates, one per row.
        means: Mean |φ| of every player, shape ``(n,)``.
        errors: Standard errors of the means for these rows, shape ``(n,)``; ``None`` where the
            approximator does not estimate variances. Rows that share their coalitions may err alike,
            so that they are the means of the rows' standard errors, as if all did.

    Examples:
        >>> import numpy as np
        >>> from shapiq_oddshap import OddGP
        >>> game = lambda coalitions: coalitions @ np.array([[1.0, -3.0], [2.0, 2.0], [0.0, 0.0]])
        >>> summary = Summary.of(OddGP(n=3).estimate_outputs(8, game))
        >>> summary.means.round(9).tolist(), summary.errors.tolist()
        ([2.0, 2.0, 0.0], [0.0, 0.0, 0.0])
    """

    estimates: tuple[Estimate, ...]
    means: np.ndarray
    errors: np.ndarray | None

    @classmethod
    def of(cls, estimates: Sequence[Estimate]) -> Summary:
        """Average estimates of rows of the same players.

        Raises:
            TypeError: If they are no estimates.
            ValueError: If there are none, or their numbers of players differ.
        """
        for estimate in estimates:
            if not isinstance(estimate, Estimate):
                msg = (
                    f"Received a {type(estimate).__name__} among the estimates, but an Estimate is "
                    "required. Of all classes of several rows, please pass those of one class."
                )
                raise TypeError(msg)
        players = {estimate.values.n_players for estimate in estimates}
        if len(players) != 1:
            msg = (
                f"Received {len(estimates)} estimates of {sorted(players)} players, but at least "
                "one is required, and the same number of players in all of them."
            )
            raise ValueError(msg)
        phi = np.array([estimate.values.get_n_order_values(1) for estimate in estimates])
        n = phi.shape[1]  # of interactions there are variances too
        variances = [e.variances[:n] for e in estimates if e.variances is not None]
        known = len(variances) == len(phi)
        errors = np.sqrt(variances).mean(axis=0) if known else None
        return cls(tuple(estimates), np.abs(phi).mean(axis=0), errors)

    def plot_bar(
        self,
        feature_names: Sequence[str] | None = None,
        *,
        confidence: float = 0.9,
        max_display: int | None = 10,
    ) -> Axes:
        """Draw shapiq's bar plot of the means, with intervals of the players where there are variances.

        Args:
            feature_names: The players' names.
            confidence: Probability that an interval is meant to hold the mean with.
            max_display: Bars at most; ``None`` for all.

        Returns:
            The axes, to go on with.
        """
        n = len(self.means)
        # the labels come back as places, whatever order the plot has put them in
        places = {f"player {player}": player for player in range(n)}
        axes = shapiq.plot.bar_plot(
            [estimate.values for estimate in self.estimates],
            feature_names=list(places),
            abbreviate=False,
            max_display=max_display,
            show=False,
        )
        labels = [label.get_text() for label in axes.get_yticklabels()]
        names = list(places) if feature_names is None else list(feature_names)
        shown = [(y, places.get(label)) for y, label in zip(axes.get_yticks(), labels, strict=True)]
        if self.errors is not None:
            half = float(ndtri(0.5 + confidence / 2)) * self.errors
            # the plot has two labels at each bar, a hair apart, to colour what is before the name
            for y, player in {round(float(y), 6): player for y, player in shown}.items():
                if player is not None:
                    axes.errorbar(
                        self._bar(player), y, xerr=half[player], color="0.2", capsize=3, zorder=5
                    )
        parts = [label.split(" x ") for label in labels]  # an interaction has several players
        axes.set_yticks(
            [y for y, _ in shown],
            [
                " x ".join(names[places[part]] if part in places else part for part in of_these)
                for of_these in parts
            ],
        )
        return axes

    def plot_beeswarm(self, data: np.ndarray, **options: Any) -> Axes:  # noqa: ANN401
        """Draw shapiq's beeswarm plot: a point per row and player.

        Args:
            data: The rows, whose values colour the points, shape ``(rows, n)``.
            **options: Options of :func:`shapiq.plot.beeswarm_plot`, such as ``feature_names``.

        Returns:
            The axes, to go on with.
        """
        values = [estimate.values for estimate in self.estimates]
        return shapiq.plot.beeswarm_plot(values, data, show=False, **options)

    def _bar(self, player: int) -> float:
        """Return where a bar ends: of a single row it is signed, in shapiq's plot."""
        if len(self.estimates) > 1:
            return float(self.means[player])
        return float(self.estimates[0].values.get_n_order_values(1)[player])
