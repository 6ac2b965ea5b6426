"""The games by name, with exact Shapley values: tree games of ``shapiq_benchmark``, and tables.

A game that cannot be built raises :class:`GameUnavailableError` with the reason, which the
commands print. Nothing is downloaded but by ``shapiq_benchmark`` itself, into its
``SHAPIQ_DATA_DIR``, and nothing else is cached on disk.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from shapiq import Game

from benchmarks.closed_forms import CLOSED_FORMS
from benchmarks.tree_game import TreeGameValues
from shapiq_oddshap import OddSHAP

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "FLOOR",
    "GAMES",
    "PAPER_BUDGETS",
    "CountedGame",
    "GameUnavailableError",
    "Instance",
    "Source",
    "count_instances",
    "load_instance",
    "resolve_games",
    "table_lookup",
    "table_source",
]

TREE_DATASETS = {
    "estate": "real_estate",
    "cancer": "breast_cancer",
    "il60": "independentlinear60",
    "cg60": "corrgroups60",
    "nhanes": "nhanesi",
    "crime": "communities_and_crime",
}
TABLE_FILES = {
    "distilbert": "distilbert14.npz",
    "vit16": "vit16.npz",
    "estate-tabpfn": "estate_tabpfn15.npz",
}
PAPER_BUDGETS = {
    "distilbert": 1440,
    "estate": 1722,
    "vit16": 1705,
    "cancer": 2281,
    "il60": 5521,
    "cg60": 5521,
    "nhanes": 5864,
    "crime": 11126,
    "estate-tabpfn": 1722,
}
"""The evaluations of the paper's table 1, about 100 per player, in the paper's order of games."""
GAMES = tuple(PAPER_BUDGETS)
REFERENCE_ROWS = 50

Values = Callable[[np.ndarray], np.ndarray]


class GameUnavailableError(Exception):
    """A game cannot be built here; the message is the reason."""


@dataclass(frozen=True)
class Source:
    """Where a game comes from; small and picklable, so that worker processes build the game.

    Attributes:
        name: The game's name in results.
        table: The file of precomputed values; ``None`` for a tree game.
    """

    name: str
    table: Path | None = None


@dataclass(frozen=True)
class Instance:
    """One explained prediction.

    Attributes:
        n: Number of players.
        value_function: The value function on boolean rows.
        shapley: Its exact Shapley values.
    """

    n: int
    value_function: Values
    shapley: np.ndarray

    def mean_squared_error(self, estimate: np.ndarray) -> float:
        """Return the paper's error: the mean of the squared errors over the players."""
        return float(np.mean((estimate - self.shapley) ** 2))

    def coverage(self, estimate: np.ndarray, variances: np.ndarray) -> float:
        """Return the share of the exact values that lie within the 90 % intervals."""
        width = _QUANTILE * np.sqrt(variances) + _ROUNDING * np.abs(estimate).max()
        return float(np.mean(np.abs(estimate - self.shapley) <= width))


FLOOR = 1e-13
"""Smaller errors are the rounding of models in single precision."""

_QUANTILE = 1.6449
"""Of the normal distribution at 95 %, so that 90 % lie within."""

_SEEDS = 20
"""Instances of a game in closed form."""

_ROUNDING = 1e-9
"""Of the largest value: an exact estimate and an exact value differ by as much."""


class CountedGame(Game):  # type: ignore[misc]
    """A shapiq game that counts its evaluations and the seconds that they take."""

    def __init__(self, instance: Instance) -> None:
        """Wrap an instance."""
        super().__init__(instance.n, normalize=False)
        self._instance = instance
        self.evaluations = 0
        self.seconds = 0.0

    def __call__(self, *args: Any, **options: Any) -> np.ndarray:  # noqa: ANN401
        """Return the values of the coalitions; shapiq's checks of them are the game's time too."""
        start = time.perf_counter()
        values: np.ndarray = super().__call__(*args, **options)
        self.seconds += time.perf_counter() - start
        return values

    def value_function(self, coalitions: np.ndarray) -> np.ndarray:
        """Return the values of the coalitions."""
        self.evaluations += len(coalitions)
        return self._instance.value_function(coalitions)


def resolve_games(names: Iterable[str], tables: Path | None, files: Iterable[Path]) -> list[Source]:
    """Return the sources of the named games, and one per file of ``--table``.

    Args:
        names: Names of ``GAMES``.
        tables: The directory of the known tables.
        files: Further tables, named after the file.

    Raises:
        GameUnavailableError: If a name is unknown.
    """
    sources = []
    for name in names:
        if name not in GAMES:
            msg = f"There is no game {name!r}. Known are {', '.join(GAMES)}."
            raise GameUnavailableError(msg)
        file = TABLE_FILES.get(name)
        sources.append(Source(name, None if file is None else table_directory(tables) / file))
    return sources + [table_source(file) for file in files]


