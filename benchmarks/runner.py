"""Runs tasks into a tidy CSV, row by row, so that an interrupted run can continue.

A row is one approximation. Rows are appended as they finish and sorted at the end, so that an
interrupted and resumed run gives the same file as an uninterrupted one, but for the measured
seconds in the columns ``TIMINGS``.
"""

from __future__ import annotations

import csv
import io
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

import joblib
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from benchmarks.games import CountedGame, Source, load_instance
from benchmarks.methods import METHODS, MethodUnavailableError
from benchmarks.report import versions_in_short
from shapiq_oddshap.approximators.base import ShapleyApproximator

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from shapiq import InteractionValues

    from benchmarks.games import Instance
    from benchmarks.methods import Build

__all__ = [
    "COLUMNS",
    "TIMINGS",
    "CountedRun",
    "Row",
    "Task",
    "Work",
    "approximate",
    "measure",
    "row_of",
    "row_or_note",
    "run_counted",
    "run_tasks",
]

TIMINGS = ("seconds", "stages")
_KEY = ("game", "instance", "method", "budget", "options", "repetition")

_APART = 1000
"""Seeds from one repetition to the next: more than a table holds instances."""


@dataclass(frozen=True)
class Task:
    """What makes a row.

    Attributes:
        source: The game.
        instance: Which prediction is explained.
        method: The method's name.
        budget: Evaluations that it may make.
        options: Its options as JSON.
        repetition: Which of several runs that differ in their seeds.
    """

    source: Source
    instance: int
    method: str
    budget: int
    options: str = "{}"
    repetition: int = 0

    @property
    def seed(self) -> int:
        """The method's seed; that of the first repetition is the instance."""
        return self.instance + _APART * self.repetition

    @property
    def key(self) -> tuple[str, ...]:
        """The row's key as it stands in the file."""
        numbers = str(self.budget), self.options, str(self.repetition)
        return self.source.name, str(self.instance), self.method, *numbers


@dataclass(frozen=True)
class Row:
    """A line of the CSV.

    Attributes:
        game: The game's name.
        instance: Which prediction was explained.
        method: The method's name.
        budget: Evaluations that it was allowed.
        options: Its options as JSON.
        repetition: Which of several runs that differ in their seeds.
        order: The interaction order that ``value`` belongs to, in spectra only.
        value: The mean squared error; in spectra the share of the energy.
        evaluations: Evaluations that were made.
        covered: Share of the true values within the 90 % intervals, of methods that give any.
        n: Number of players.
        scale: The mean of the squared exact values, which relative errors are relative to.
        reference_error: The mean squared error of the exact values, where they are estimated.
        note: Why there is no value.
        versions: The versions of the package, with a digest of its files, and of shapiq; empty in
            rows from before there was this column.
        seconds: Seconds spent outside the game.
        stages: Seconds by stage as JSON, of methods that report them.
    """

    game: str
    instance: int
    method: str
    budget: int
    options: str
    repetition: int = 0
    order: int | None = None
    value: float | None = None
    evaluations: int | None = None
    covered: float | None = None
    n: int | None = None
    scale: float | None = None
    reference_error: float | None = None
    note: str = ""
    versions: str = ""
    seconds: float | None = None
    stages: str = ""


COLUMNS = tuple(field.name for field in fields(Row))
Work = Callable[[Task], list[Row]]


def approximate(task: Task) -> list[Row]:
    """Run one approximation and measure its error; a refusal or failure becomes a note."""
    instance = load_instance(task.source, task.instance)
    method = METHODS[task.method]
    if not method.affordable(instance.n, task.budget):
        return [row_of(task, n=instance.n, note="left out: it would take minutes at this size")]
    return [row_or_note(task, instance.n, lambda: measure(task, instance, method.build))]


def row_or_note(task: Task, n: int, make: Callable[[], Row]) -> Row:
    """Return a row, or one that notes why a method refused or failed."""
    try:
        return make()
    except MethodUnavailableError as error:
        note = f"left out: {error}"
    except Exception as error:  # noqa: BLE001 - a method that fails is a result of the comparison
        note = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
    return row_of(task, n=n, note=note)


def row_of(task: Task, **columns: object) -> Row:
    """Return a row with the task's key, and the versions that make it."""
    key = task.source.name, task.instance, task.method, task.budget, task.options, task.repetition
    return Row(*key, versions=versions_in_short(), **columns)  # type: ignore[arg-type]


