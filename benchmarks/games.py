"""The games by name: tree games of ``shapiq_benchmark``, tables, shapiq's stored games, closed forms.

A game that cannot be built raises :class:`GameUnavailableError` with the reason, which the
commands print. Nothing is downloaded but by ``shapiq_benchmark`` itself, into its
``SHAPIQ_DATA_DIR``, and nothing else is cached on disk but references, where the user says.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from shapiq import ExactComputer, Game

from benchmarks.closed_forms import CLOSED_FORMS
from benchmarks.instance import (
    FLOOR,
    CountedGame,
    GameUnavailableError,
    Instance,
    table_lookup,
)
from benchmarks.tree_game import TreeGameValues

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd
    from shapiq import InteractionValues

__all__ = [
    "FLOOR",
    "GAMES",
    "PAPER_BUDGETS",
    "PAPER_GAMES",
    "CountedGame",
    "GameUnavailableError",
    "Instance",
    "PaperGame",
    "Source",
    "count_instances",
    "count_players",
    "explained_tree",
    "file_sources",
    "game_title",
    "games_of",
    "load_instance",
    "resolve_games",
    "table_directory",
    "table_lookup",
    "table_source",
]


@dataclass(frozen=True)
class PaperGame:
    """A game of the paper's table 1, or one beside it.

    Attributes:
        title: Its name for people.
        budget: The evaluations of the paper's table 1, about 100 per player.
        column: Its name in the paper's table; ``None`` for a game that is not there.
        dataset: The dataset of ``shapiq_benchmark`` that its trees are fitted to.
        table: The file of its precomputed values.
    """

    title: str
    budget: int
    column: str | None = None
    dataset: str | None = None
    table: str | None = None


PAPER_GAMES = {
    "distilbert": PaperGame("DistilBERT", 1440, "DistilBERT14", table="distilbert14.npz"),
    "estate": PaperGame("Estate", 1722, "Estate15", "real_estate"),
    "vit16": PaperGame("ViT16", 1705, "ViT16", table="vit16.npz"),
    "cancer": PaperGame("Cancer", 2281, "Cancer30", "breast_cancer"),
    "il60": PaperGame("IL60", 5521, "IL60", "independentlinear60"),
    "cg60": PaperGame("CG60", 5521, "CG60", "corrgroups60"),
    "nhanes": PaperGame("NHANES", 5864, "NHANES79", "nhanesi"),
    "crime": PaperGame("Crime", 11126, "Crime101", "communities_and_crime"),
    "estate-tabpfn": PaperGame("Estate (TabPFN)", 1722, table="estate_tabpfn15.npz"),
}
"""The games by name, in the paper's order."""
PAPER_BUDGETS = {name: game.budget for name, game in PAPER_GAMES.items()}
GAMES = tuple(PAPER_GAMES)
REFERENCE_ROWS = 50


@dataclass(frozen=True)
class Source:
    """Where a game comes from; small and picklable, so that worker processes build the game.

    Attributes:
        name: The game's name in results.
        table: The file of precomputed values; ``None`` for a tree game and a closed form.
        stored: The files in which shapiq stored the instances, instead of a table.
        references: The folder in which a closed form's reference values may be kept.
    """

    name: str
    table: Path | None = None
    stored: tuple[Path, ...] = ()
    references: Path | None = None


def game_title(name: str) -> str:
    """Return a game's name for people."""
    return PAPER_GAMES[name].title if name in PAPER_GAMES else name


def games_of(rows: pd.DataFrame) -> list[str]:
    """Return the games in the rows, the known ones in the paper's order."""
    present = list(rows["game"].unique())
    return [game for game in GAMES if game in present] + sorted(set(present) - set(GAMES))


