"""The ablations of OddSHAP: paired or unpaired sampling, odd or all terms."""

from __future__ import annotations

from shapiq_oddshap.approximators.oddshap import FourierRegression

__all__ = ["PairedAllSHAP", "UnpairedAllSHAP", "UnpairedOddSHAP"]


class PairedAllSHAP(FourierRegression):
    """Paired sampling, terms of both parities (paper, "Ablation of Paired and Non-Paired Sampling").

    The even terms do not touch the odd ones (Theorem 3.2), but take places of the ⌈m/η⌉ terms: with
    the same odd terms the estimate is OddSHAP's, in practice there are fewer of them.

    Examples:
        >>> import numpy as np
        >>> game = lambda coalitions: coalitions @ np.arange(8.0)
        >>> values = PairedAllSHAP(n=8, random_state=42).approximate(budget=100, game=game)
        >>> np.allclose(values.get_n_order_values(1), np.arange(8))
        True

    See Also:
        - :class:`~shapiq_oddshap.OddSHAP`: the estimator of the paper.
    """

    paired = True
    parity = "both"


class UnpairedOddSHAP(FourierRegression):
    """Independent coalitions, odd terms only: what pairing would cancel stays as noise.

    The targets are f(S) - β_∅ with β_∅ = (f(∅) + f([n])) / 2 (paper, "Ablation of Paired and
    Non-Paired Sampling").

    Examples:
        >>> import numpy as np
        >>> game = lambda coalitions: coalitions @ np.arange(8.0)
        >>> values = UnpairedOddSHAP(n=8, random_state=42).approximate(budget=100, game=game)
        >>> np.allclose(values.get_n_order_values(1), np.arange(8))
        True

    See Also:
        - :class:`~shapiq_oddshap.OddSHAP`: the estimator of the paper.
    """

    paired = False
    parity = "odd"


class UnpairedAllSHAP(FourierRegression):
    """Independent coalitions, terms of both parities under one constraint each (Appendix C.2).

    Twice the rows of the paired regression for the same budget, and the even terms to be modelled
    too (paper, "Ablation of Paired and Non-Paired Sampling").

    Examples:
        >>> import numpy as np
        >>> game = lambda coalitions: coalitions @ np.arange(8.0)
        >>> values = UnpairedAllSHAP(n=8, random_state=42).approximate(budget=100, game=game)
        >>> np.allclose(values.get_n_order_values(1), np.arange(8))
        True

    See Also:
        - :class:`~shapiq_oddshap.OddSHAP`: the estimator of the paper.
    """

    paired = False
    parity = "both"