def table_source(file: Path) -> Source:
    """Return the source of a precomputed table; a known file keeps its game's name."""
    known = {file: name for name, file in TABLE_FILES.items()}
    return Source(known.get(file.name, file.stem), file)


def table_directory(tables: Path | None) -> Path:
    """Return where the precomputed tables lie: the option, the environment, a neighbour folder."""
    beside = Path(__file__).parents[2] / "shared" / "data" / "tables"
    return tables or Path(os.environ.get("SHAPIQ_ODDSHAP_TABLES", beside))


def count_instances(source: Source) -> int:
    """Return how many predictions a game explains.

    Raises:
        GameUnavailableError: If the game cannot be built, with the reason.
    """
    if source.name in CLOSED_FORMS:
        return _SEEDS
    if source.table is None:
        return len(_tree_model(source.name)[2])
    if not source.table.is_file():
        msg = (
            f"no file {source.table.name}; precomputed values come with --tables DIR or --table FILE "
            "(format in benchmarks/README.md)"
        )
        raise GameUnavailableError(msg)
    with np.load(source.table, allow_pickle=False) as data:
        return len(data["shapley_values"]) if "shapley_values" in data else 1


@lru_cache(maxsize=2)
def load_instance(source: Source, index: int) -> Instance:
    """Build one instance of a game.

    Args:
        source: The game.
        index: Which prediction is explained: a row of the test split, or of the table.

    Raises:
        GameUnavailableError: If the game cannot be built, with the reason.
    """
    if source.name in CLOSED_FORMS:
        make, n = CLOSED_FORMS[source.name]
        return Instance(n, *make(n, index))
    if source.table is None:
        return _tree_instance(source.name, index)
    return _table(source.table, index)


def _table(file: Path, index: int) -> Instance:
    """Read one row of a table of precomputed values, or a game as shapiq stores it."""
    with np.load(file, allow_pickle=False) as data:
        if "shapley_values" not in data:
            return _stored_by_shapiq(data["coalitions"], data["values"])
        n, values, shapley = (
            int(data["n_players"]),
            data["values"][index],
            data["shapley_values"][index],
        )
    return Instance(n, table_lookup(values, n), shapley)


def _stored_by_shapiq(coalitions: np.ndarray, values: np.ndarray) -> Instance:
    """Return the game of shapiq's ``Game.save``: all coalitions, in any order, and their values."""
    n = coalitions.shape[1]
    if len(coalitions) != 2**n:
        msg = f"a stored game of {len(coalitions)} coalitions, where all {2**n} are needed"
        raise GameUnavailableError(msg)
    ordered = np.empty(2**n)
    ordered[coalitions.astype(bool) @ (1 << np.arange(n))] = values
    lookup = table_lookup(ordered, n)
    exact = OddSHAP(n).approximate(2**n, lookup)
    return Instance(n, lookup, exact.get_n_order_values(1))


def table_lookup(values: np.ndarray, n: int) -> Values:
    """Return the value function of a game by a table; column b holds the coalition of bits b."""
    bits = 1 << np.arange(n)
    return lambda coalitions: values[coalitions @ bits]


def _tree_instance(name: str, index: int) -> Instance:
    """Explain row ``index`` of the test split: XGBoost and 50 reference rows, as in the paper."""
    model, references, rows, class_index = _tree_model(name)
    from shapiq_benchmark import InterventionalTreeComputer
    from shapiq_games import InterventionalTreeGame

    game = InterventionalTreeGame(model, references, rows[index], class_index=class_index)
    exact = InterventionalTreeComputer(game).exact_values("SV", 1)
    values = TreeGameValues(model, references, rows[index], class_index)
    return Instance(game.n_players, values, exact.get_n_order_values(1))


@lru_cache(maxsize=1)
def _tree_model(name: str) -> tuple[Any, np.ndarray, np.ndarray, int | None]:
    """Fit a game's model once for all of its instances."""
    try:
        from shapiq_benchmark.setups import InterventionalTreeSetup
    except ImportError:
        msg = "its data and model come with shapiq >= 1.8 (shapiq_benchmark), which needs Python >= 3.12"
        raise GameUnavailableError(msg) from None
    setup = InterventionalTreeSetup(
        dataset=TREE_DATASETS[name], model="xgboost", n_reference=REFERENCE_ROWS
    )
    try:
        game, split = setup.build(), setup.load_split()
    except (OSError, ImportError) as error:
        first = re.split(r": \w+\(| https?:|\n", str(error))[0]  # no exceptions inside, no address
        msg = f"shapiq_benchmark cannot build it: {first}"
        raise GameUnavailableError(msg) from None
    return game.model, game.reference_data, split.x_test, game.class_index
