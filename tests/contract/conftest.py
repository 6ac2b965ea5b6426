"""Every approximator of the package, under one contract: a new one joins by its registration."""

import pytest

from shapiq_oddshap.approximators import APPROXIMATORS


@pytest.fixture(params=APPROXIMATORS.values(), ids=APPROXIMATORS.keys())
def approximator(request):
    """An approximator class."""
    return request.param


@pytest.fixture
def budget_for():
    """A budget of at least that size which the approximator takes for n players."""
    return lambda cls, n, least: max(least, cls(n).required_budget())