def resolve_games(names: Iterable[str], tables: Path | None, files: Iterable[Path]) -> list[Source]:
    """Return the sources of the named games, and those of the files and folders of ``--table``.

    Args:
        names: Names of ``GAMES`` and of closed forms.
        tables: The directory of the known tables.
        files: Further games; see :func:`file_sources`.

    Raises:
        GameUnavailableError: If a name is unknown, or a folder holds no games.
    """
    sources = []
    for name in names:
        if name not in PAPER_GAMES and name not in CLOSED_FORMS:
            msg = f"There is no game {name!r}. Known are {', '.join([*GAMES, *CLOSED_FORMS])}."
            raise GameUnavailableError(msg)
        file = PAPER_GAMES[name].table if name in PAPER_GAMES else None
        sources.append(Source(name, None if file is None else table_directory(tables) / file))
    return sources + [source for file in files for source in file_sources(file)]


def file_sources(path: Path) -> list[Source]:
    """Return the games of a file, or of a folder with all that is in it.

    A file is a table, which holds a game with its instances, or shapiq's: what ``Game.save_values``
    and ``Game.save`` write, one instance each. Of shapiq's files in one folder those whose names
    differ in a last number alone (as in shapiq's precomputed games) are instances of one game.

    Raises:
        GameUnavailableError: If a folder holds no games.
    """
    if not path.is_dir():
        return [_shapiq_source([path], path.stem) if _is_shapiqs(path) else table_source(path)]
    files = sorted(file for file in path.rglob("*") if file.suffix in (".npz", ".json"))
    found = [table_source(file) for file in files if not _is_shapiqs(file)]
    groups: dict[str, list[Path]] = {}
    for file in filter(_is_shapiqs, files):
        parts = [*file.relative_to(path.parent).parts[:-1], re.sub(r"_?\d+$", "", file.stem)]
        groups.setdefault("-".join(filter(None, parts)), []).append(file)
    found += [_shapiq_source(members, name) for name, members in groups.items()]
    if not found:
        msg = f"the folder {path.name} holds no .npz or .json file of a game"
        raise GameUnavailableError(msg)
    return found


def _is_shapiqs(file: Path) -> bool:
    """Return whether shapiq wrote a file: as JSON, or as an archive that names the coalitions."""
    if file.suffix != ".npz" or not file.is_file():
        return file.suffix == ".json"
    with np.load(file) as data:
        return "coalitions" in data


def _shapiq_source(files: list[Path], name: str) -> Source:
    """Return the source of shapiq's files, in the order of the numbers in their names."""

    def numbers(file: Path) -> tuple[list[int], str]:
        return [int(number) for number in re.findall(r"\d+", file.stem)], file.stem

    return Source(name, stored=tuple(sorted(files, key=numbers)))


def table_source(file: Path) -> Source:
    """Return the source of a precomputed table; a known file keeps its game's name."""
    known = {game.table: name for name, game in PAPER_GAMES.items()}
    return Source(known.get(file.name, file.stem), file)


def table_directory(tables: Path | None) -> Path:
    """Return where the precomputed tables lie: the option, the environment, a neighbour folder."""
    beside = Path(__file__).parents[2] / "shared" / "data" / "tables"
    return tables or Path(os.environ.get("SHAPIQ_ODDSHAP_TABLES", beside))


def count_instances(source: Source) -> int:
    """Return how many instances a game has.

    Raises:
        GameUnavailableError: If the game cannot be built, with the reason.
    """
    if source.stored:
        return len(source.stored)
    if source.name in CLOSED_FORMS:
        return CLOSED_FORMS[source.name].instances
    if source.table is None:
        return len(_tree_model(source.name)[2])
    if not source.table.is_file():
        msg = (
            f"no file {source.table.name}; precomputed values come with --tables DIR or --table FILE "
            "(format in benchmarks/README.md)"
        )
        raise GameUnavailableError(msg)
    with np.load(source.table) as data:
        return len(data["shapley_values"])


def count_players(source: Source) -> int:
    """Return a game's number of players.

    Raises:
        GameUnavailableError: If the game cannot be built, with the reason.
    """
    if source.name in CLOSED_FORMS:
        return CLOSED_FORMS[source.name].n
    if source.table is not None and source.table.is_file():
        with np.load(source.table) as data:
            return int(data["n_players"])
    return load_instance(source, 0).n