def measure(task: Task, instance: Instance, build: Build) -> Row:
    """Return the row of a task, of an approximator that is built with its seed and options."""
    run = run_counted(build, instance, task.budget, task.seed, **json.loads(task.options))
    values = run.values.get_n_order_values(1)
    stages = {stage: round(seconds, 6) for stage, seconds in run.stages.items()}
    return row_of(
        task,
        value=instance.mean_squared_error(values),
        evaluations=run.evaluations,
        covered=None if run.variances is None else instance.coverage(values, run.variances),
        n=instance.n,
        scale=instance.mean_square(),
        reference_error=instance.reference_error,
        seconds=round(run.seconds, 6),
        stages=json.dumps(stages) if stages else "",
    )


@dataclass(frozen=True, eq=False)
class CountedRun:
    """One approximation.

    Attributes:
        values: The Shapley values.
        variances: Their variances, of methods that give any.
        seconds: Seconds spent outside the game, the construction included.
        stages: Seconds by stage, of methods that report them.
        evaluations: Evaluations that were made.
    """

    values: InteractionValues
    variances: np.ndarray | None
    seconds: float
    stages: Mapping[str, float]
    evaluations: int


def run_counted(
    build: Build, instance: Instance, budget: int, seed: int, **options: object
) -> CountedRun:
    """Approximate within a budget on one thread, and take the game's seconds out."""
    game, variances, stages = CountedGame(instance), None, {}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        approximator = build(n=instance.n, random_state=seed, **options)
        if isinstance(approximator, ShapleyApproximator):
            estimate = approximator.estimate(budget, game)
            values, variances = estimate.values, estimate.variances
            stages = dict(estimate.diagnostics.seconds)
        else:
            values = approximator.approximate(budget=budget, game=game)
        seconds = time.perf_counter() - start - game.seconds
    return CountedRun(values, variances, seconds, stages, game.evaluations)


def run_tasks(
    tasks: Sequence[Task],
    file: Path,
    *,
    work: Work = approximate,
    jobs: int = 1,
    resume: bool = True,
    reuse: Sequence[Path] = (),
) -> None:
    """Run the tasks that ``file`` does not hold yet, and leave it sorted.

    Args:
        tasks: What to run.
        file: The CSV.
        work: Makes the rows of a task.
        jobs: Number of processes.
        resume: Whether to keep the rows that the file holds.
        reuse: Other files, whose rows on the same instances and budgets come along, of whatever
            method.

    Raises:
        FileNotFoundError: If a file to reuse is not there.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    wanted = {
        (task.source.name, str(task.instance), str(task.budget), str(task.repetition))
        for task in tasks
    }
    rows = {_key(row): row for row in (_read(file) if resume else [])}
    for other in reuse:
        if not other.exists():
            raise FileNotFoundError(other)
        for row in _read(other):
            if (row["game"], row["instance"], row["budget"], row["repetition"]) in wanted:
                rows.setdefault(_key(row), row)
    _write(file, list(rows.values()))
    done = {key[: len(_KEY)] for key in rows}
    missing = [task for task in tasks if task.key not in done]
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    results = parallel(joblib.delayed(work)(task) for task in missing)
    with file.open("a", newline="") as stream:
        for made in tqdm(results, total=len(tasks), initial=len(tasks) - len(missing), unit="run"):
            # one write per task, so that an interruption leaves whole tasks
            stream.write(_text([asdict(row) for row in made]))
            stream.flush()
    _write(file, _read(file))


def _key(row: dict[str, str]) -> tuple[str, ...]:
    """Return what makes a row unique."""
    return tuple(row[column] for column in (*_KEY, "order"))


def _read(file: Path) -> list[dict[str, str]]:
    """Return the file's rows; a last line that an interruption cut short goes with its task."""
    if not file.exists():
        return []
    text = file.read_text()
    rows = [
        dict.fromkeys(COLUMNS, "") | {"repetition": "0"} | row  # an older file has fewer columns
        for row in csv.DictReader(io.StringIO(text))
    ]
    if rows and not text.endswith("\n"):
        cut = [rows[-1][column] for column in _KEY]
        rows = [row for row in rows if [row[column] for column in _KEY] != cut]
    return rows


def _write(file: Path, rows: list[dict[str, str]]) -> None:
    """Replace the file by the sorted rows, at once."""
    numbers = ("instance", "budget", "repetition", "order")
    order = sorted(
        rows,
        key=lambda row: tuple(
            int(row[column] or -1) if column in numbers else row[column]
            for column in (*_KEY, "order")
        ),
    )
    new = file.with_suffix(".tmp")
    new.write_text(",".join(COLUMNS) + "\n" + _text(order))
    new.replace(file)


def _text(rows: Sequence[dict[str, object]] | Sequence[dict[str, str]]) -> str:
    """Return rows as CSV lines."""
    stream = io.StringIO()
    csv.DictWriter(stream, COLUMNS, lineterminator="\n").writerows(rows)
    return stream.getvalue()
