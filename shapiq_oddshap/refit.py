"""Models that are fitted anew for every coalition of features: one fit serves every row and score."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Predict = Callable[[Any, np.ndarray], np.ndarray]
    Score = Callable[[Any, np.ndarray, np.ndarray], float]

__all__ = ["RefitGame"]

_turns = RLock()  # models that are fitted in place serve one thread at a time


class RefitGame:
    """A game of several outputs: a model fitted on a coalition's features alone, for every row.

    The value of a coalition is what the model predicts after it was fitted on these features, for
    each of the rows, or its scores on them. So the price of a coalition is one fit, whatever the
    number of rows and scores (remove and recontextualize, Rundel et al., 2024). The empty coalition
    is worth what the targets' mean or the classes' frequencies predict, which takes no fit. Every
    fit is one of a fresh copy, so that a game serves many threads at once.

    Attributes:
        n_players: The number of features.
        fits: How often the model was fitted so far, in this process.

    Examples:
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> from shapiq_oddshap import OddSHAP
        >>> X = np.random.default_rng(0).normal(size=(50, 4))
        >>> game = RefitGame(LinearRegression(), X, X @ np.arange(4.0), X[:10])
        >>> estimates = OddSHAP(n=4).estimate_outputs(16, game)
        >>> len(estimates), game.fits
        (10, 15)
    """

    def __init__(
        self,
        model: Any,  # noqa: ANN401 - any model of scikit-learn's protocol
        X: np.ndarray,
        y: np.ndarray,
        rows: np.ndarray,
        labels: np.ndarray | None = None,
        *,
        score: str | Score | Sequence[str | Score] | None = None,
        predict: Predict | None = None,
        empty: np.ndarray | float | None = None,
        in_place: bool = False,
    ) -> None:
        """Initialize the game; nothing is fitted.

        Args:
            model: A model with ``fit`` and ``predict``, or ``predict_proba``. Copies are fitted.
            X: Training data, shape ``(samples, n)``.
            y: Training targets, shape ``(samples,)``.
            rows: Rows to predict, shape ``(r, n)``.
            labels: The targets of the rows, which scores need, shape ``(r,)``.
            score: Scores instead of predictions: names of scikit-learn, or functions of a fitted
                model, rows and labels; one, or several, an output each.
            predict: A function of the fitted model and rows that returns an array whose first axis
                is that of the rows; further axes are outputs too. By default ``predict``, or of a
                classifier of two classes the probability of the second one, of more classes all.
            empty: What the empty coalition is worth, instead of the above.
            in_place: Whether to fit the model itself, since large ones are dear to copy. Threads
                then take turns; see :meth:`restore`.

        Raises:
            ValueError: If shapes do not match, or there are scores without labels, or with
                ``predict``.
        """
        X, rows = np.asarray(X), np.atleast_2d(rows)
        if X.ndim != 2 or X.shape[1] != rows.shape[1] or len(X) != len(y):
            msg = (
                f"Received X of shape {X.shape}, {len(y)} targets and rows of shape {rows.shape}, "
                "but (samples, n), samples and (r, n) are required."
            )
            raise ValueError(msg)
        if score is not None and (labels is None or len(labels) != len(rows) or predict):
            given = None if labels is None else len(labels)
            msg = (
                f"Received a score with {given} labels of {len(rows)} rows and predict={predict!r}. "
                "Please give a label for each row, and no predict."
            )
            raise ValueError(msg)
        self.n_players = X.shape[1]
        self.fits = 0
        self._model = model if in_place else _unfitted(model)
        self._in_place, self._partial = in_place, False
        self._X, self._y, self._rows = X, np.asarray(y), rows
        self._labels = np.zeros(0) if labels is None else np.asarray(labels)
        self._scores = _scorers(score)
        self._predict = predict or _predictions
        self._empty = None if empty is None else np.atleast_1d(np.asarray(empty, dtype=float))

    def __call__(self, coalitions: np.ndarray) -> np.ndarray:
        """Return the values of coalitions, shape ``(m, n)``, of all outputs, shape ``(m, k)``."""
        values = [self._fitted_on(coalition) for coalition in np.asarray(coalitions, dtype=bool)]
        return np.stack(np.broadcast_arrays(*values))

    def restore(self) -> None:
        """Fit a model in place to all features again if it was last fitted to some of them."""
        with _turns:
            if self._partial:
                self.fits += 1
                self._model.fit(self._X, self._y)
                self._partial = False

    def _fitted_on(self, coalition: np.ndarray) -> np.ndarray:
        """Fit on the features of a coalition, and return all outputs."""
        if not coalition.any():
            if self._empty is not None:
                return self._empty
            return self._outputs(self._baseline(), coalition)
        with _turns:
            self.fits += 1
        with _turns if self._in_place else nullcontext():
            model = self._model if self._in_place else _unfitted(self._model)
            self._partial = self._in_place and not coalition.all()
            model.fit(self._X[:, coalition], self._y)
            return self._outputs(model, coalition)

    def _outputs(self, fitted: Any, coalition: np.ndarray) -> np.ndarray:  # noqa: ANN401
        """Predict all rows, or score them."""
        rows = self._rows[:, coalition]
        if self._scores:
            return np.array([float(score(fitted, rows, self._labels)) for score in self._scores])
        return np.asarray(self._predict(fitted, rows), dtype=float).ravel()

    def _baseline(self) -> Any:  # noqa: ANN401
        """Return a model without features."""
        from sklearn.base import is_classifier  # noqa: PLC0415
        from sklearn.dummy import DummyClassifier, DummyRegressor  # noqa: PLC0415

        classifies = is_classifier(self._model) or hasattr(self._model, "predict_proba")
        dummy = DummyClassifier(strategy="prior") if classifies else DummyRegressor()
        return dummy.fit(self._X[:, :0], self._y)


def _unfitted(model: Any) -> Any:  # noqa: ANN401
    """Return a copy to fit: scikit-learn's clone where the model has parameters."""
    from sklearn.base import clone  # noqa: PLC0415 - needed here alone

    return clone(model) if hasattr(model, "get_params") else copy.deepcopy(model)


def _scorers(score: str | Score | Sequence[str | Score] | None) -> list[Score]:
    """Return functions of a model, rows and labels."""
    from sklearn.metrics import get_scorer  # noqa: PLC0415

    if score is None:
        return []
    several = [score] if isinstance(score, str) or callable(score) else list(score)
    return [get_scorer(one) if isinstance(one, str) else one for one in several]


def _predictions(model: Any, rows: np.ndarray) -> np.ndarray:  # noqa: ANN401
    """Predict rows; see :class:`RefitGame`."""
    if not hasattr(model, "predict_proba"):
        return np.asarray(model.predict(rows))
    probabilities = np.asarray(model.predict_proba(rows))
    return probabilities[:, 1] if probabilities.shape[1] == 2 else probabilities