@lru_cache(maxsize=2)
def load_instance(source: Source, index: int) -> Instance:
    """Build one instance of a game.

    Args:
        source: The game.
        index: Which one: a row of the test split or of the table, the file, or the seed.

    Raises:
        GameUnavailableError: If the game cannot be built, with the reason.
    """
    if source.stored:
        return _shapiq_instance(source.stored[index])
    if source.table is not None:
        return _table(source.table, index)
    if source.name in CLOSED_FORMS:
        return CLOSED_FORMS[source.name].make(index, source.references)
    return _tree_instance(source.name, index)


def _table(file: Path, index: int) -> Instance:
    """Read one row of a table of precomputed values."""
    with np.load(file) as data:
        n, values, shapley = (
            int(data["n_players"]),
            data["values"][index],
            data["shapley_values"][index],
        )
    return Instance(n, table_lookup(values, n), shapley)


def _shapiq_instance(file: Path) -> Instance:
    """Read a game that shapiq stored, and compute its Shapley values from all of its values.

    Raises:
        GameUnavailableError: If the file holds other than the values of all coalitions.
    """
    coalitions, stored = _shapiq_values(file)
    n = coalitions.shape[1]
    values = np.full(2**n, np.nan)
    values[coalitions @ (1 << np.arange(n))] = stored
    if np.isnan(values).any():
        msg = f"{file.name} holds {len(stored)} values, but all {2**n} of {n} players are required"
        raise GameUnavailableError(msg)
    lookup = table_lookup(values, n)
    exact = ExactComputer(lookup, n)("SV", 1)
    return Instance(n, lookup, exact.get_n_order_values(1))


def _shapiq_values(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the coalitions as boolean rows, and their values."""
    if file.suffix == ".npz":
        with np.load(file) as data:
            return data["coalitions"].astype(bool), data["values"]
    game = Game.load(file, normalize=False)
    coalitions = np.zeros((len(game.game_values), game.n_players), dtype=bool)
    for row, members in zip(coalitions, game.game_values, strict=True):
        row[list(members)] = True
    return coalitions, np.array(list(game.game_values.values()))


def _tree_instance(name: str, index: int) -> Instance:
    """Explain row ``index`` of the test split: XGBoost and 50 reference rows, as in the paper."""
    model, references, rows, class_index = _tree_model(name)
    exact = explained_tree(name, index, "SV", 1).get_n_order_values(1)
    values = TreeGameValues(model, references, rows[index], class_index)
    return Instance(len(exact), values, exact)


def explained_tree(name: str, index: int, what: str, order: int) -> InteractionValues:
    """Return the exact values of a tree game by shapiq's explainer.

    Args:
        name: The game.
        index: Which prediction is explained.
        what: The index, such as ``"SII"``.
        order: Its largest order.
    """
    model, references, rows, class_index = _tree_model(name)
    from shapiq_benchmark import InterventionalTreeComputer
    from shapiq_games import InterventionalTreeGame

    game = InterventionalTreeGame(model, references, rows[index], class_index=class_index)
    return InterventionalTreeComputer(game).exact_values(what, order)


@lru_cache(maxsize=1)
def _tree_model(name: str) -> tuple[Any, np.ndarray, np.ndarray, int | None]:
    """Fit a game's model once for all of its instances."""
    try:
        from shapiq_benchmark.setups import InterventionalTreeSetup
    except ImportError:
        msg = "its data and model come with shapiq >= 1.8 (shapiq_benchmark), which needs Python >= 3.12"
        raise GameUnavailableError(msg) from None
    setup = InterventionalTreeSetup(
        dataset=PAPER_GAMES[name].dataset, model="xgboost", n_reference=REFERENCE_ROWS
    )
    try:
        game, split = setup.build(), setup.load_split()
    except (OSError, ImportError) as error:
        first = re.split(r": \w+\(| https?:|\n", str(error))[0]  # no exceptions inside, no address
        msg = f"shapiq_benchmark cannot build it: {first}"
        raise GameUnavailableError(msg) from None
    return game.model, game.reference_data, split.x_test, game.class_index
